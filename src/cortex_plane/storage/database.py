"""The database that stores use: a session for each event loop, opened on first use; and the signals that wake waiting code."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Event
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from cortex_plane.errors import Unavailable

if TYPE_CHECKING:
    from cortex_plane.storage.migrations import Schema
    from cortex_plane.storage.statements import Dialect
    from cortex_plane.storage.transactions import Begin


Row = Mapping[str, Any]
Result = TypeVar("Result")


class NotOpen(Unavailable):
    def __init__(self) -> None:
        super().__init__("The store is not open. Use `async with plane:`.")


class Statements(Protocol):
    """What a database does with named statements."""

    async def read(self, name: str, /, **values: Any) -> Sequence[Row]: ...

    async def write(self, name: str, /, **values: Any) -> Sequence[Row]:
        """One transaction. Repeated when the connection breaks, so the statement must bear that."""

    async def write_small(self, name: str, /, **values: Any) -> Sequence[Row]:
        """The same for a batch of one, of which a single caller waits for the answer, as fast as it can be had."""

    async def write_batch(self, name: str, /, **values: Any) -> Sequence[Row]:
        """The same for a batch of independent elements: raises Contended soon where a lock is in the way of one of them, so that
        the caller can divide it."""

    async def write_once(self, name: str, /, **values: Any) -> Sequence[Row]:
        """One transaction, never repeated: when the connection breaks, Unavailable says that the outcome is unknown."""

    async def transact(self, begin: Begin[Result], connection: Any = None, *, divisible: bool = False) -> Result:
        """Runs a script in one transaction, or in the one that the caller's own connection has open.
        Begun anew when it gave way to another; not when the connection breaks.
        `divisible`: one of many that the caller goes through. Raises Contended soon where a lock is in its way."""

    async def join(self, connection: Any, name: str, /, **values: Any) -> None:
        """Runs the statement in the transaction that the caller's own connection has open."""

    def array(self, values: Iterable[str]) -> Any:
        """A list of texts in the form in which this database takes one."""

    def instant(self, moment: datetime) -> Any:
        """A point in time in the form in which this database takes one."""


class DatabaseSession(Statements, Protocol):
    """The connections of one event loop to a SQLite file or a PostgreSQL server."""

    dialect: Dialect
    description: str
    """What people are told about where the data is, without secrets."""

    @property
    def bounds_waits(self) -> bool:
        """Whether every statement waits for a lock only so long, and not only a statement that sets a limit itself."""

    @property
    def schema(self) -> Schema: ...
    @property
    def signals(self) -> Signals: ...

    async def open(self, *, prepare: bool = True) -> None:
        """With `prepare`, an empty database gets the schema; an older schema is migrated on SQLite and refused on PostgreSQL."""

    async def close(self) -> None: ...

    def write_from_thread(self, name: str, timeout_seconds: float, /, **values: Any) -> Sequence[Row]:
        """One transaction, for a thread that must not depend on any event loop."""


class Database:
    """One database, used from any number of event loops.

    Connections belong to the loop that made them, so each loop has a session of its own. It is opened by the first statement.
    Once it was closed, only `open` opens it again: a late background task must not leave a connection behind.
    """

    def __init__(self, new_session: Callable[[], DatabaseSession]) -> None:
        self._new_session = new_session
        self._sessions: dict[AbstractEventLoop, DatabaseSession] = {}
        self._opening: WeakKeyDictionary[DatabaseSession, asyncio.Lock] = WeakKeyDictionary()
        self._open: set[DatabaseSession] = set()
        self._closed: WeakSet[AbstractEventLoop] = WeakSet()
        template = new_session()
        self.dialect, self.description = template.dialect, template.description
        self.array, self.instant = template.array, template.instant

    # -- sessions --------------------------------------------------------------------------------

    @property
    def session(self) -> DatabaseSession:
        """The session of the running event loop. It may not be open yet."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = self._new_session()
            self._opening[session] = asyncio.Lock()
        return session

    async def open(self, *, prepare: bool = True) -> None:
        """Opens the session of this event loop. Without `prepare` the schema is neither created nor checked."""
        self._closed.discard(asyncio.get_running_loop())
        await self._open_session(prepare=prepare)

    async def close(self) -> None:
        """Closes the session of this event loop. A task that is opening it is waited for: nobody would close what it opens."""
        loop = asyncio.get_running_loop()
        self._closed.add(loop)
        await self._end(loop)

    async def close_all(self) -> None:
        """Closes the sessions of event loops that have ended too. Only a SQLite file can be closed from another loop."""
        for loop in list(self._sessions):
            await self._end(loop)

    async def _end(self, loop: AbstractEventLoop) -> None:
        session = self._sessions.get(loop)
        if session is None:
            return
        async with self._opening[session]:
            if self._sessions.pop(loop, None) is not None:
                self._open.discard(session)
                await session.close()

    async def _opened(self) -> DatabaseSession:
        session = self.session
        return session if session in self._open else await self._open_session()

    async def _open_session(self, *, prepare: bool = True) -> DatabaseSession:
        session = self.session
        async with self._opening[session]:
            if asyncio.get_running_loop() in self._closed:
                raise NotOpen
            if session not in self._open:
                await session.open(prepare=prepare)
                self._open.add(session)
        return session

    @property
    def bounds_waits(self) -> bool:
        return self.session.bounds_waits

    @property
    def signals(self) -> Signals:
        return self.session.signals

    @property
    def schema(self) -> Schema:
        return self.session.schema

    # -- statements ------------------------------------------------------------------------------

    async def read(self, name: str, /, **values: Any) -> Sequence[Row]:
        return await (await self._opened()).read(name, **values)

    async def write(self, name: str, /, **values: Any) -> Sequence[Row]:
        return await (await self._opened()).write(name, **values)

    async def write_small(self, name: str, /, **values: Any) -> Sequence[Row]:
        return await (await self._opened()).write_small(name, **values)

    async def write_batch(self, name: str, /, **values: Any) -> Sequence[Row]:
        return await (await self._opened()).write_batch(name, **values)

    async def write_once(self, name: str, /, **values: Any) -> Sequence[Row]:
        return await (await self._opened()).write_once(name, **values)

    async def transact(self, begin: Begin[Result], connection: Any = None, *, divisible: bool = False) -> Result:
        return await (await self._opened()).transact(begin, connection, divisible=divisible)

    async def join(self, connection: Any, name: str, /, **values: Any) -> None:
        await (await self._opened()).join(connection, name, **values)


# -- signals -----------------------------------------------------------------------------------
# How an idle worker learns that something happened, at once and without a busy loop.


class Signals(Protocol):
    """An event is set when work may be ready, or when a run of this worker may have been cancelled.

    A signal is a hint: it may come for nothing, and where the database cannot push it may come late,
    so everyone who waits also looks again by himself after `poll_seconds`.
    """

    @property
    def poll_seconds(self) -> float: ...

    def subscribe(self, event: Event, *, queues: frozenset[str] = frozenset(), worker_id: str | None = None) -> None:
        """Sets `event` when one of the queues may have work, or when a run of the worker was cancelled."""

    def unsubscribe(self, event: Event) -> None: ...

    def wake_after(self, seconds: float) -> None:
        """Sets every subscriber's event once, so many seconds from now: something will be claimable then."""
