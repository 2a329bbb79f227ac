"""Files that a handler leaves behind, in the folder of its run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cortex_plane.core.errors import InvalidInput

NAME_LIMIT = 200


def keep_artifact(folder: Path, content: bytes | str | Path, name: str | None) -> Path:
    """A file appears under its name only when it is whole."""
    source = None if isinstance(content, bytes) else Path(content)
    if source is not None and not source.is_file():
        raise InvalidInput(f"There is no file {source} to keep as an artifact.", field="content")
    target = folder / _checked(name if name is not None else source.name if source else None)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{target.name}.{os.getpid()}"
    if source is not None:
        shutil.copyfile(source, unfinished)
    else:
        assert isinstance(content, bytes)
        unfinished.write_bytes(content)
    unfinished.replace(target)
    return target


def _checked(name: str | None) -> str:
    if not name or len(name) > NAME_LIMIT or name in (".", "..") or "/" in name or "\\" in name or not name.isprintable():
        raise InvalidInput(
            f"An artifact needs a plain file name of at most {NAME_LIMIT} characters, not {name!r:.80}.", field="name"
        )
    return name
