"""What chat services send when somebody presses a button. Each is answered in its own way, within its own time."""

from __future__ import annotations

import asyncio

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.background import BackgroundTask

from cortex_plane.adapters.http.access import ThePlane, anybody_by_link
from cortex_plane.core.approval_messages import Click, ClosedMessage
from cortex_plane.core.decision_texts import closing, told
from cortex_plane.core.decisions import Decided
from cortex_plane.core.errors import CortexError, NotFound
from cortex_plane.operations.decide_by_click import decide_by_click
from cortex_plane.plane import Plane
from cortex_plane.ports.channels import Clicks

log = structlog.get_logger()

router = APIRouter(prefix="/api/channels", include_in_schema=False, dependencies=[anybody_by_link])

PATIENCE_SECONDS = 2.0
"""Discord and Slack wait for three."""

STILL_AT_IT = "This takes longer than usual. The message will change once it is decided; if it does not, press again."
NOTHING_DONE = "This does not work right now, and nothing was changed. Press again in a while."
SETTINGS = {
    "telegram": "CORTEX_TELEGRAM_WEBHOOK_SECRET",
    "discord": "CORTEX_DISCORD_PUBLIC_KEY",
    "slack": "CORTEX_SLACK_SIGNING_SECRET and CORTEX_SLACK_BOT_TOKEN",
}

Told = tuple[str, ClosedMessage | None]
_going_on: set[asyncio.Task[Told]] = set()
"""Decisions that took longer than a service waits. They are finished all the same."""


@router.post("/telegram")
async def telegram(request: Request, plane: ThePlane) -> Response:
    """The webhook of the bot: an update, with the secret that was given to setWebhook."""
    return await _callback(request, plane, "telegram")


@router.post("/discord")
async def discord(request: Request, plane: ThePlane) -> Response:
    """The interactions endpoint of the application."""
    return await _callback(request, plane, "discord")


@router.post("/slack")
async def slack(request: Request, plane: ThePlane) -> Response:
    """The request URL of the app's interactivity."""
    return await _callback(request, plane, "slack")


async def _callback(request: Request, plane: Plane, service: str) -> Response:
    clicks = (await plane._open_here()).clicks.get(service)
    if clicks is None:
        raise NotFound(f"Buttons in {service.title()} are not set up here. Set {SETTINGS[service]}.")
    found = clicks.read(request.headers, await request.body())
    if not isinstance(found, Click):
        return _response(clicks.acknowledge(found))
    text, closed = await _in_time(plane, service, found)
    later = BackgroundTask(_tell, clicks, found, text)
    return _response(clicks.answer(found, text, closed), later)


async def _in_time(plane: Plane, service: str, click: Click) -> Told:
    deciding = asyncio.create_task(_decide(plane, service, click), name=f"cortex-click-{service}")
    _going_on.add(deciding)
    deciding.add_done_callback(_going_on.discard)
    done, _ = await asyncio.wait({deciding}, timeout=PATIENCE_SECONDS)
    return deciding.result() if done else (STILL_AT_IT, None)


async def _decide(plane: Plane, service: str, click: Click) -> Told:
    try:
        answer = await decide_by_click(await plane.store, service, click)
    except CortexError as error:
        log.warning("approvals.click_failed", service=service, error=str(error))
        return NOTHING_DONE, None
    return told(answer), closing(answer) if isinstance(answer, Decided) else None


async def _tell(clicks: Clicks, click: Click, text: str) -> None:
    try:
        await clicks.tell(click, text)
    except CortexError as error:
        log.warning("approvals.click_not_answered", error=str(error))


def _response(document: dict[str, object] | None, later: BackgroundTask | None = None) -> Response:
    return Response(background=later) if document is None else JSONResponse(document, background=later)
