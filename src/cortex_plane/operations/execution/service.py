"""The execution service as the slots of schedules see it, where it is in the same process."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from cortex_plane.core.errors import CortexError, Unavailable
from cortex_plane.core.execution import RunState, Started, error_code
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.execution.look_at_run import look_at_run
from cortex_plane.operations.execution.start_run import RunWish, start_run
from cortex_plane.operations.execution.stop_run import stop_run
from cortex_plane.operations.submit_jobs import PAYLOAD_LIMIT_BYTES
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.execution import ExecutionRefused
from cortex_plane.ports.store import Store

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LocalExecution:
    store: Store
    directory: Directory
    clock: Clock
    new_id: NewId
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES

    async def start(
        self,
        graph_id: str,
        idempotency_key: str,
        grant_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the word of the API
        service_name: str,
        traceparent: str | None = None,
    ) -> Started:
        wish = RunWish(graph_id, idempotency_key, grant_id, input, service_name, traceparent)
        limit = self.payload_limit_bytes
        return await _answered(start_run(self.store, self.directory, self.clock, self.new_id, wish, payload_limit_bytes=limit))

    async def look(self, run_id: str, wait_seconds: float = 0.0) -> RunState:
        return await _answered(look_at_run(self.store, self.clock, run_id, wait_seconds))

    async def stop(self, run_id: str, reason: str) -> None:
        await _answered(stop_run(self.store, run_id, actor="schedules", reason=reason))


async def _answered(work: Awaitable[Result]) -> Result:
    """What would be refused again is refused for good; what may pass is raised as it is."""
    try:
        return await work
    except Unavailable:
        raise
    except CortexError as error:
        raise ExecutionRefused(error_code(error), str(error)) from error
