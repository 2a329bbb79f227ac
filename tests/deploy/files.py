"""The files in deploy/, read."""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from cortex_plane.settings import OTHERS, PREFIX, Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"

Document = dict[str, Any]


def compose() -> Document:
    found: Document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def manifests() -> list[tuple[str, Document]]:
    """Every object of every file, with the file's name; kustomization.yaml is not an object."""
    return [
        (path.name, document)
        for path in sorted(KUBERNETES.glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for document in yaml.safe_load_all(path.read_text())
    ]


def manifest(kind: str, name: str) -> Document:
    (found,) = [one for _, one in manifests() if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def pods() -> dict[str, Document]:
    """The pod templates, by component."""
    found = [one["spec"]["template"] for _, one in manifests() if "template" in one.get("spec", {})]
    return {template["metadata"]["labels"]["app.kubernetes.io/component"]: template["spec"] for template in found}


def wrong_settings(names: set[str]) -> set[str]:
    """Variables of the family that a plane would refuse at its start. Those of the HTTP API are known where there is one."""
    known = {PREFIX + field.name.upper() for field in fields(Settings)} | OTHERS
    unknown = {name for name in names if name.startswith(PREFIX) and name not in known}
    if find_spec("cortex_plane.http") is None:
        unknown -= {name for name in unknown if name.startswith("CORTEX_HTTP_")}
    return unknown


def wrong_command(words: list[str]) -> str:
    """Why `cortex WORDS` cannot be started, or nothing."""
    from cortex_plane.cli.main import COMMANDS

    known = {*COMMANDS, "--help"} | ({"serve"} if find_spec("cortex_plane.http") is None else set())
    return "" if words[0] in known or " ".join(words[:2]) in known else f"there is no cortex {' '.join(words[:2])}"
