"""Queues: what waits where, in which order; pause, limit, share, and move jobs by hand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.adapters.dashboard.notes import told
from cortex_plane.adapters.dashboard.rendering import page
from cortex_plane.adapters.dashboard.routes.overview import QueueLine, queue_lines
from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath, NamePath
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.controls import Control, Scope
from cortex_plane.core.errors import InvalidInput
from cortex_plane.operations.look_at_load import look_into_queue

router = APIRouter(include_in_schema=False)

Viewer = Annotated[Caller, require(Role.VIEWER, everywhere=True)]
Operator = Annotated[Caller, require(Role.OPERATOR, everywhere=True)]
Reason = Annotated[str, Form(max_length=2_000)]
SHOWN = 100


@router.get("/queues")
async def queues(request: Request, caller: Viewer, plane: ThePlane) -> Response:
    return await page(request, caller, "queues.html", queues=await queue_lines(plane), reservations=await plane.reservations())


@router.get("/queues/{name}")
async def one_queue(request: Request, caller: Viewer, plane: ThePlane, name: NamePath) -> Response:
    lines = await queue_lines(plane)
    line = next((line for line in lines if line.name == name), QueueLine(name, 0, {}, Control(Scope.QUEUE, name)))
    store = await plane.store
    tenants = {tenant.id: tenant.name for tenant in await store.tenants.list()}
    entries = await look_into_queue(store, name, SHOWN)
    return await page(request, caller, "queue.html", queue=line, entries=entries, tenant_names=tenants)


@router.post("/queues/{name}/pause")
async def pause(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        changed = await plane.pause(queue=name, reason=reason or None, actor=caller.name)
        return f'Queue "{name}" is paused: nothing more of it starts.' if changed else "It was paused already."

    return await told(f"/queues/{name}", work())


@router.post("/queues/{name}/resume")
async def resume(caller: Operator, plane: ThePlane, name: NamePath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.resume(queue=name, reason=reason or None, actor=caller.name)
        return f'Queue "{name}" goes on.'

    return await told(f"/queues/{name}", work())


@router.post("/queues/{name}/limit")
async def limit(
    caller: Operator, plane: ThePlane, name: NamePath, max_running: Annotated[str, Form(max_length=20)] = "", reason: Reason = ""
) -> Response:
    async def work() -> str:
        wanted = _number(max_running)
        await plane.limit(wanted, queue=name, reason=reason or None, actor=caller.name)
        return "The limit is lifted." if wanted is None else f"At most {wanted} of its jobs run at a time."

    return await told(f"/queues/{name}", work())


@router.post("/queues/{name}/share")
async def share(caller: Operator, plane: ThePlane, name: NamePath, fair_share: Annotated[bool, Form()] = False) -> Response:
    async def work() -> str:
        await plane.share_fairly(name, fair_share, actor=caller.name)
        return "Its tenants take turns." if fair_share else "Its tenants no longer take turns."

    return await told(f"/queues/{name}", work())


@router.post("/reservations/{reservation_id}/release")
async def release(caller: Operator, plane: ThePlane, reservation_id: IdPath, reason: Reason = "") -> Response:
    async def work() -> str:
        await plane.release(reservation_id, by=caller.name, reason=reason or None, force=True)
        return "Released. Its job stays in the queue."

    return await told("/queues", work())


def _number(text: str) -> int | None:
    if not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise InvalidInput("The limit must be a whole number; nothing at all lifts it.", field="max_running")
    return int(text)
