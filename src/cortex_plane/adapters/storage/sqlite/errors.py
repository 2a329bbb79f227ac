"""SQLite's errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from cortex_plane.core.errors import Conflict, CortexError, InvalidInput, StorageFull, Unavailable, WrongDatabase


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error


def translate(error: apsw.Error, path: Path) -> CortexError:
    match error:
        case apsw.ConstraintError() if "FOREIGN KEY" in str(error):
            return InvalidInput(f"The database refused it: {error}.")
        case apsw.ConstraintError():
            return Conflict(f"The database refused it: {_plain(error)}")
        case apsw.FullError():
            return StorageFull(str(path))
        case apsw.ReadOnlyError():
            return WrongDatabase(
                f"{path} is read-only. Make the file and its folder writable, or name another with CORTEX_DATABASE_URL."
            )
        case apsw.NotADBError() | apsw.CorruptError():
            return WrongDatabase(f"{path} is not a SQLite database, or is damaged. Name another file with CORTEX_DATABASE_URL.")
        case apsw.CantOpenError():
            return WrongDatabase(f"{path} cannot be opened. Does its folder exist, and may this user write there?")
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable(f"{path} is locked by another process that writes for too long. Try again.")
        case apsw.IOError():
            return Unavailable(f"Reading or writing {path} failed: {_plain(error)} Nothing was changed.")
        case apsw.MismatchError() | apsw.TooBigError():
            return InvalidInput(f"The database refused it: {_plain(error)}")
        case _:
            return Unavailable(f"SQLite failed on {path}: {type(error).__name__}: {_plain(error)}")


def _plain(error: apsw.Error) -> str:
    return str(error).removeprefix("SQLITE_").rstrip(".") + "."
