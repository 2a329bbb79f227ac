"""The database protocol that stores use, and the signals that wake waiting code."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from cortex_plane.storage.transactions import Begin


Row = Mapping[str, Any]
Result = TypeVar("Result")


class Database(Protocol):
    @property
    def bounds_waits(self) -> bool:
        """Whether every statement, and not only those that see to it themselves, waits for a lock only so long."""

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

    def write_from_thread(self, name: str, timeout_seconds: float, /, **values: Any) -> Sequence[Row]:
        """The same for a thread that must not depend on any event loop."""

    async def transact(self, begin: Begin[Result], connection: Any = None, *, divisible: bool = False) -> Result:
        """Runs a script in one transaction, or in the one that the caller's own connection has open.
        Begun anew when it gave way to another; not when the connection breaks.
        `divisible`: one of many that the caller goes through. Raises Contended soon where a lock is in its way."""

    async def join(self, connection: Any, name: str, /, **values: Any) -> None:
        """Runs the statement in the transaction that the caller's own connection has open."""

    def array(self, values: Iterable[str]) -> Any:
        """A list of texts in the form in which this database takes one."""


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
