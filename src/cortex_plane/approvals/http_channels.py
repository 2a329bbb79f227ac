"""HTTP: callbacks of chat services, and the channels of a user."""

from __future__ import annotations

import asyncio
from typing import Annotated

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.background import BackgroundTask

from cortex_plane.approvals.channels.base import Clicks
from cortex_plane.approvals.decisions import Decided, closing, told
from cortex_plane.approvals.messages import Click, ClosedMessage
from cortex_plane.approvals.service import decide_by_click
from cortex_plane.errors import CortexError, NotFound
from cortex_plane.http.auth import ThePlane, anybody_by_link, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import IdPath, Input, NamePath, Text
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.people.model import ADDRESS_LIMIT, CHANNEL, LinkedChannel
from cortex_plane.people.roles import Caller, Role
from cortex_plane.people.users import link_channel
from cortex_plane.plane import Plane

log = structlog.get_logger()

router = APIRouter(prefix="/api/channels", include_in_schema=False, dependencies=[anybody_by_link])

PATIENCE_SECONDS = 2.0
"""Discord and Slack wait three seconds for a reply."""

IN_PROGRESS = "This takes longer than usual. The message will be updated with the decision. If it is not, press again."
NOT_SAVED = "The decision could not be saved. Nothing was changed. Please try again later."
SETTINGS = {
    "telegram": "CORTEX_TELEGRAM_WEBHOOK_SECRET",
    "discord": "CORTEX_DISCORD_PUBLIC_KEY",
    "slack": "CORTEX_SLACK_SIGNING_SECRET and CORTEX_SLACK_BOT_TOKEN",
}

Reply = tuple[str, ClosedMessage | None]
_in_progress: set[asyncio.Task[Reply]] = set()
"""Running decisions. They finish even if the service no longer waits for the reply."""


@router.post("/telegram")
async def telegram(request: Request, plane: ThePlane) -> Response:
    """Webhook of the bot: an update, with the secret passed to setWebhook."""
    return await _callback(request, plane, "telegram")


@router.post("/discord")
async def discord(request: Request, plane: ThePlane) -> Response:
    """Interactions endpoint of the application."""
    return await _callback(request, plane, "discord")


@router.post("/slack")
async def slack(request: Request, plane: ThePlane) -> Response:
    """Interactivity request URL of the app."""
    return await _callback(request, plane, "slack")


async def _callback(request: Request, plane: Plane, service: str) -> Response:
    clicks = plane.clicks.get(service)
    if clicks is None:
        raise NotFound(f"Buttons in {service.title()} are not configured on this server. Set {SETTINGS[service]}.")
    found = clicks.read(request.headers, await request.body())
    if not isinstance(found, Click):
        return _response(clicks.acknowledge(found))
    text, closed = await _in_time(plane, service, found)
    later = BackgroundTask(_send_reply, clicks, found, text)
    return _response(clicks.answer(found, text, closed), later)


async def _in_time(plane: Plane, service: str, click: Click) -> Reply:
    deciding = asyncio.create_task(_decide(plane, service, click), name=f"cortex-click-{service}")
    _in_progress.add(deciding)
    deciding.add_done_callback(_in_progress.discard)
    done, _ = await asyncio.wait({deciding}, timeout=PATIENCE_SECONDS)
    return deciding.result() if done else (IN_PROGRESS, None)


async def _decide(plane: Plane, service: str, click: Click) -> Reply:
    try:
        answer = await decide_by_click(plane.store, service, click)
    except CortexError as error:
        log.warning("approvals.click_failed", service=service, error=str(error))
        return NOT_SAVED, None
    return told(answer), closing(answer) if isinstance(answer, Decided) else None


async def _send_reply(clicks: Clicks, click: Click, text: str) -> None:
    try:
        await clicks.tell(click, text)
    except CortexError as error:
        log.warning("approvals.click_not_answered", error=str(error))


def _response(document: dict[str, object] | None, later: BackgroundTask | None = None) -> Response:
    return Response(background=later) if document is None else JSONResponse(document, background=later)


# -- channels ----------------------------------------------------------------------------------
# The addresses at which users are notified.


channels_router = APIRouter(prefix=f"{PREFIX}/users/{{name}}/channels", tags=["users"])

AdminOfAll = Annotated[Caller, require(Role.ADMIN, everywhere=True)]


ChannelType = Annotated[str, Field(min_length=1, max_length=50, json_schema_extra={"pattern": f"^{CHANNEL.pattern}$"})]


class NewChannel(Input):
    channel_type: Annotated[str, Field(min_length=1, max_length=50, json_schema_extra={"pattern": f"^{CHANNEL.pattern}$"})] = (
        Field(description="telegram, discord, slack, email, webhook, or a channel registered on this server.", examples=["email"])
    )
    address: Text = Field(
        min_length=1,
        max_length=ADDRESS_LIMIT,
        description="The id of a chat or user, an e-mail address, or the id of a webhook.",
        examples=["ada@example.com"],
    )


@channels_router.get("")
async def list_channels(_caller: AdminOfAll, plane: ThePlane, name: NamePath) -> list[LinkedChannel]:
    """The addresses at which a user is notified."""
    return list(await plane.people.channels(name))


@channels_router.post("", status_code=201, response_model=LinkedChannel)
async def link(
    request: Request,
    caller: AdminOfAll,
    plane: ThePlane,
    name: NamePath,
    body: NewChannel,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Links an address to a user, who is notified there from now on."""

    async def work(ids: NewId) -> LinkedChannel:
        store, registered = plane.store, plane.channels
        return await link_channel(store, ids, name, body.channel_type, body.address, registered=registered, actor=caller.name)

    return await created(request, caller, idempotency_key, LinkedChannel, work)


@channels_router.delete("/{channel_id}", status_code=204, response_model=None)
async def unlink(caller: AdminOfAll, plane: ThePlane, name: NamePath, channel_id: IdPath) -> None:
    """Unlinks an address from a user."""
    await plane.people.unlink(name, channel_id, actor=caller.name)
