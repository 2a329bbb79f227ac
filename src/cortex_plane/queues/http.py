"""HTTP: gate, queues, agents and workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from cortex_plane.agents.model import AgentConfig
from cortex_plane.errors import UnknownAgent
from cortex_plane.http.auth import ThePlane, require, seen_by
from cortex_plane.http.inputs import IdPath, NamePath, WithReason
from cortex_plane.http.middleware import PREFIX
from cortex_plane.jobs.model import INTERNAL_PREFIX
from cortex_plane.people.roles import Caller, Role
from cortex_plane.plane import Plane
from cortex_plane.queues.controls import MOST_RUNNING
from cortex_plane.queues.model import Control, QueueState, Reservation, Scope
from cortex_plane.worker.model import WorkerRecord

router = APIRouter(prefix=PREFIX)

Viewer = Annotated[Caller, require(Role.VIEWER)]
ViewerOfAll = Annotated[Caller, require(Role.VIEWER, everywhere=True)]
OperatorOfAll = Annotated[Caller, require(Role.OPERATOR, everywhere=True)]


class Limit(WithReason):
    max_running: int | None = Field(ge=1, le=MOST_RUNNING, description="null lifts the limit.", examples=[5])


class Share(WithReason):
    fair_share: bool = Field(description="Whether claims rotate between the tenants of the queue.", examples=[True])


class Gate(BaseModel):
    open: bool
    closed_by: str | None = None
    closed_at: Any = None
    reason: str | None = None


class Agent(BaseModel):
    name: str
    config: AgentConfig
    control: Control


# -- the gate ------------------------------------------------------------------------------------
@router.get("/gate", tags=["gate"])
async def get_gate(caller: Viewer, plane: ThePlane) -> Gate:
    """The state of the gate. `closed_by` is visible to viewers of all tenants."""
    gate = await _gate(plane)
    return gate if caller.may(Role.VIEWER, everywhere=True) else gate.model_copy(update={"closed_by": None})


@router.post("/gate/close", tags=["gate"])
async def close_gate(caller: OperatorOfAll, plane: ThePlane, body: WithReason) -> Gate:
    """Stops all claims until the gate is opened. New jobs are accepted."""
    await plane.gate.close(body.reason, actor=caller.name)
    return await _gate(plane)


@router.post("/gate/open", tags=["gate"])
async def open_gate(caller: OperatorOfAll, plane: ThePlane, body: WithReason) -> Gate:
    """Allows claims again. Waiting jobs start in queue order."""
    await plane.gate.open(body.reason, actor=caller.name)
    return await _gate(plane)


async def _gate(plane: Plane) -> Gate:
    control = await plane.store.controls.get(Scope.GATE, "")
    return Gate(open=not control.paused, closed_by=control.paused_by, closed_at=control.paused_at, reason=control.pause_reason)


@router.get("/controls", tags=["gate"])
async def list_controls(_caller: ViewerOfAll, plane: ThePlane) -> list[Control]:
    """All pauses, holds, limits, fair shares and budgets. The name of the gate is empty; that of a tenant is its id."""
    return await plane.queues.controls()


# -- queues --------------------------------------------------------------------------------------
@router.get("/queues", tags=["queues"])
async def list_queues(_caller: ViewerOfAll, plane: ThePlane) -> list[QueueState]:
    """Every queue that has waiting or running jobs, or a setting."""
    return await plane.queues.list()


@router.post("/queues/{name}/pause", tags=["queues"])
async def pause_queue(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Control:
    """Stops claims of its jobs. Running jobs finish."""
    await plane.queues.pause(queue=name, reason=body.reason, actor=caller.name)
    return await plane.store.controls.get(Scope.QUEUE, name)


@router.post("/queues/{name}/resume", tags=["queues"])
async def resume_queue(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Control:
    """Resumes a paused queue."""
    await plane.queues.resume(queue=name, reason=body.reason, actor=caller.name)
    return await plane.store.controls.get(Scope.QUEUE, name)


@router.put("/queues/{name}/limit", tags=["queues"])
async def limit_queue(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: Limit) -> Control:
    """Limits the number of its running jobs, over all workers."""
    await plane.queues.limit(body.max_running, queue=name, reason=body.reason, actor=caller.name)
    return await plane.store.controls.get(Scope.QUEUE, name)


@router.put("/queues/{name}/share", tags=["queues"])
async def share_queue(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: Share) -> Control:
    """Switches fair share: claims rotate between the tenants of a queue."""
    await plane.queues.share_fairly(name, body.fair_share, actor=caller.name)
    return await plane.store.controls.get(Scope.QUEUE, name)


@router.get("/reservations", tags=["queues"])
async def list_reservations(_caller: ViewerOfAll, plane: ThePlane) -> list[Reservation]:
    """The active reservations: queues that are reserved for one job."""
    return await plane.queues.reservations()


@router.post("/reservations/{reservation_id}/release", tags=["queues"], status_code=204, response_model=None)
async def release_reservation(caller: OperatorOfAll, plane: ThePlane, reservation_id: IdPath, body: WithReason) -> None:
    """Ends a reservation by force. Its job stays in the queue."""
    await plane.queues.release(reservation_id, by=caller.name, reason=body.reason, force=True)


# -- agents and workers --------------------------------------------------------------------------
@router.get("/agents", tags=["agents"])
async def list_agents(caller: Viewer, plane: ThePlane) -> list[Agent]:
    """Agents and their settings. Budgets, actors and reasons are visible to viewers of all tenants."""
    controls = await _controls(plane, Scope.AGENT)
    agents = [
        Agent(
            name=agent.job_type, config=agent.config, control=controls.get(agent.job_type) or Control(Scope.AGENT, agent.job_type)
        )
        for agent in await plane.directory.agents()
        if not agent.job_type.startswith(INTERNAL_PREFIX)
    ]
    return agents if caller.may(Role.VIEWER, everywhere=True) else [_for_one_tenant(agent, caller) for agent in agents]


def _for_one_tenant(agent: Agent, caller: Caller) -> Agent:
    return Agent(name=agent.name, config=replace(agent.config, budget_cents=None), control=seen_by(caller, agent.control))


@router.get("/agents/{name}", tags=["agents"])
async def get_agent(caller: Viewer, plane: ThePlane, name: NamePath) -> Agent:
    """One agent."""
    agents = await list_agents(caller, plane)
    found = next((agent for agent in agents if agent.name == name), None)
    if found is None:
        raise UnknownAgent(name, [agent.name for agent in agents])
    return found


@router.post("/agents/{name}/pause", tags=["agents"])
async def pause_agent(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Control:
    """Stops claims of its jobs. Running jobs finish."""
    await plane.queues.pause(agent=name, reason=body.reason, actor=caller.name)
    return await plane.store.controls.get(Scope.AGENT, name)


@router.post("/agents/{name}/resume", tags=["agents"])
async def resume_agent(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: WithReason) -> Control:
    """Resumes a paused agent."""
    await plane.queues.resume(agent=name, reason=body.reason, actor=caller.name)
    return await plane.store.controls.get(Scope.AGENT, name)


@router.put("/agents/{name}/limit", tags=["agents"])
async def limit_agent(caller: OperatorOfAll, plane: ThePlane, name: NamePath, body: Limit) -> Control:
    """Limits the number of its running jobs, over all workers."""
    await plane.queues.limit(body.max_running, agent=name, reason=body.reason, actor=caller.name)
    return await plane.store.controls.get(Scope.AGENT, name)


@router.get("/workers", tags=["workers"])
async def list_workers(_caller: ViewerOfAll, plane: ThePlane) -> list[WorkerRecord]:
    """Workers: live ones first, then the most recently ended."""
    return await plane.store.workers.list()


@router.post("/workers/{worker_id}/drain", tags=["workers"])
async def drain_worker(caller: OperatorOfAll, plane: ThePlane, worker_id: IdPath, body: WithReason) -> WorkerRecord:
    """The worker stops claiming jobs, finishes the running ones and exits. It is notified by its next heartbeat. Idempotent."""
    await plane.workers.drain(worker_id, actor=caller.name, reason=body.reason)
    return await plane.workers.get(worker_id)


async def _controls(plane: Plane, scope: Scope) -> dict[str, Control]:
    return {control.name: control for control in await plane.queues.controls() if control.scope is scope}
