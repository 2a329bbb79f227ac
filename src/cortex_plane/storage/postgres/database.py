"""The database protocol on PostgreSQL, and statements inside a caller's own transaction."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import asyncpg
import structlog

from cortex_plane.errors import DatabaseConfigError, InvalidInput, Unavailable
from cortex_plane.storage.database import NotOpen, Row
from cortex_plane.storage.postgres.errors import BROKEN, GAVE_WAY, translate
from cortex_plane.storage.postgres.schema import PostgresSchema
from cortex_plane.storage.postgres.signals import PostgresSignals
from cortex_plane.storage.statements import Dialect, Statement, named, statement
from cortex_plane.worker.threads import in_a_thread

if TYPE_CHECKING:
    from cortex_plane.storage.transactions import Begin, Result


async def fetch_in(connection: Any, name: str, values: dict[str, Any]) -> Sequence[Row]:
    match _driver_of(connection):
        case "asyncpg":
            wanted = statement(name, "postgres")
            rows: Sequence[Row] = await connection.fetch(wanted.sql, *[values[parameter] for parameter in wanted.parameters])
            return rows
        case "psycopg":
            return await _psycopg_rows(await _done(connection.execute(named(name, "postgres", "%({})s"), values)))
        case "sqlalchemy":
            from sqlalchemy import text

            result = await _done(connection.execute(text(named(name, "postgres")), values))
            return list(result.mappings()) if result.returns_rows else []
        case "sqlite3" | "apsw":
            raise InvalidInput("This plane is on PostgreSQL; a SQLite connection cannot carry its jobs.", field="connection")
        case _:
            raise InvalidInput(
                "On PostgreSQL, connection= takes a connection of asyncpg, psycopg or SQLAlchemy, "
                f"not a {type(connection).__module__}.{type(connection).__name__}.",
                field="connection",
            )


async def _psycopg_rows(cursor: Any) -> Sequence[Row]:
    if cursor.description is None:
        return []
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in await _done(cursor.fetchall())]


def _driver_of(connection: Any) -> str | None:
    """By the class's family, so that no driver need be installed that the caller does not use."""
    families = {cls.__module__.split(".")[0] for cls in type(connection).__mro__}
    return next((driver for driver in ("asyncpg", "psycopg", "sqlalchemy", "sqlite3", "apsw") if driver in families), None)


async def _done(result: Any) -> Any:
    """The asynchronous and the blocking connections of a driver share their words."""
    return await result if inspect.isawaitable(result) else result


# -- database ----------------------------------------------------------------------------------
# PostgreSQL as a Database: a small pool, one round trip for each statement, and patience with lost connections.


log = structlog.get_logger()

POOL_SIZE = 10
CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 60.0
LOCK_SECONDS = 0.5
TIMES_TO_GIVE_WAY = 3
PATIENCE_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0


class PlainConnection(asyncpg.Connection):
    """Nothing is reset when a connection goes back to the pool: only `cortex.marks_read` is left in a session, and may stay."""

    def get_reset_query(self) -> str:
        return ""


class PostgresDatabase:
    """The session of one event loop with a PostgreSQL server."""

    dialect: Dialect = "postgres"

    def __init__(self, url: str) -> None:
        self.url = url
        self.description = describe(url)
        self.schema = PostgresSchema(self)
        self.signals = PostgresSignals(self)
        self._prepare = False  # Until it is known that no pooler in transaction mode stands between: see `open`.
        self._pool: asyncpg.Pool | None = None
        self._kept: Any = None
        self._thread_connection = ThreadConnection(self)

    async def open(self, *, prepare: bool = True) -> None:
        """Creates the schema in an empty database. An older schema is refused, because other programs may depend on it.

        A pooler in transaction mode cannot keep prepared statements for us: then each is parsed anew."""
        if prepare:
            await self._prepare_schema()
        self._prepare = await self.signals.probe()
        self._thread_connection = ThreadConnection(self)
        try:
            self._pool = await asyncpg.create_pool(
                self.url,
                min_size=1,
                max_size=POOL_SIZE,
                connection_class=PlainConnection,
                init=_bound_waits if self.bounds_waits else None,
                **self.options,
            )
        except (*BROKEN, asyncpg.PostgresError, ValueError) as error:
            raise translate(error, self.description) from error

    async def _prepare_schema(self) -> None:
        status = await self.schema.status()
        if status.current == 0:
            await self.schema.upgrade()
        elif status.pending:
            raise DatabaseConfigError(
                f"{self.description} has schema version {status.current}, this program needs {status.latest}. "
                "Run: cortex db upgrade"
            )

    async def close(self) -> None:
        """Leaves no connection open, even if it is cancelled meanwhile."""
        pool, self._pool = self._pool, None
        kept, self._kept = self._kept, None
        try:
            await self.signals.close()
        finally:
            try:
                await in_a_thread(self._thread_connection.close)
                if pool is not None:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        if kept is not None:
                            await _release(pool, kept)
                        await pool.close()
            except (*BROKEN, asyncpg.PostgresError) as error:
                log.warning("postgres_close_failed", database=self.description, error=f"{type(error).__name__}: {error}")
            finally:
                if pool is not None:
                    pool.terminate()  # Does nothing to a pool that is closed.

    async def connect(self, **other_options: Any) -> asyncpg.Connection:
        """A connection outside the pool, for those who keep one."""
        options = {**self.options, **other_options}
        connecting = asyncio.ensure_future(asyncpg.connect(self.url, connection_class=PlainConnection, **options))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            await _abandon(connecting)
            raise
        except (*BROKEN, asyncpg.PostgresError, ValueError) as error:
            raise translate(error, self.description) from error

    @property
    def bounds_waits(self) -> bool:
        """A setting of the session: behind a pooler in transaction mode it would be anybody's."""
        return self._prepare

    @property
    def options(self) -> dict[str, Any]:
        return {
            "timeout": CONNECT_SECONDS,
            "command_timeout": STATEMENT_SECONDS,
            "statement_cache_size": 200 if self._prepare else 0,
        }

    async def read(self, name: str, /, **values: Any) -> Sequence[Row]:
        return await self._patiently(statement(name, "postgres"), values)

    write = read

    async def write_batch(self, name: str, /, **values: Any) -> Sequence[Row]:
        return await self._patiently(statement(name, "postgres"), values, divisible=True)

    write_small = write_batch

    async def write_once(self, name: str, /, **values: Any) -> Sequence[Row]:
        wanted = statement(name, "postgres")
        try:
            return await self._fetch(wanted, values)
        except (*BROKEN, asyncpg.PostgresError) as error:
            raise translate(error, self.description) from error

    async def transact(self, begin: Begin[Result], connection: Any = None, *, divisible: bool = False) -> Result:
        if connection is not None:
            return await _run_script(begin, partial(fetch_in, connection))

        async def attempt() -> Result:
            async with self._open_pool().acquire() as own, own.transaction():
                if divisible and not self.bounds_waits:
                    await own.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
                return await _run_script(begin, partial(fetch_in, own))

        try:
            return await with_patience(attempt, "transaction", GAVE_WAY, divisible)
        except (*BROKEN, *GAVE_WAY, asyncpg.PostgresError) as error:
            raise translate(error, self.description) from error

    def write_from_thread(self, name: str, timeout_seconds: float, /, **values: Any) -> Sequence[Row]:
        return self._thread_connection.fetch(statement(name, "postgres"), timeout_seconds, values)

    async def join(self, connection: Any, name: str, /, **values: Any) -> None:
        await fetch_in(connection, name, values)

    def array(self, values: Iterable[str]) -> list[str]:
        return list(values)

    def instant(self, moment: datetime) -> datetime:
        return moment

    def _open_pool(self) -> asyncpg.Pool:
        if self._pool is None:
            raise NotOpen
        return self._pool

    async def _fetch(self, wanted: Statement, values: dict[str, Any]) -> Sequence[Row]:
        """Who asks one statement after the other keeps the connection: giving it back takes as long as a third of a statement."""
        pool = self._open_pool()
        kept, self._kept = self._kept, None
        if kept is not None and kept.is_closed():
            await _release(pool, kept)
            kept = None
        connection = await pool.acquire() if kept is None else kept
        try:
            rows = cast(Sequence[Row], await connection.fetch(wanted.sql, *_places(wanted, values)))
        except BaseException:
            await _release(pool, connection)
            raise
        if self._kept is None and self._pool is pool:
            self._kept = connection
        else:
            await _release(pool, connection)
        return rows

    async def _patiently(self, wanted: Statement, values: dict[str, Any], divisible: bool = False) -> Sequence[Row]:
        try:
            return await with_patience(partial(self._fetch, wanted, values), wanted.name, divisible=divisible)
        except (*BROKEN, *GAVE_WAY, asyncpg.PostgresError) as error:
            raise translate(error, self.description) from error


async def _release(pool: asyncpg.Pool, connection: Any) -> None:
    """Also when whoever gives it back is cancelled, and when the pool is being closed."""
    await asyncio.shield(pool.release(connection))


async def _run_script(begin: Begin[Result], fetch: Callable[[str, dict[str, Any]], Awaitable[Sequence[Row]]]) -> Result:
    script = begin()
    try:
        asked = next(script)
        while True:
            asked = script.send(await fetch(asked.name, asked.values))
    except StopIteration as end:
        result: Result = end.value
        return result


async def with_patience(
    attempt: Callable[[], Awaitable[Result]],
    what: str,
    troubles: tuple[type[BaseException], ...] = (*BROKEN, *GAVE_WAY),
    divisible: bool = False,
) -> Result:
    """Tries again, with jittered pauses that grow, while the connection is the trouble, or another transaction that was
    preferred. What is `divisible` is given back to the caller instead, who can separate what is locked from what is not."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_SECONDS
    pause, gave_way = FIRST_PAUSE_SECONDS, 0
    while True:
        try:
            return await attempt()
        except troubles as error:
            gave_way += isinstance(error, GAVE_WAY)
            locked = isinstance(error, asyncpg.LockNotAvailableError)
            if loop.time() + pause > until or (divisible and (locked or gave_way >= TIMES_TO_GIVE_WAY)):
                raise
            log.warning("postgres_retry", statement=what, error=f"{type(error).__name__}: {error}", pause_seconds=round(pause, 2))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


class ThreadConnection:
    """A connection with an event loop of its own, for the heartbeat thread: a blocked main loop cannot starve it."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._runner: asyncio.Runner | None = None
        self._connection: asyncpg.Connection | None = None
        self._is_closed = False

    def fetch(self, wanted: Statement, timeout_seconds: float, values: dict[str, Any]) -> Sequence[Row]:
        with self._lock:
            if self._is_closed:
                raise Unavailable(f"{self._database.description} was closed.")
            if self._runner is None:
                self._runner = asyncio.Runner()
            return self._runner.run(self._fetch(wanted, timeout_seconds, values))

    async def _fetch(self, wanted: Statement, timeout_seconds: float, values: dict[str, Any]) -> Sequence[Row]:
        try:
            async with asyncio.timeout(timeout_seconds):
                if self._connection is None or self._connection.is_closed():
                    self._connection = await self._database.connect()
                return cast(Sequence[Row], await self._connection.fetch(wanted.sql, *_places(wanted, values)))
        except (*BROKEN, asyncpg.PostgresError) as error:
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None
            raise translate(error, self._database.description) from error

    def close(self) -> None:
        """To be called in a thread: a runner cannot be used inside another running loop."""
        with self._lock:
            self._is_closed = True  # A heartbeat that comes late opens no connection that nobody would close.
            if self._runner is None:
                return
            if self._connection is not None:
                self._runner.run(self._hang_up(self._connection))
            self._runner.close()
            self._runner = self._connection = None

    async def _hang_up(self, connection: asyncpg.Connection) -> None:
        with suppress(*BROKEN, asyncpg.PostgresError):
            await connection.close(timeout=CONNECT_SECONDS)


async def _bound_waits(connection: asyncpg.Connection) -> None:
    await connection.execute(f"set lock_timeout = '{LOCK_SECONDS}s'")


async def _abandon(connecting: asyncio.Future[PlainConnection]) -> None:
    """Whoever gives up while a connection is being made must still close it, or it stays open for ever."""
    with suppress(*BROKEN, asyncpg.PostgresError, ValueError):
        (await connecting).terminate()


def _places(wanted: Statement, values: dict[str, Any]) -> list[Any]:
    return [values[name] for name in wanted.parameters]


def describe(url: str) -> str:
    """Where the data is, without user and password."""
    hosts = urlsplit(url).netloc.rpartition("@")[2]
    return f"PostgreSQL, {hosts or 'local socket'}{urlsplit(url).path}"
