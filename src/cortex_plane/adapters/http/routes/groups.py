"""Jobs that belong together."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath, Input, Name, WithReason
from cortex_plane.adapters.http.once import IdempotencyKey, created
from cortex_plane.adapters.http.pages import Cursor, Limit, Page, cursor_for, id_in
from cortex_plane.adapters.http.routes.found import group_in
from cortex_plane.adapters.http.routes.job_inputs import MOST_AT_ONCE, SubmitJob
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.groups import Group, GroupId, GroupMode, GroupStatus, Member, OnFailure, Tally
from cortex_plane.core.jobs import JobId, TenantId
from cortex_plane.operations.submit_group import submit_group
from cortex_plane.ports.clock import NewId

router = APIRouter(prefix="/groups", tags=["groups"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Submitter = Annotated[Caller, require(Role.SUBMITTER)]
Operator = Annotated[Caller, require(Role.OPERATOR)]


class SubmitGroup(Input):
    members: list[SubmitJob] = Field(min_length=1, max_length=MOST_AT_ONCE)
    mode: GroupMode = "parallel"
    on_failure: OnFailure = "stop"
    callback: SubmitJob | None = Field(default=None, description="Submitted when no member is open any more.")
    name: Name | None = None


class SubmittedGroup(BaseModel):
    id: GroupId
    jobs: list[JobId]


class GroupView(BaseModel):
    id: GroupId
    tenant_id: TenantId
    name: str | None
    status: GroupStatus
    mode: GroupMode
    on_failure: OnFailure
    callback: dict[str, Any] | None
    callback_job_id: JobId | None
    created_by: str | None
    created_at: datetime
    finished_at: datetime | None
    stopping: bool = Field(description="Its members are being cancelled.")
    tally: Tally


class Cancelled(BaseModel):
    cancelled: int


@router.post("", status_code=201, response_model=SubmittedGroup)
async def submit(
    request: Request, caller: Submitter, plane: ThePlane, body: SubmitGroup, idempotency_key: IdempotencyKey = None
) -> Response:
    """Submits jobs that belong together: all of them or none."""

    async def work(ids: NewId) -> SubmittedGroup:
        opened = await plane._open_here()
        group_id, job_ids = await submit_group(
            opened.store,
            opened.directory,
            ids,
            [member.submission(caller) for member in body.members],
            mode=body.mode,
            on_failure=body.on_failure,
            callback=body.callback.submission(caller) if body.callback else None,
            name=body.name,
            created_by=caller.name,
            payload_limit_bytes=plane.settings.payload_limit_bytes,
        )
        return SubmittedGroup(id=group_id, jobs=list(job_ids))

    return await created(request, caller, idempotency_key, SubmittedGroup, work, location="/api/v1/groups/{id}")


@router.get("")
async def list_groups(caller: Viewer, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None) -> Page[GroupView]:
    """Newest first."""
    before = id_in("group", cursor)
    last = None if before is None else GroupId(before)
    groups = await (await plane.store).groups.list(caller.tenant_id, before=last, limit=limit)
    following = cursor_for("group", groups[-1].id) if len(groups) == limit else None
    return Page(items=[_view(group) for group in groups], next=following)


@router.get("/{group_id}")
async def get_group(caller: Viewer, plane: ThePlane, group_id: IdPath) -> GroupView:
    """Where a group stands."""
    return _view(await group_in(plane, caller, group_id))


@router.get("/{group_id}/members")
async def group_members(
    caller: Viewer, plane: ThePlane, group_id: IdPath, limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000
) -> list[Member]:
    """Its members in their order; retries of members last."""
    return await plane.groups.members((await group_in(plane, caller, group_id)).id, limit=limit)


@router.post("/{group_id}/cancel")
async def cancel_group(caller: Operator, plane: ThePlane, group_id: IdPath, body: WithReason) -> Cancelled:
    """Cancels every member that has not ended."""
    group = await group_in(plane, caller, group_id)
    return Cancelled(cancelled=await plane.groups.cancel(group.id, actor=caller.name, reason=body.reason))


def _view(group: Group) -> GroupView:
    shown = {name: getattr(group, name) for name in GroupView.model_fields}
    return GroupView.model_validate(shown, from_attributes=True)
