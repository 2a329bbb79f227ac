"""Says how a run goes that was started under a grant, also when its job has been deleted; and what it has used."""

from __future__ import annotations

from cortex_plane.core.execution import PROGRESS, ExecutionRequest, Receipt, RunNotFound, RunState
from cortex_plane.core.jobs import JobId
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.find_grant import is_id
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.store import Store

PAUSE_SECONDS = 0.25
LONGEST_WAIT_SECONDS = 60.0


async def look_at_run(store: Store, clock: Clock, run_id: str, wait_seconds: float = 0.0) -> RunState:
    """Waits up to so many seconds for its end. Raises RunNotFound."""
    until = clock.elapsed() + min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS)
    state = await _look(store, run_id)
    while not state.ended and clock.elapsed() < until:
        await clock.sleep(min(PAUSE_SECONDS, until - clock.elapsed()))
        state = await _look(store, run_id)
    return state


async def receipts_of_run(store: Store, run_id: str) -> list[Receipt]:
    """What each of its attempts has used. Raises RunNotFound."""
    request = await find_request(store, run_id)
    return await store.requests.receipts(request.run_id)


async def find_request(store: Store, run_id: str) -> ExecutionRequest:
    wanted = str(run_id).strip().lower()
    found = await store.requests.by_run(JobId(wanted)) if is_id(wanted) else None
    if found is None:
        raise RunNotFound(wanted[:80])
    return found


async def _look(store: Store, run_id: str) -> RunState:
    request = await find_request(store, run_id)
    if request.outcome is not None:
        return _state(request, request.outcome, request.outcome_message)
    end = await store.jobs.chain_end(request.run_id)
    return _state(request, JobStatus.PENDING if end is None else end[1], None)


def _state(request: ExecutionRequest, status: JobStatus, message: str | None) -> RunState:
    match status:
        case JobStatus.FAILED:
            return RunState(request.run_id, request.trace_id, PROGRESS[status], "run_failed", message)
        case JobStatus.CANCELLED:
            return RunState(request.run_id, request.trace_id, PROGRESS[status], "run_cancelled", "The run was cancelled.")
        case _:
            return RunState(request.run_id, request.trace_id, PROGRESS[status])
