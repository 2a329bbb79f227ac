"""Adds a webhook endpoint: an address that is told, by signed messages, when jobs of its tenant end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from secrets import token_bytes
from urllib.parse import urlsplit

from cortex_plane.core.agents import AgentRecord
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import DEFAULT_TENANT, AgentId
from cortex_plane.core.webhooks import (
    SECRET_BYTES,
    WEBHOOK_AGENT,
    WEBHOOK_CONFIG,
    AddedEndpoint,
    EndpointId,
    NewEndpoint,
    check_description,
    check_events,
    check_secret,
    check_url,
    new_secret,
)
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.find_endpoint import find_endpoint
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.json_text import encode
from cortex_plane.ports.store import Store

RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class EndpointWish:
    """What a caller asks for. Without a secret, one is made and shown once."""

    url: str
    events: Sequence[str] = ("*",)
    tenant: str = DEFAULT_TENANT
    secret: str | None = field(default=None, repr=False)
    description: str | None = None
    allow_private: bool = False
    created_by: str | None = None


async def add_endpoint(
    store: Store, directory: Directory, new_id: NewId, wish: EndpointWish, random_bytes: RandomBytes = token_bytes
) -> AddedEndpoint:
    made = new_secret(random_bytes(SECRET_BYTES)) if wish.secret is None else None
    endpoint = NewEndpoint(
        id=EndpointId(new_id()),
        tenant_id=await directory.tenant(wish.tenant),
        url=check_url(wish.url, allow_private=wish.allow_private),
        events=check_events(wish.events),
        secret=made or check_secret(wish.secret or ""),
        description=check_description(wish.description),
        allow_private=bool(wish.allow_private),
        created_by=wish.created_by,
    )
    encode([endpoint.url, endpoint.description], "endpoint")
    # Events are written as jobs of this agent, also before the first worker has come to announce it.
    await store.agents.register([AgentRecord(AgentId(new_id()), WEBHOOK_AGENT, WEBHOOK_CONFIG)])
    await store.webhooks.add(endpoint, _entry(endpoint))
    return AddedEndpoint(await find_endpoint(store, endpoint.id), made)


def _entry(endpoint: NewEndpoint) -> AuditEntry:
    """Only the host: the rest of an address may hold a key."""
    details = {"host": urlsplit(endpoint.url).hostname, "events": list(endpoint.events), "allow_private": endpoint.allow_private}
    return AuditEntry(
        "WEBHOOK_ADDED",
        "webhook_endpoint",
        endpoint.id,
        actor=endpoint.created_by,
        tenant_id=endpoint.tenant_id,
        details=details,
    )
