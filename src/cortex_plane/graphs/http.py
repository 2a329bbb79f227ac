"""Runs of graphs, agents and templates under a grant, for people and their programs; and how such a run goes."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from cortex_plane.errors import Denied
from cortex_plane.grants.execution import LONGEST_WAIT_SECONDS, RunWish, look_at_run, start_run
from cortex_plane.grants.model import Grant, KeyReused, RunState
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import REPLAYED
from cortex_plane.http.inputs import NO_NUL, STORABLE, Id, IdPath, Input
from cortex_plane.http.lookups import grant_in, run_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.jobs.model import JobId
from cortex_plane.people.roles import Caller, Role
from cortex_plane.storage.http_state import IdempotencyKeyReused

router = APIRouter(prefix=PREFIX, tags=["runs"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Submitter = Annotated[Caller, require(Role.SUBMITTER)]
# Graph ids contain colons, and may contain slashes, literal or as %2F. The part before the last /runs is the id.
GraphPath = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        description="agent:NAME, template:NAME or the id of a graph.",
        examples=["langgraph:poet"],
        json_schema_extra=NO_NUL,
    ),
    STORABLE,
]
RequiredKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        pattern="^[!-~]{1,200}$",
        description="A name for this run: asked for again under it, at any time, it is the same run.",
    ),
]
Traceparent = Annotated[str | None, Header(max_length=200, description="The W3C trace that the run belongs to.")]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT_SECONDS, description="Answer when it has ended, or after so many seconds.")]


class StartRun(Input):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"grant": "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60", "input": {"topic": "the sea"}}]},
    )

    grant: Id = Field(description="Under which it runs, and which says who is charged.")
    input: dict[str, Any] = Field(default={}, description="For the target; for a template, what replaces keys of its params.")


class StartedRun(BaseModel):
    run_id: JobId
    trace_id: str


@router.post("/graphs/{graph_id:path}/runs", status_code=201)
async def start_run_of_graph(
    caller: Submitter,
    plane: ThePlane,
    response: Response,
    graph_id: GraphPath,
    body: StartRun,
    idempotency_key: RequiredKey,
    traceparent: Traceparent = None,
) -> StartedRun:
    """Starts a run under a grant. Operators may use any grant of the tenant, other callers their own."""
    grant = await grant_in(plane, caller, body.grant)
    _check_may_use(caller, grant)
    limit = plane.settings.payload_limit_bytes
    key, by = _own_key(caller, idempotency_key), (caller.name,)
    wish = RunWish(graph_id, key, grant.id, body.input, caller.name, traceparent, requested_by=by)
    try:
        started = await start_run(plane.store, plane.directory, plane.clock, plane._ids, wish, payload_limit_bytes=limit)
    except KeyReused:
        raise IdempotencyKeyReused from None
    response.headers["Location"] = f"/api/v1/graph-runs/{started.run_id}"
    if started.replayed:
        response.headers[REPLAYED] = "true"
    return StartedRun(run_id=started.run_id, trace_id=started.trace_id)


@router.get("/graph-runs/{run_id}")
async def get_run(caller: Viewer, plane: ThePlane, run_id: IdPath, wait: Wait = 0) -> RunState:
    """How a run goes that was started under a grant, also when its job has been deleted since."""
    run = await run_in(plane, caller, run_id)
    return await look_at_run(plane.store, plane.clock, run.run_id, wait)


def _check_may_use(caller: Caller, grant: Grant) -> None:
    if caller.may(Role.OPERATOR) or (caller.user_id is not None and grant.user_account_id == caller.user_id):
        return
    raise Denied(f"Grant {grant.id} is not yours. An operator can give you one: POST /api/v1/grants with you as user.")


def _own_key(caller: Caller, key: str) -> str:
    """The idempotency keys of each caller are separate from those of other callers and of schedule slots."""
    return f"api:{sha256(f'{caller.name} {key}'.encode()).hexdigest()}"
