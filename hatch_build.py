"""Puts the file of htmx into what is built, from the wheel of django-htmx: nothing of others is kept in our repository."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from shutil import copyfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("static", "django_htmx", "htmx-2.min.js")
TARGET = Path("src", "cortex_plane", "dashboard", "static", "htmx.min.js")


class CopyHtmx(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        target = Path(self.root) / TARGET
        found = find_spec("django_htmx")
        if found is not None and found.origin is not None:
            copyfile(Path(found.origin).parent / SOURCE, target)
        elif not target.exists():  # An sdist brings it along.
            raise RuntimeError("To build cortex-plane, django-htmx is needed: it has the file of htmx.")
