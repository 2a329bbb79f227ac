"""Which files make up an app, and whether one of them changed."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "venv"}
MOST = 5_000


def folder_of(app: str) -> Path:
    """Where APP has its code: the folder of its file, or of its module."""
    place, colon, attribute = app.rpartition(":")
    named = place if colon and place and not set("/\\") & set(attribute) else app
    if named.endswith(".py") or "/" in named or "\\" in named:
        return Path(named).resolve().parent
    spec = find_spec(named)
    return Path(spec.origin).parent if spec is not None and spec.origin else Path.cwd()


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """When each Python file in a folder was changed, and its size; of very many files, the first that are found."""
    found: dict[str, tuple[int, int]] = {}
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not name.startswith("."))
        for name in sorted(names):
            if name.endswith(".py"):
                found |= _state(os.path.join(where, name))
        if len(found) >= MOST:
            break
    return found


def _state(path: str) -> dict[str, tuple[int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return {}  # It is just being written.
    return {path: (status.st_mtime_ns, status.st_size)}
