"""Files that a run leaves, readable by their owner only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from cortex_plane.errors import InvalidInput

ONLY_OWNER, ONLY_OWNER_ENTERS = 0o600, 0o700


def make_private_folder(path: Path) -> None:
    """Creates a folder and its missing parents with mode 700. Existing folders keep their mode."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=ONLY_OWNER_ENTERS, exist_ok=True)


def open_private(path: Path) -> BinaryIO:
    """For writing, from the beginning."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, ONLY_OWNER), "wb")


def write_private(path: Path, text: str) -> None:
    with open_private(path) as file:
        file.write(text.encode())


# -- artifacts ---------------------------------------------------------------------------------
# Files that a handler leaves behind, in the folder of its run.


NAME_LIMIT = 200


class Kept(Awaitable[Path], os.PathLike[str]):
    """An artifact. An async handler awaits it to get the path. In a plain function it is already stored, and is a path
    itself."""

    __slots__ = ("_begin", "_taken", "path", "shown")

    def __init__(self, path: Path, begin: Callable[[], Awaitable[None]] | None, taken: Callable[[Kept], None]) -> None:
        self.path, self._begin, self._taken = path, begin, taken
        self.shown = f"ctx.artifact(…, {path.name!r})"

    def __await__(self) -> Generator[object, None, Path]:
        self._taken(self)
        if self._begin is not None:
            yield from self._begin().__await__()
        return self.path

    def __fspath__(self) -> str:
        return str(self.path)

    def abandon(self) -> None:
        """It will never be awaited."""


def artifact_path(folder: Path, content: bytes | str | Path, name: str | None) -> Path:
    """Where an artifact goes. Raises InvalidInput."""
    source = None if isinstance(content, bytes) else Path(content)
    if source is not None and not source.is_file():
        raise InvalidInput(f"There is no file {source} to keep as an artifact.", field="content")
    return folder / _checked(name if name is not None else source.name if source else None)


def store_artifact(target: Path, content: bytes | str | Path) -> None:
    """Writes atomically: the file gets its name only when it is complete and synced to disk. Slow, so not for the event
    loop."""
    make_private_folder(target.parent)
    # A unique temporary name, because two branches may write the same artifact at once.
    unfinished = target.with_name(f".{uuid4().hex}")
    try:
        with open_private(unfinished) as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                with Path(content).open("rb") as source:
                    shutil.copyfileobj(source, file)
            _sync(file)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """The name of a file is on disk when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checked(name: str | None) -> str:
    if not name or len(name) > NAME_LIMIT or name in (".", "..") or "/" in name or "\\" in name or not name.isprintable():
        raise InvalidInput(
            f"An artifact needs a plain file name of at most {NAME_LIMIT} characters, not {name!r:.80}.", field="name"
        )
    return name
