"""Delivers one event to one webhook endpoint. What fails is tried again as jobs are, and in the end stays as a FAILED job."""

from __future__ import annotations

from typing import Any

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.instants import SECOND
from cortex_plane.core.webhooks import WEBHOOK_AGENT, WEBHOOK_CONFIG, EndpointId, Target, signature
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.http import Answer, Http, PrivateAddress
from cortex_plane.ports.json_text import dumps
from cortex_plane.ports.store import Store
from cortex_plane.runtime.agents import AgentCode
from cortex_plane.runtime.context import Context
from cortex_plane.runtime.failures import PermanentFailure, RetryAfter

TIMEOUT_SECONDS = 10.0
ANSWER_LIMIT_BYTES = 64 * 1024
EXCERPT_LIMIT = 200
GONE = 410
BUSY = (429, 503)


class DeliveryFailed(Exception):
    """The receiver answered, but did not accept the message."""


def webhook_agent(store: Store, http: Http, clock: Clock, *, timeout_seconds: float = TIMEOUT_SECONDS) -> AgentCode:
    async def deliver(ctx: Context, endpoint_id: str, event_id: str, event: dict[str, Any]) -> dict[str, Any]:
        target = await store.webhooks.target(EndpointId(endpoint_id))
        if target is None:
            return {"delivered": False, "reason": "the endpoint was removed"}
        if not target.enabled:
            raise PermanentFailure(
                f"The endpoint is disabled. To deliver this after all: cortex webhooks enable {endpoint_id}, "
                f"then cortex webhooks redeliver {ctx.job_id}"
            )
        answer = await _post(target, event_id, dumps(event).encode())
        if answer.status == GONE:
            await _disable(endpoint_id, target)
        _check(answer)
        return {"delivered": True, "status": answer.status}

    async def _post(target: Target, event_id: str, body: bytes) -> Answer:
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


def _check(answer: Answer) -> None:
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
    wait = answer.headers.get("retry-after", "")
    if answer.status in BUSY and wait.isascii() and wait.isdigit():
        raise RetryAfter(message, float(wait))
    raise DeliveryFailed(message)


def _excerpt(text: str) -> str:
    clean = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return clean if len(clean) <= EXCERPT_LIMIT else f"{clean[:EXCERPT_LIMIT]}…"
