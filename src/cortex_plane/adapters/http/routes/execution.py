"""The execution service: what workers ask for the slots of schedules. They know nothing of graphs, and this writes no slots.

The secret says that a caller is one of ours; what may run is said by the grant, which is validated here again.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex_plane.adapters.http.access import ThePlane
from cortex_plane.adapters.http.inputs import EXAMPLE_ID, Id, IdPath, Input, WithReason
from cortex_plane.adapters.http.once import REPLAYED
from cortex_plane.adapters.http.routes.graphs import GraphPath, RequiredKey, Traceparent, Wait
from cortex_plane.adapters.http.service_access import service
from cortex_plane.core.execution import Progress
from cortex_plane.core.jobs import JobId
from cortex_plane.core.service_calls import ServiceCaller
from cortex_plane.operations.execution.look_at_run import look_at_run
from cortex_plane.operations.execution.start_run import RunWish, start_run
from cortex_plane.operations.execution.stop_run import stop_run

router = APIRouter(prefix="/api/internal", tags=["execution service"])

Service = Annotated[ServiceCaller, service()]


class InternalRun(Input):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"executionGrantId": EXAMPLE_ID, "input": {"topic": "the sea"}}]},
    )

    execution_grant_id: Id = Field(alias="executionGrantId")
    input: dict[str, Any] = Field(default={})


class Answered(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class RunStarted(Answered):
    run_id: JobId
    trace_id: str
    ok: bool = True


class RunLooked(Answered):
    run_id: JobId
    trace_id: str
    status: Progress
    ok: bool | None = Field(description="null while it goes on.")
    error_code: str | None = None
    error_message: str | None = None


class RunStopped(Answered):
    stopped: bool = Field(description="false when it had ended.")


@router.post("/graphs/{graph_id:path}/runs", status_code=201)
async def start_internal_run(
    caller: Service,
    plane: ThePlane,
    response: Response,
    graph_id: GraphPath,
    body: InternalRun,
    idempotency_key: RequiredKey,
    traceparent: Traceparent = None,
) -> RunStarted:
    """Starts a run once, however often it is asked for with the same key; a request that comes while the same one is being
    carried out waits for it. The answer to a request that was made before says so in `Idempotency-Replayed`."""
    opened, limit = await plane._open_here(), plane.settings.payload_limit_bytes
    wish = RunWish(graph_id, idempotency_key, body.execution_grant_id, body.input, caller.service_name, traceparent)
    started = await start_run(opened.store, opened.directory, plane.clock, plane._ids, wish, payload_limit_bytes=limit)
    if started.replayed:
        response.headers[REPLAYED] = "true"
    return RunStarted(run_id=started.run_id, trace_id=started.trace_id)


@router.get("/runs/{run_id}")
async def look_at_internal_run(caller: Service, plane: ThePlane, run_id: IdPath, wait: Wait = 0) -> RunLooked:
    """How a run goes, also when its job has been deleted since."""
    state = await look_at_run(await plane.store, plane.clock, run_id, wait)
    return RunLooked(
        run_id=state.run_id,
        trace_id=state.trace_id,
        status=state.progress,
        ok=state.progress == "success" if state.ended else None,
        error_code=state.error_code,
        error_message=state.error_message,
    )


@router.post("/runs/{run_id}/stop")
async def stop_internal_run(caller: Service, plane: ThePlane, run_id: IdPath, body: WithReason) -> RunStopped:
    """Asks a run to stop. One that has ended stays as it is."""
    return RunStopped(stopped=await stop_run(await plane.store, run_id, actor=caller.name, reason=body.reason))
