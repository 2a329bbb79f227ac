"""The gate: stops everything at once, and starts it again. Also agents, which can be paused one by one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.adapters.dashboard.notes import told
from cortex_plane.adapters.dashboard.rendering import page
from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import NamePath
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.controls import Control, Scope
from cortex_plane.core.jobs import INTERNAL_PREFIX

router = APIRouter(include_in_schema=False)

Operator = Annotated[Caller, require(Role.OPERATOR, everywhere=True)]
Reason = Annotated[str, Form(max_length=2_000)]
Back = Annotated[str, Form(max_length=2_000)]


@router.get("/gate")
async def gate(request: Request, caller: Annotated[Caller, require(Role.VIEWER)], plane: ThePlane) -> Response:
    store = await plane.store
    controls = await store.controls.list()
    of_agents = {control.name: control for control in controls if control.scope is Scope.AGENT}
    names = [one.job_type for one in await store.agents.list() if not one.job_type.startswith(INTERNAL_PREFIX)]
    history = await plane.audit.list(object_id="gate", limit=10) if caller.may(Role.VIEWER, everywhere=True) else []
    return await page(
        request,
        caller,
        "gate.html",
        agents=[of_agents.get(name) or Control(Scope.AGENT, name) for name in names],
        history=history,
    )


@router.post("/gate/close")
async def close(caller: Operator, plane: ThePlane, reason: Reason = "", back: Back = "/gate") -> Response:
    async def work() -> str:
        changed = await plane.close_gate(reason or None, actor=caller.name)
        return "The gate is closed: nothing more is started, anywhere." if changed else "It was closed already."

    return await told(back, work())


@router.post("/gate/open")
async def open_gate(caller: Operator, plane: ThePlane, reason: Reason = "", back: Back = "/gate") -> Response:
    async def work() -> str:
        changed = await plane.open_gate(reason or None, actor=caller.name)
        return "The gate is open: waiting jobs start again, in their order." if changed else "It was open already."

    return await told(back, work())


@router.post("/agents/{name}/pause")
async def pause_agent(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.pause(agent=name, reason=reason or None, actor=caller.name)
        return f'Agent "{name}" is paused: nothing more of it starts.'

    return await told("/gate", work())


@router.post("/agents/{name}/resume")
async def resume_agent(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.resume(agent=name, reason=reason or None, actor=caller.name)
        return f'Agent "{name}" goes on.'

    return await told("/gate", work())
