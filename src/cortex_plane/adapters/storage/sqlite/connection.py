"""Opens the SQLite file as it must be opened: WAL, every commit on disk, and only through apsw.

In one process only apsw may touch the file. Opening and closing it with Python's own sqlite3 drops the
file locks that apsw holds, another process then writes in between, and a commit is lost.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import apsw
import structlog

from cortex_plane.adapters.storage.sqlite.errors import translated
from cortex_plane.core.errors import WrongDatabase

log = structlog.get_logger()

BUSY_SECONDS = 30.0
MOST_PREPARED = 512
FIXED_WAL = [(3, 44, 6), (3, 50, 7), (3, 51, 3)]


def connect(path: Path, *, for_writing: bool) -> apsw.Connection:
    with translated(path):
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(path), flags=flags, statementcachesize=MOST_PREPARED)
        connection.set_busy_handler(patient(BUSY_SECONDS))
        _keep_plans(connection)
        _set_journal(connection, path)
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma cache_size = -64000")
        if not for_writing:
            connection.execute("pragma query_only = on")
        return connection


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
        mode = _switch_to_wal(connection)
        if mode != "wal" and str(path) != ":memory:":
            raise WrongDatabase(
                f"{path} cannot use a write-ahead log here (its file system gives {mode!r}). Move it to a local disk."
            )
        return
    log.warning("sqlite_wal_refused", sqlite=version, advice="Upgrade apsw: this SQLite can lose commits in WAL mode.")
    connection.execute("pragma journal_mode = delete")
