"""Dashboard pages: queues, one queue, the gate."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.dashboard.flash import told
from cortex_plane.dashboard.overview import QueueLine, queue_lines
from cortex_plane.dashboard.render import page
from cortex_plane.errors import InvalidInput
from cortex_plane.http.auth import ThePlane, require, seen_by
from cortex_plane.http.inputs import IdPath, NamePath
from cortex_plane.jobs.model import INTERNAL_PREFIX
from cortex_plane.metrics.service import look_into_queue
from cortex_plane.people.roles import Caller, Role
from cortex_plane.queues.model import Control, Scope

router = APIRouter(include_in_schema=False)

Viewer = Annotated[Caller, require(Role.VIEWER, everywhere=True)]
Operator = Annotated[Caller, require(Role.OPERATOR, everywhere=True)]
Reason = Annotated[str, Form(max_length=2_000)]
SHOWN = 100


@router.get("/queues")
async def queues(request: Request, caller: Viewer, plane: ThePlane) -> Response:
    return await page(
        request, caller, "queues.html", queues=await queue_lines(plane), reservations=await plane.queues.reservations()
    )


@router.get("/queues/{name}")
async def one_queue(request: Request, caller: Viewer, plane: ThePlane, name: NamePath) -> Response:
    lines = await queue_lines(plane)
    line = next((line for line in lines if line.name == name), QueueLine(name, 0, {}, Control(Scope.QUEUE, name)))
    store = plane.store
    tenants = {tenant.id: tenant.name for tenant in await store.tenants.list()}
    entries = await look_into_queue(store, name, SHOWN)
    return await page(request, caller, "queue.html", queue=line, entries=entries, tenant_names=tenants)


@router.post("/queues/{name}/pause")
async def pause(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        changed = await plane.queues.pause(queue=name, reason=reason or None, actor=caller.name)
        return f'Queue "{name}" is paused.' if changed else "It was already paused."

    return await told(f"/queues/{name}", work())


@router.post("/queues/{name}/resume")
async def resume(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.queues.resume(queue=name, reason=reason or None, actor=caller.name)
        return f'Queue "{name}" is resumed.'

    return await told(f"/queues/{name}", work())


@router.post("/queues/{name}/limit")
async def limit(
    caller: Operator, plane: ThePlane, name: NamePath, max_running: Annotated[str, Form(max_length=20)] = "", reason: Reason = ""
) -> Response:
    async def work() -> str:
        wanted = _number(max_running)
        await plane.queues.limit(wanted, queue=name, reason=reason or None, actor=caller.name)
        return "The limit is removed." if wanted is None else f"The limit is {wanted} running jobs."

    return await told(f"/queues/{name}", work())


@router.post("/queues/{name}/share")
async def share(caller: Operator, plane: ThePlane, name: NamePath, fair_share: Annotated[bool, Form()] = False) -> Response:
    async def work() -> str:
        await plane.queues.share_fairly(name, fair_share, actor=caller.name)
        return "Fair share is enabled." if fair_share else "Fair share is disabled."

    return await told(f"/queues/{name}", work())


@router.post("/reservations/{reservation_id}/release")
async def release(caller: Operator, plane: ThePlane, reservation_id: IdPath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.queues.release(reservation_id, by=caller.name, reason=reason or None, force=True)
        return "Released. Its job stays in the queue."

    return await told("/queues", work())


def _number(text: str) -> int | None:
    if not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise InvalidInput("The limit must be a whole number. Leave it empty for no limit.", field="max_running")
    return int(text)


# -- gate --------------------------------------------------------------------------------------
# The gate, and the pauses of single agents.


gate_router = APIRouter(include_in_schema=False)
Back = Annotated[str, Form(max_length=2_000)]


@gate_router.get("/gate")
async def gate(request: Request, caller: Annotated[Caller, require(Role.VIEWER)], plane: ThePlane) -> Response:
    store = plane.store
    controls = [seen_by(caller, control) for control in await store.controls.list()]
    of_agents = {control.name: control for control in controls if control.scope is Scope.AGENT}
    names = [one.job_type for one in await plane.directory.agents() if not one.job_type.startswith(INTERNAL_PREFIX)]
    history = await plane.audit.list(object_id="gate", limit=10) if caller.may(Role.VIEWER, everywhere=True) else []
    return await page(
        request,
        caller,
        "gate.html",
        agents=[of_agents.get(name) or Control(Scope.AGENT, name) for name in names],
        history=history,
    )


@gate_router.post("/gate/close")
async def close(caller: Operator, plane: ThePlane, reason: Reason = "", back: Back = "/gate") -> Response:
    async def work() -> str:
        changed = await plane.gate.close(reason or None, actor=caller.name)
        return "The gate is closed: no job is started." if changed else "It was already closed."

    return await told(back, work())


@gate_router.post("/gate/open")
async def open_gate(caller: Operator, plane: ThePlane, reason: Reason = "", back: Back = "/gate") -> Response:
    async def work() -> str:
        changed = await plane.gate.open(reason or None, actor=caller.name)
        return "The gate is open: waiting jobs start in queue order." if changed else "It was already open."

    return await told(back, work())


@gate_router.post("/agents/{name}/pause")
async def pause_agent(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.queues.pause(agent=name, reason=reason or None, actor=caller.name)
        return f'Agent "{name}" is paused.'

    return await told("/gate", work())


@gate_router.post("/agents/{name}/resume")
async def resume_agent(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.queues.resume(agent=name, reason=reason or None, actor=caller.name)
        return f'Agent "{name}" is resumed.'

    return await told("/gate", work())
