"""Starts, stops and reads runs under a grant, in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from cortex_plane.agents.directory import Directory
from cortex_plane.clock import Clock, as_datetime
from cortex_plane.costs.service import check_budgets
from cortex_plane.errors import CortexError, InvalidInput, Unavailable
from cortex_plane.grants.execution_service import ExecutionRefused
from cortex_plane.grants.model import (
    AGENT_TARGET,
    PROGRESS,
    TEMPLATE_TARGET,
    ExecutionNotFound,
    ExecutionRequest,
    Grant,
    GrantId,
    GrantNotFound,
    KeyReused,
    NewRequest,
    Receipt,
    RequestId,
    RunState,
    Started,
    check_target,
    error_code,
    problem_with,
    request_hash,
)
from cortex_plane.ids import NewId, is_id
from cortex_plane.jobs.fields import PAYLOAD_LIMIT_BYTES, Submission
from cortex_plane.jobs.model import JobId, NewJob
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.submission import checked
from cortex_plane.json import encode, refuse_larger
from cortex_plane.people.model import checked_noun_name
from cortex_plane.telemetry import trace_from, trace_id_of
from cortex_plane.templates.service import job_of, not_found, submission_from

if TYPE_CHECKING:
    from cortex_plane.stores import Store


@dataclass(frozen=True, slots=True)
class RunWish:
    graph_id: str
    idempotency_key: str
    grant_id: str
    input: Mapping[str, Any]
    service_name: str | None = None
    traceparent: str | None = None
    schedule_id: str | None = None
    requested_by: Sequence[str] = ()
    """Who stands behind it besides the grant's user, as they sign."""


async def start_run(
    store: Store,
    directory: Directory,
    clock: Clock,
    new_id: NewId,
    wish: RunWish,
    *,
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
) -> Started:
    """Raises GrantNotFound, GrantRefused, KeyReused, UnknownAgent, TemplateNotFound, BudgetExhausted or InvalidInput."""
    grant = await _grant(store, wish)
    refuse_larger(_input(wish.input), payload_limit_bytes, "input")
    digest = request_hash(wish.graph_id, grant.id, encode(_input(wish.input), "input"))
    key = checked_noun_name(wish.idempotency_key, "idempotency_key")
    if known := await store.requests.by_key(grant.tenant_id, key):
        return _answer(known, digest, replayed=True)
    if problem := problem_with(grant, as_datetime(clock.now()), check_target(wish.graph_id)):
        raise problem
    job = await _job(store, directory, new_id, grant, wish, payload_limit_bytes)
    await check_budgets(store, directory, [job])
    request = NewRequest(
        id=RequestId(new_id()),
        tenant_id=grant.tenant_id,
        idempotency_key=key,
        request_hash=digest,
        graph_id=wish.graph_id,
        grant_id=grant.id,
        run_id=job.id,
        trace_id=trace_id_of(wish.traceparent) or trace_from(job.id),
        service_name=None if wish.service_name is None else checked_noun_name(wish.service_name, "service_name"),
    )
    job = replace(
        job,
        request_id=request.id,
        trace_id=request.trace_id,
        schedule_id=wish.schedule_id,
        submitters=(*job.submitters, *(checked_noun_name(one, "requested_by") for one in wish.requested_by)),
    )
    stored = await store.requests.add(request, job)
    return _answer(stored, digest, replayed=stored.id != request.id)


def _answer(request: ExecutionRequest, digest: str, *, replayed: bool) -> Started:
    if request.request_hash != digest:
        raise KeyReused(request.idempotency_key)
    return Started(request.run_id, request.trace_id, replayed)


async def _grant(store: Store, wish: RunWish) -> Grant:
    grant_id = str(wish.grant_id).strip().lower()
    grant = await store.grants.get(GrantId(grant_id)) if is_id(grant_id) else None
    if grant is None:
        raise GrantNotFound(grant_id[:80])
    return grant


async def _job(
    store: Store, directory: Directory, new_id: NewId, grant: Grant, wish: RunWish, payload_limit_bytes: int
) -> NewJob:
    """A graph is an agent of that name; workers that have its code execute it."""
    options: dict[str, Any] = {"tenant": grant.tenant, "created_by": f"grant:{grant.id}"}
    if not wish.graph_id.startswith(TEMPLATE_TARGET):
        agent = wish.graph_id.removeprefix(AGENT_TARGET)
        return await checked(
            directory, new_id, Submission(agent, dict(wish.input), **options), payload_limit_bytes, field="input"
        )
    name = wish.graph_id.removeprefix(TEMPLATE_TARGET)
    template = await store.templates.get(grant.tenant_id, name)
    if template is None:
        raise await not_found(store, grant.tenant_id, name)
    job = await checked(
        directory, new_id, submission_from(template, dict(wish.input), options), payload_limit_bytes, field="input"
    )
    return job_of(template, job)


def _input(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"input must be an object of arguments by name, not {value!r:.60}.", field="input")
    return dict(value)


# -- look at run -------------------------------------------------------------------------------
# Says how a run goes that was started under a grant, also when its job has been deleted; and what it has used.


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
        raise ExecutionNotFound(wanted[:80])
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


# -- stop run ----------------------------------------------------------------------------------
# Asks a run to stop that was started under a grant.


async def stop_run(store: Store, run_id: str, *, actor: str | None = None, reason: str | None = None) -> bool:
    """False when it had ended. Raises RunNotFound."""
    request = await find_request(store, run_id)
    end = await store.jobs.chain_end(request.run_id)
    return end is not None and await store.jobs.cancel(end[0], actor, reason) is not None


# -- service -----------------------------------------------------------------------------------
# The execution service as the slots of schedules see it, where it is in the same process.


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
        *,
        schedule_id: str | None = None,
        requested_by: Sequence[str] = (),
    ) -> Started:
        wish = RunWish(graph_id, idempotency_key, grant_id, input, service_name, traceparent, schedule_id, tuple(requested_by))
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
