"""Starts a run under a grant: validated again here, once for each idempotency key, whatever becomes of the job later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.execution import ExecutionRequest, KeyReused, NewRequest, RequestId, Started, request_hash
from cortex_plane.core.grants import (
    AGENT_TARGET,
    TEMPLATE_TARGET,
    Grant,
    GrantId,
    GrantNotFound,
    check_target,
    problem_with,
)
from cortex_plane.core.instants import as_datetime
from cortex_plane.core.jobs import NewJob
from cortex_plane.core.traces import trace_from, trace_id_of
from cortex_plane.operations.check_budgets import check_budgets
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.find_grant import is_id
from cortex_plane.operations.find_template import not_found
from cortex_plane.operations.names import checked_name
from cortex_plane.operations.submit_from_template import submission_from
from cortex_plane.operations.submit_jobs import PAYLOAD_LIMIT_BYTES, Submission, checked
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.json_text import encode
from cortex_plane.ports.store import Store


@dataclass(frozen=True, slots=True)
class RunWish:
    graph_id: str
    idempotency_key: str
    grant_id: str
    input: Mapping[str, Any]
    service_name: str | None = None
    traceparent: str | None = None


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
    digest = request_hash(wish.graph_id, grant.id, encode(_input(wish.input), "input"))
    key = checked_name(wish.idempotency_key, "idempotency_key")
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
        service_name=None if wish.service_name is None else checked_name(wish.service_name, "service_name"),
    )
    stored = await store.requests.add(request, replace(job, request_id=request.id, trace_id=request.trace_id))
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
        return await checked(directory, new_id, Submission(agent, dict(wish.input), **options), payload_limit_bytes)
    name = wish.graph_id.removeprefix(TEMPLATE_TARGET)
    template = await store.templates.get(grant.tenant_id, name)
    if template is None:
        raise await not_found(store, grant.tenant_id, name)
    job = await checked(directory, new_id, submission_from(template, dict(wish.input), options), payload_limit_bytes)
    return replace(job, template_id=template.id)


def _input(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"input must be an object of arguments by name, not {value!r:.60}.", field="input")
    return dict(value)
