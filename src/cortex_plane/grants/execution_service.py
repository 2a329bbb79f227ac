"""The way to whoever executes: the only thing that the slots of schedules know about what they start.

Two implementations: the service itself, in this process (grants/execution.py), and a client that speaks HTTP to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cortex_plane.errors import CortexError

if TYPE_CHECKING:
    from cortex_plane.grants.model import RunState, Started


class ExecutionRefused(CortexError):
    """The service will not do this, however often it is asked. `code` is one word for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ExecutionService(Protocol):
    """Whatever may pass by itself (a timeout, a service that restarts) is raised as Unavailable: ask again, with the same key."""

    async def start(
        self,
        graph_id: str,
        idempotency_key: str,
        grant_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the word of the API
        service_name: str,
        traceparent: str | None = None,
        *,
        schedule_id: str | None = None,
        requested_by: Sequence[str] = (),
    ) -> Started:
        """Starts a run once, however often it is asked with the same key. `requested_by` stand behind it besides the grant's
        user, as they sign. Raises ExecutionRefused or Unavailable."""

    async def look(self, run_id: str, wait_seconds: float = 0.0) -> RunState:
        """How a run goes; waits up to so many seconds for its end. Raises ExecutionRefused or Unavailable."""

    async def stop(self, run_id: str, reason: str) -> None:
        """Asks a run to stop. One that has ended stays as it is."""
