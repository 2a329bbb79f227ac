"""How an idle worker learns that something happened, at once and without a busy loop."""

from __future__ import annotations

from asyncio import Event
from typing import Protocol


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
