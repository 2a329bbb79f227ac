"""Who is told when jobs end."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from cortex_plane.cursors import cursor_for
from cortex_plane.errors import NotFound
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import Cursor, IdPath, Input, Limit, Name, Page, Text, WithReason, id_in
from cortex_plane.http.lookups import endpoint_in, job_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.jobs.model import Job
from cortex_plane.people.roles import Caller, Role, RoleMissing
from cortex_plane.webhooks.model import WEBHOOK_AGENT, DeadLetter, Endpoint
from cortex_plane.webhooks.service import EndpointWish, add_endpoint

router = APIRouter(prefix=f"{PREFIX}/webhooks", tags=["webhooks"])
letters = APIRouter(prefix=f"{PREFIX}/dead-letters", tags=["webhooks"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Operator = Annotated[Caller, require(Role.OPERATOR)]
Admin = Annotated[Caller, require(Role.ADMIN)]


EventName = Literal[
    "job.completed",
    "job.failed",
    "job.cancelled",
    "job.held",
    "job.uncertain",
    "approval.undecidable",
    "job.*",
    "approval.*",
    "*",
]


class NewWebhook(Input):
    url: Text = Field(
        min_length=1,
        examples=["https://example.com/hooks/cortex"],
        description="Or operators in a channel: email:ops@example.com, slack:C024BE7LH, telegram:…, discord:….",
    )
    events: list[EventName] | None = Field(default=None, min_length=1, max_length=10, examples=[["job.failed"]])
    secret: Name | None = Field(default=None, description="Without one it is made, and answered only here.")
    description: Text | None = Field(default=None, max_length=500)
    allow_private: bool = Field(default=False, description="Only for admins of all tenants: our own network is theirs to open.")


class AddedWebhook(BaseModel):
    id: str
    endpoint: Endpoint
    secret: str | None = Field(description="Shown once: receivers check signatures by it.")


@router.get("")
async def list_webhooks(caller: Viewer, plane: ThePlane) -> list[Endpoint]:
    """Oldest first; secrets are never shown again."""
    return await plane.webhooks.list(tenant=caller.tenant)


@router.post("", status_code=201, response_model=AddedWebhook)
async def add_webhook(
    request: Request, caller: Admin, plane: ThePlane, body: NewWebhook, idempotency_key: IdempotencyKey = None
) -> Response:
    """Tells an address, by signed messages, when jobs of your tenant end."""
    if body.allow_private and not caller.may(Role.ADMIN, everywhere=True):
        raise RoleMissing(Role.ADMIN, everywhere=True)
    wish = EndpointWish(
        body.url, body.events, caller.tenant, body.secret, body.description, body.allow_private, created_by=caller.name
    )

    async def work(ids: NewId) -> AddedWebhook:
        added = await add_endpoint(plane.store, plane.directory, ids, wish)
        return AddedWebhook(id=added.endpoint.id, endpoint=added.endpoint, secret=added.secret)

    return await created(request, caller, idempotency_key, AddedWebhook, work, location="/api/v1/webhooks/{id}", secret="secret")


@letters.get("")
async def dead_letters(caller: Viewer, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None) -> Page[DeadLetter]:
    """Messages that could not be delivered and were not sent again, newest first."""
    before = id_in("dead", cursor)
    page = await plane.webhooks.dead_letter_page(tenant=caller.tenant, before=before, limit=limit)
    return Page(items=page.letters, next=cursor_for("dead", page.next_before) if page.next_before else None)


@letters.post("/{job_id}/redeliver")
async def redeliver(caller: Operator, plane: ThePlane, job_id: IdPath) -> Job:
    """Sends a message again whose delivery failed, under the same event id."""
    job = await job_in(plane, caller, job_id)
    if job.job_type != WEBHOOK_AGENT:
        raise NotFound(f"Job {job_id} is not the delivery of a message. Those that failed: /api/v1/dead-letters")
    return await job_in(plane, caller, (await plane.webhooks.redeliver(job.id, actor=caller.name)).id)


@router.get("/{endpoint_id}")
async def get_webhook(caller: Viewer, plane: ThePlane, endpoint_id: IdPath) -> Endpoint:
    """One address."""
    return await endpoint_in(plane, caller, endpoint_id)


@router.delete("/{endpoint_id}", status_code=204, response_model=None)
async def remove_webhook(caller: Admin, plane: ThePlane, endpoint_id: IdPath) -> None:
    """Removes an address. What was still to be delivered to it is dropped."""
    await plane.webhooks.remove((await endpoint_in(plane, caller, endpoint_id)).id, actor=caller.name)


@router.post("/{endpoint_id}/enable")
async def enable_webhook(caller: Operator, plane: ThePlane, endpoint_id: IdPath) -> Endpoint:
    """Tells an address again that was disabled."""
    return await plane.webhooks.enable((await endpoint_in(plane, caller, endpoint_id)).id, actor=caller.name)


@router.post("/{endpoint_id}/disable")
async def disable_webhook(caller: Operator, plane: ThePlane, endpoint_id: IdPath, body: WithReason) -> Endpoint:
    """Tells an address nothing more until it is enabled."""
    endpoint = await endpoint_in(plane, caller, endpoint_id)
    return await plane.webhooks.disable(endpoint.id, actor=caller.name, reason=body.reason)


@router.post("/{endpoint_id}/test")
async def test_webhook(caller: Operator, plane: ThePlane, endpoint_id: IdPath) -> Job:
    """Sends one message, whatever the address listens to. The answer is the delivery's own job."""
    endpoint = await endpoint_in(plane, caller, endpoint_id)
    return await job_in(plane, caller, (await plane.webhooks.test(endpoint.id, actor=caller.name)).id)
