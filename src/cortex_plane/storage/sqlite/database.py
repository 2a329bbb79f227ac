"""The database protocol on a SQLite file, and who else has the file open."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from cortex_plane.clock import Instant, instant
from cortex_plane.errors import InvalidInput, Unavailable
from cortex_plane.json import dumps
from cortex_plane.storage.database import NotOpen
from cortex_plane.storage.sqlite.connection import connect, forget_statistics, translate, translated
from cortex_plane.storage.sqlite.schema import SqliteSchema
from cortex_plane.storage.sqlite.signals import SqliteSignals
from cortex_plane.storage.sqlite.writer import Writer
from cortex_plane.storage.statements import Dialect, Statement, named, statement
from cortex_plane.storage.transactions import Begin, Result
from cortex_plane.storage.transactions import run as run_script
from cortex_plane.worker.threads import in_a_thread

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.storage.database import Row

READERS = 4
WAKES_NOBODY = frozenset(
    {
        "checkpoints/add_blobs",
        "checkpoints/count_saved",
        "checkpoints/save_batch",
        "checkpoints/save_one",
        "checkpoints/which_saved",
        "events/add",
        "graphs/add_checkpoints",
        "graphs/add_values",
        "graphs/add_writes",
        "graphs/hold",
        "queue/choose",
        "queue/count_turns",
        "queue/first_ready",
        "queue/first_ready_of_queue",
        "queue/is_steered",
        "queue/ready_beyond",
        "queue/ready_beyond_in_queue",
        "queue/turns",
        "seals/add",
        "workers/beat",
    }
)
"""Statements that make no work ready: a worker that looked at the queue after each would be in the way of its own checkpoints."""


class SqliteDatabase:
    """The session of one event loop with a SQLite file."""

    dialect: Dialect = "sqlite"
    bounds_waits = True

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.description = f"SQLite, {path}"
        self.schema = SqliteSchema(self, clock)
        self.signals = SqliteSignals(path)
        self._clock = clock
        self._writer = Writer(partial(connect, path, for_writing=True), self._committed, forget_statistics)
        self._may_wake = False
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="cortex-sqlite-reader")
        self._local = threading.local()
        self._reading: list[apsw.Connection] = []
        self._columns: dict[str, tuple[str, ...]] = {}

    async def open(self, *, prepare: bool = True) -> None:
        """Creates the schema, and migrates an older one: no other program has a say in a file."""
        await in_a_thread(self._writer.start)
        if prepare:
            try:
                await self.schema.upgrade()
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        await in_a_thread(self._close)

    def _close(self) -> None:
        self.signals.close()
        self._writer.stop()
        self._readers.shutdown()
        for connection in self._reading:
            connection.close()

    async def read(self, name: str, /, **values: Any) -> Sequence[Row]:
        if self._writer.thread is None:
            raise NotOpen
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, statement(name, "sqlite"), values)

    async def write(self, name: str, /, **values: Any) -> Sequence[Row]:
        try:
            rows: Sequence[Row] = await self._writer.ask(partial(self._change, statement(name, "sqlite"), values))
            return rows
        except apsw.Error as error:
            raise translate(error, self.path) from error

    async def write_small(self, name: str, /, **values: Any) -> Sequence[Row]:
        """The event loop is blocked meanwhile, for about as long as encoding a large document would take."""
        done = self._writer.do(partial(self._change, statement(name, "sqlite"), values))
        if done is None:
            return await self.write(name, **values)
        if isinstance(done.error, apsw.Error):
            raise translate(done.error, self.path) from done.error
        if done.error is not None:
            raise done.error
        rows: Sequence[Row] = done.result
        return rows

    write_batch = write_once = write

    async def transact(self, begin: Begin[Result], connection: Any = None, *, divisible: bool = False) -> Result:
        def work(connection: apsw.Connection) -> Result:
            return run_script(begin, lambda asked: self._change(statement(asked.name, "sqlite"), asked.values, connection))

        if connection is not None:
            with translated(self.path):
                return work(_checked(connection))
        result: Result = await self._asked(work)
        return result

    def write_from_thread(self, name: str, timeout_seconds: float, /, **values: Any) -> Sequence[Row]:
        asked = self._writer.ask_from_thread(partial(self._change, statement(name, "sqlite"), values))
        try:
            rows: Sequence[Row] = asked.result(timeout_seconds)
            return rows
        except apsw.Error as error:
            raise translate(error, self.path) from error
        except TimeoutError:
            raise Unavailable(f"{self.path} did not take a write within {timeout_seconds:g} s.") from None

    async def join(self, connection: Any, name: str, /, **values: Any) -> None:
        with translated(self.path):
            _checked(connection).execute(named(name, "sqlite"), {**values, "now": self._clock.now()})

    def array(self, values: Iterable[str]) -> str:
        return dumps(list(values))

    def instant(self, moment: datetime) -> Instant:
        return instant(moment)

    async def run(self, work: Any) -> Any:
        """Any other work that writes, in a transaction of the writer."""

        def loud(connection: apsw.Connection) -> Any:
            self._may_wake = True
            return work(connection)

        return await self._asked(loud)

    async def _asked(self, work: Any) -> Any:
        try:
            return await self._writer.ask(work)
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def _read(self, wanted: Statement, values: dict[str, Any]) -> Sequence[Row]:
        with translated(self.path):
            return self._execute(wanted, values, self._reader())

    def _reader(self) -> apsw.Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = connect(self.path, for_writing=False)
            self._reading.append(self._local.connection)
        connection: apsw.Connection = self._local.connection
        return connection

    def _change(self, wanted: Statement, values: dict[str, Any], connection: apsw.Connection) -> Sequence[Row]:
        self._may_wake = self._may_wake or wanted.name not in WAKES_NOBODY
        return self._execute(wanted, values, connection)

    def _committed(self, changed: bool) -> None:
        """In the thread that has written. What a claim that found nothing might have woken, the next checkpoint must not wake."""
        may_wake, self._may_wake = self._may_wake, False
        if changed and may_wake:
            self.signals.something_committed()

    def _execute(self, wanted: Statement, values: dict[str, Any], connection: apsw.Connection) -> Sequence[Row]:
        cursor = connection.execute(wanted.sql, {**values, "now": self._clock.now()})
        first = cursor.fetchone()
        if first is None:
            return []
        columns = self._columns.get(wanted.name)
        if columns is None:
            columns = self._columns[wanted.name] = tuple(column[0] for column in cursor.get_description())
        return [dict(zip(columns, row, strict=True)) for row in (first, *cursor.fetchall())]


def _checked(connection: Any) -> apsw.Connection:
    """A caller's own connection, if it is one that can be joined."""
    if type(connection).__module__.split(".")[0] == "sqlite3":
        raise InvalidInput(
            "A connection of Python's sqlite3 cannot be joined: closing it would drop the file locks of this process, and "
            "commits could be lost. Open the file with apsw instead: apsw.Connection(path).",
            field="connection",
        )
    if not isinstance(connection, apsw.Connection):
        given = f"{type(connection).__module__}.{type(connection).__name__}"
        raise InvalidInput(f"On SQLite, connection= takes an apsw.Connection, not a {given}.", field="connection")
    return connection


# -- readers -----------------------------------------------------------------------------------
# Who keeps the write-ahead log of a SQLite file from being emptied: processes with an open read transaction.
#
# SQLite locks one of five bytes of the shared memory file for reading while a transaction is open, and Linux tells who
# holds locks.


LONG_LOG_BYTES = 64 * 1024 * 1024
LOCKS = Path("/proc/locks")
READ_MARKS = range(123, 128)
"""The bytes of the shared memory file that readers lock. The format of SQLite's WAL names them."""


@dataclass(frozen=True, slots=True)
class Reader:
    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})" if self.command else f"process {self.pid}"


def log_bytes(path: Path) -> int:
    try:
        return Path(f"{path}-wal").stat().st_size
    except OSError:
        return 0


def readers_of(path: Path) -> list[Reader]:
    """Other processes that read now; none where the system does not tell."""
    try:
        shared = Path(f"{path}-shm").stat()
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return []
    place = f"{os.major(shared.st_dev):02x}:{os.minor(shared.st_dev):02x}:{shared.st_ino}"
    found = {pid for line in lines if (pid := _reader_in(line, place)) is not None}
    return [Reader(pid, _command(pid)) for pid in sorted(found - {os.getpid()})]


def _reader_in(line: str, place: str) -> int | None:
    """A line such as `4: POSIX  ADVISORY  READ 1234 fe:00:9181 124 124`."""
    match line.split():
        case [_, "POSIX", _, "READ", pid, where, first, _] if where == place and int(first) in READ_MARKS and int(pid) > 0:
            return int(pid)
    return None


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode(errors="replace").strip()[:200]
