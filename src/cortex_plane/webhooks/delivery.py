"""The plane's own agent that delivers webhooks, and the loop that repeats failed deliveries.

Tries failed deliveries (webhooks, notifications) again: their cause may be gone.

Whether it is gone is found out by trying. The first try comes five minutes after the failure, each further one after as long as
was tried in vain so far, until a week has passed. To an endpoint that is disabled nothing is tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import structlog

from cortex_plane.agents.code import AgentCode
from cortex_plane.approvals.messages import Address
from cortex_plane.approvals.notify import SETTINGS, translated
from cortex_plane.audit.model import AuditEntry
from cortex_plane.clock import SECOND, Clock, as_datetime
from cortex_plane.errors import Contended
from cortex_plane.http_client import Http, HttpResponse, PrivateAddress
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.retry import retry_after_seconds
from cortex_plane.json import dumps
from cortex_plane.webhooks.model import (
    QUIET_SECONDS,
    WEBHOOK_AGENT,
    WEBHOOK_CONFIG,
    EndpointId,
    Target,
    channel_address,
    notice_of,
    signature,
    subject_of,
)
from cortex_plane.worker.failures import PermanentFailure, RetryLater

if TYPE_CHECKING:
    from cortex_plane.approvals.channels.base import Channel
    from cortex_plane.durable.context import Context
    from cortex_plane.ids import NewId
    from cortex_plane.stores import Store

log = structlog.get_logger()

BATCH = 100


async def redeliver_failed(store: Store, new_id: NewId) -> int:
    """Submits a linked job for each that is due. Returns how many; a full batch means that there may be more."""
    submitted = 0
    for job_id in await store.webhooks.failed_deliveries(BATCH):
        successor = JobId(new_id())
        try:
            made = await store.webhooks.redeliver(job_id, successor)
        except Contended:  # Another transaction has locked it; the next look finds it again.
            continue
        if made:
            submitted += 1
            log.info("delivery_tried_again", failed_job_id=job_id, job_id=successor)
    return submitted


# -- webhooks ----------------------------------------------------------------------------------
# Delivers one event to one webhook endpoint, or to operators in a channel. What fails is tried again as jobs are, and in
# the end
# stays as a FAILED job.


TIMEOUT_SECONDS = 10.0
ANSWER_LIMIT_BYTES = 64 * 1024
EXCERPT_LIMIT = 200
GONE = 410
BUSY = (429, 503)


class DeliveryFailed(Exception):
    """The receiver answered, but did not accept the message."""


def webhook_agent(
    store: Store,
    http: Http,
    clock: Clock,
    channels: Mapping[str, Channel] = MappingProxyType({}),
    public_url: str = "",
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> AgentCode:
    async def deliver(ctx: Context, endpoint_id: str, event_id: str, event: dict[str, Any]) -> dict[str, Any]:
        target = await store.webhooks.target(EndpointId(endpoint_id))
        if target is None:
            return {"delivered": False, "reason": "the endpoint was removed"}
        if not target.enabled:
            raise PermanentFailure(
                f"The endpoint is disabled. To deliver this after all: cortex webhooks enable {endpoint_id}, "
                f"then cortex webhooks redeliver {ctx.job_id}"
            )
        if (reached := channel_address(target.url)) is not None:
            return await _notify(ctx, EndpointId(endpoint_id), reached, event_id, event)
        answer = await _post(target, event_id, dumps(event).encode())
        if answer.status == GONE:
            await _disable(endpoint_id, target)
        _check(answer, as_datetime(clock.now()))
        return {"delivered": True, "status": answer.status}

    async def _notify(
        ctx: Context, endpoint_id: EndpointId, reached: tuple[str, str], event_id: str, event: dict[str, Any]
    ) -> dict[str, Any]:
        name, address = reached
        subject = subject_of(event)
        if subject is not None and not await store.webhooks.tell_once(endpoint_id, subject, event_id, QUIET_SECONDS):
            return {"delivered": False, "reason": f"told of {subject} a short while ago"}
        notify = getattr(channels.get(name), "notify", None)
        if notify is None:
            raise PermanentFailure(
                f"This worker cannot send by {name}. Set {SETTINGS.get(name, 'Plane(channels=…)')} for all workers, "
                f"then: cortex webhooks redeliver {ctx.job_id}"
            )
        with translated():
            await notify(notice_of(event_id, event, public_url), Address(address))
        return {"delivered": True, "channel": name}

    async def _post(target: Target, event_id: str, body: bytes) -> HttpResponse:
        try:
            return await http.post(
                target.url,
                headers=_headers(target, event_id, body),
                body=body,
                timeout_seconds=timeout_seconds,
                answer_limit_bytes=ANSWER_LIMIT_BYTES,
                allow_private=target.allow_private,
            )
        except PrivateAddress as error:
            raise PermanentFailure(f"{error} Add the endpoint anew with allow_private if that is meant.") from None

    def _headers(target: Target, event_id: str, body: bytes) -> dict[str, str]:
        """Each attempt has its own time, and so its own signature; receivers know a message again by its id."""
        timestamp = clock.now() // SECOND
        return {
            "content-type": "application/json",
            "user-agent": "cortex-plane",
            "webhook-id": event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(target.secret, event_id, timestamp, body),
        }

    async def _disable(endpoint_id: str, target: Target) -> None:
        reason = "It answered 410 Gone."
        entry = AuditEntry(
            "WEBHOOK_DISABLED",
            "webhook_endpoint",
            endpoint_id,
            actor=WEBHOOK_AGENT,
            reason=reason,
            tenant_id=target.tenant_id,
        )
        await store.webhooks.disable(EndpointId(endpoint_id), reason, entry)

    return AgentCode(WEBHOOK_AGENT, deliver, "async", WEBHOOK_CONFIG)


def _check(answer: HttpResponse, now: datetime) -> None:
    """Only 2xx says that the message was taken."""
    if 200 <= answer.status < 300:
        return
    if answer.status == GONE:
        raise PermanentFailure("The receiver answered 410 Gone: it wants no more messages. The endpoint was disabled.")
    if 300 <= answer.status < 400:
        raise DeliveryFailed(
            f"The receiver answered {answer.status}, a redirect to {_excerpt(answer.headers.get('location', 'nowhere'))}. "
            "Redirects are not followed: add an endpoint with the final address."
        )
    said = _excerpt(answer.body.decode("utf-8", "replace"))
    message = f"The receiver answered {answer.status}{f': {said}' if said else ''}."
    wait = retry_after_seconds(answer.headers.get("retry-after", ""), now, answer.headers.get("date", ""))
    if answer.status in BUSY and wait is not None:
        raise RetryLater(message, wait)
    raise DeliveryFailed(message)


def _excerpt(text: str) -> str:
    clean = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return clean if len(clean) <= EXCERPT_LIMIT else f"{clean[:EXCERPT_LIMIT]}…"


# -- redeliverer -------------------------------------------------------------------------------
# Submits failed deliveries of the plane again when they are due. Every worker looks; each delivery is submitted once.


REST_SECONDS = 30.0


class Redeliverer:
    def __init__(self, store: Store, new_id: NewId) -> None:
        self._store, self._new_id = store, new_id

    async def once(self) -> float:
        return 0.0 if await redeliver_failed(self._store, self._new_id) == BATCH else REST_SECONDS
