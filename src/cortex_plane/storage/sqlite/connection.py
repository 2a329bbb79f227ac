"""SQLite connections: pragmas, busy handling, and the translation of driver errors."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path

import apsw
import structlog

from cortex_plane.errors import Conflict, CortexError, DatabaseConfigError, InvalidInput, StorageFull, Unavailable


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
            return DatabaseConfigError(
                f"{path} is read-only. Make the file and its folder writable, or name another with CORTEX_DATABASE_URL."
            )
        case apsw.NotADBError() | apsw.CorruptError():
            return DatabaseConfigError(
                f"{path} is not a SQLite database, or is damaged. Name another file with CORTEX_DATABASE_URL.", by_statement=True
            )
        case apsw.CantOpenError():
            return DatabaseConfigError(f"{path} cannot be opened. Does its folder exist, and may this user write there?")
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable(f"{path} is locked by another process that writes for too long. Try again.")
        case apsw.IOError():
            return Unavailable(f"Reading or writing {path} failed: {_plain(error)} Nothing was changed.")
        case apsw.MismatchError() | apsw.TooBigError():
            return InvalidInput(f"The database refused it: {_plain(error)}")
        case _:
            return Unavailable(f"SQLite failed on {path}: {type(error).__name__}: {_plain(error)}", by_statement=True)


def _plain(error: apsw.Error) -> str:
    return str(error).removeprefix("SQLITE_").rstrip(".") + "."


# -- connection --------------------------------------------------------------------------------
# Opens the SQLite file as it must be opened: WAL, every commit on disk, and only through apsw.
#
# In one process only apsw may touch the file. Opening and closing it with Python's own sqlite3 drops the
# file locks that apsw holds, another process then writes in between, and a commit is lost.


log = structlog.get_logger()

BUSY_SECONDS = 30.0
MOST_PREPARED = 512
LOG_LIMIT_BYTES = 16 * 1024 * 1024
"""What is left of the write-ahead log when it begins anew. It grows beyond that while a reader stays open."""
MEMORY = ":memory:"
LARGEST_UNUSED_BYTES = 65_536
SHARED_MEMORY_ERRORS = frozenset(
    {apsw.SQLITE_IOERR_SHMOPEN, apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_SHMLOCK, apsw.SQLITE_IOERR_SHMMAP}
)
FIXED_WAL = [(3, 44, 6), (3, 50, 7), (3, 51, 3)]


def _create_private(path: Path) -> None:
    """A new file is for its owner only, and SQLite gives the files beside it the same mode. One that is there is not opened:
    to close it again would drop the locks of this process."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        pass  # It is there, or SQLite says why it cannot be.


def connect(path: Path, *, for_writing: bool) -> apsw.Connection:
    """Raises DatabaseConfigError. Where the file system cannot hold a write-ahead log, no new file is left behind."""
    absent = [] if str(path) == MEMORY else [file for file in _files_of(path) if not file.exists()]
    with translated(path):
        if absent:
            _create_private(path)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(path), flags=flags, statementcachesize=MOST_PREPARED)
        connection.set_busy_handler(patient(BUSY_SECONDS))
        _keep_plans(connection)
        try:
            _set_journal(connection, path)
        except NoWriteAheadLog:
            connection.close()
            _remove_unused(absent)
            raise
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma cache_size = -64000")
        connection.execute(f"pragma journal_size_limit = {LOG_LIMIT_BYTES}")
        if not for_writing:
            connection.execute("pragma query_only = on")
        return connection


class NoWriteAheadLog(DatabaseConfigError):
    """Processes cannot share memory through files there."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} cannot be used: its file system cannot hold a write-ahead log ({why}). Network file systems and some "
            "folders that containers share cannot. Put the file on a local disk, or use PostgreSQL: CORTEX_DATABASE_URL."
        )


def _files_of(path: Path) -> list[Path]:
    return [path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal"))]


def _remove_unused(made: list[Path]) -> None:
    """What we have just made, and nobody can have used: of the database at most its first page, without a table."""
    for file in made:
        if file.exists() and file.stat().st_size <= LARGEST_UNUSED_BYTES:
            file.unlink(missing_ok=True)


def _keep_plans(connection: apsw.Connection) -> None:
    """Otherwise SQLite plans a statement anew whenever it is given other values: 1.3 ms for a claim that takes 0.01."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def forget_statistics(connection: apsw.Connection) -> None:
    """Statistics of a table that was small when somebody typed ANALYZE would let each batch of changes walk through all jobs."""
    kept = connection.execute("select 1 from sqlite_schema where name = 'sqlite_stat1'").get
    if kept and connection.execute("select 1 from sqlite_stat1 limit 1").get:
        connection.execute("delete from sqlite_stat1")
        connection.execute("analyze sqlite_schema")


def patient(seconds: float):  # type: ignore[no-untyped-def]
    """A busy handler with short random sleeps: the built-in one can leave a second process waiting for seconds."""
    since = 0.0

    def wait(calls: int) -> bool:
        nonlocal since
        if calls == 0:
            since = time.monotonic()
        time.sleep(random.uniform(0.0002, 0.002))
        return time.monotonic() - since < seconds

    return wait


def wal_is_safe(version: str) -> bool:
    """Before these versions a WAL reset can lose commits of another connection."""
    have = tuple(int(part) for part in version.split("."))
    return have >= FIXED_WAL[-1] or any(have[:2] == fixed[:2] and have >= fixed for fixed in FIXED_WAL)


def _switch_to_wal(connection: apsw.Connection) -> str:
    """SQLite does not ask the busy handler here, so a file that another process is just making is waited for by hand."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return str(connection.execute("pragma journal_mode = wal").get)
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(random.uniform(0.0002, 0.002))


def _set_journal(connection: apsw.Connection, path: Path) -> None:
    version = apsw.sqlite_lib_version()
    if wal_is_safe(version):
        try:
            mode = _switch_to_wal(connection)
            connection.execute("select 1 from sqlite_schema limit 1").get  # noqa: B018 - the first use of the shared memory
        except apsw.IOError as error:
            code = int(getattr(error, "extendedresult", 0))
            if code in SHARED_MEMORY_ERRORS and connection.system_errno != ENOSPC:
                raise NoWriteAheadLog(path, str(apsw.mapping_extended_result_codes[code])) from None
            raise
        if mode != "wal" and str(path) != MEMORY:
            raise NoWriteAheadLog(path, f"its journal mode stays {mode!r}")
        return
    log.warning("sqlite_wal_refused", sqlite=version, advice="Upgrade apsw: this SQLite can lose commits in WAL mode.")
    connection.execute("pragma journal_mode = delete")
