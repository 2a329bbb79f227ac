"""Approvals for programs: Standard Webhooks events to a registered endpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from cortex_plane.approvals.channels.base import TIMEOUT_SECONDS, ChannelRefused, Service, text_at
from cortex_plane.approvals.messages import Address, ApprovalMessage, ClosedMessage, Sent
from cortex_plane.clock import SECOND, Clock, as_datetime
from cortex_plane.errors import InvalidInput
from cortex_plane.http_client import Http
from cortex_plane.json import dumps
from cortex_plane.webhooks.model import EndpointId, Target, channel_address, signature

REQUESTED, CLOSED = "approval.requested", "approval.closed"
GONE = 410

FindTarget = Callable[[EndpointId], Awaitable[Target | None]]


@dataclass(frozen=True, slots=True)
class WebhookChannel:
    """Addresses are ids of endpoints; `find_target` resolves them (`store.webhooks.target`)."""

    http: Http = field(repr=False)
    clock: Clock = field(repr=False)
    find_target: FindTarget = field(repr=False)
    timeout_seconds: float = TIMEOUT_SECONDS
    name: str = "webhook"
    edits: bool = False

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        await self._deliver(to.id, message.key, REQUESTED, request_data(message), (message.token,))
        return Sent(message.key, {"endpoint_id": to.id, "request_id": message.request_id, "job_id": message.job_id})

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        data = {**closed_data(closed), "request_id": text_at(sent.where, "request_id"), "job_id": text_at(sent.where, "job_id")}
        await self._deliver(text_at(sent.where, "endpoint_id"), f"{sent.message_id}-closed", CLOSED, data, ())

    async def _deliver(
        self, endpoint_id: str, message_id: str, event: str, data: Mapping[str, Any], secrets: tuple[str, ...]
    ) -> None:
        target = await self.find_target(EndpointId(endpoint_id))
        if target is None:
            raise ChannelRefused("The approver's webhook endpoint was removed. Add one, and link it anew.")
        if channel_address(target.url) is not None:
            raise ChannelRefused("This endpoint is for messages to operators; approvals need one with a URL. Link it anew.")
        if not target.enabled:
            raise ChannelRefused(f"The endpoint is disabled. To use it again: cortex webhooks enable {endpoint_id}")
        document = {"type": event, "timestamp": _written(as_datetime(self.clock.now())), "data": data}
        try:
            service = self._service(target, message_id, document, secrets)
        except InvalidInput as error:
            raise ChannelRefused(f"The endpoint's {error} Add the endpoint anew.") from None
        reply = await service.ask_at(target.url, document)
        if not reply.accepted:
            raise service.refused("", _advice(reply.status, endpoint_id))

    def _service(self, target: Target, message_id: str, document: Mapping[str, Any], secrets: tuple[str, ...]) -> Service:
        timestamp = self.clock.now() // SECOND
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(target.secret, message_id, timestamp, dumps(document).encode()),
        }
        host = urlsplit(target.url).hostname or "The endpoint"
        hide = (target.secret, target.url, *secrets)
        return Service(host, self.http, target.url, headers, hide, self.timeout_seconds, target.allow_private)


def _advice(status: int, endpoint_id: str) -> str:
    if status == GONE:
        return f"It answered 410 Gone and wants no more messages. To stop them: cortex webhooks disable {endpoint_id}"
    return f"It answered {status}; only 2xx says that the message was taken."


def request_data(message: ApprovalMessage) -> dict[str, Any]:
    """Send people to the page. Programs decide with a POST; no URL decides when it is opened."""
    return {
        "request_id": message.request_id,
        "job_id": message.job_id,
        "agent": message.agent,
        "title": message.title,
        "summary": message.summary,
        "details": message.details,
        "expires_at": _written(message.expires_at),
        "page_url": message.page_url,
        "approve": {"method": "POST", "url": message.approve_url},
        "deny": {"method": "POST", "url": message.deny_url},
        "token": message.token,
    }


def closed_data(closed: ClosedMessage) -> dict[str, Any]:
    return {"outcome": closed.outcome, "by": closed.by, "reason": closed.reason, "at": _written(closed.at)}


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
