"""Jobs that belong together."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from cortex_plane.cursors import cursor_for
from cortex_plane.groups.model import Group, GroupId, GroupMode, GroupStatus, Member, OnFailure, Tally
from cortex_plane.groups.service import submit_group
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import Cursor, IdPath, Input, Limit, Name, Page, WithReason, id_in
from cortex_plane.http.lookups import group_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.jobs.http_inputs import MOST_AT_ONCE, SubmitJob
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.people.http_sessions import check_sessions_of
from cortex_plane.people.roles import Caller, Role

router = APIRouter(prefix=f"{PREFIX}/groups", tags=["groups"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Submitter = Annotated[Caller, require(Role.SUBMITTER)]
Operator = Annotated[Caller, require(Role.OPERATOR)]


class SubmitGroup(Input):
    members: list[SubmitJob] = Field(min_length=1, max_length=MOST_AT_ONCE)
    mode: GroupMode = "parallel"
    on_failure: OnFailure = "stop"
    callback: SubmitJob | None = Field(default=None, description="Submitted when no member is open any more.")
    name: Name | None = None
    key: Name | None = Field(default=None, description="Submitted again under the same key, it is the same group.")


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
    await check_sessions_of(plane, caller, [*body.members, *([body.callback] if body.callback else [])])

    async def work(ids: NewId) -> SubmittedGroup:
        with plane.submitting([member.agent for member in body.members], request.headers.get("traceparent")) as trace:
            group_id, job_ids = await submit_group(
                plane.store,
                plane.directory,
                ids,
                [member.submission(caller) for member in body.members],
                mode=body.mode,
                on_failure=body.on_failure,
                callback=body.callback.submission(caller) if body.callback else None,
                name=body.name,
                key=body.key,
                created_by=caller.name,
                payload_limit_bytes=plane.settings.payload_limit_bytes,
                trace=trace,
            )
        return SubmittedGroup(id=group_id, jobs=list(job_ids))

    return await created(request, caller, idempotency_key, SubmittedGroup, work, location="/api/v1/groups/{id}")


@router.get("")
async def list_groups(caller: Viewer, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None) -> Page[GroupView]:
    """Newest first."""
    before = id_in("group", cursor)
    last = None if before is None else GroupId(before)
    groups = await plane.store.groups.list(caller.tenant_id, before=last, limit=limit)
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
