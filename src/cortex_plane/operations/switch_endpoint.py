"""Switches a webhook endpoint on or off. Doing so a second time changes nothing and is not recorded."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.webhooks import Endpoint
from cortex_plane.operations.find_endpoint import find_endpoint
from cortex_plane.ports.store import Store


async def enable_endpoint(store: Store, id_or_prefix: str, *, actor: str | None = None) -> Endpoint:
    endpoint = await find_endpoint(store, id_or_prefix)
    await store.webhooks.enable(endpoint.id, _entry("WEBHOOK_ENABLED", endpoint, actor, None))
    return await find_endpoint(store, endpoint.id)


async def disable_endpoint(store: Store, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Endpoint:
    endpoint = await find_endpoint(store, id_or_prefix)
    await store.webhooks.disable(endpoint.id, reason, _entry("WEBHOOK_DISABLED", endpoint, actor, reason))
    return await find_endpoint(store, endpoint.id)


def _entry(action: str, endpoint: Endpoint, actor: str | None, reason: str | None) -> AuditEntry:
    return AuditEntry(action, "webhook_endpoint", endpoint.id, actor=actor, reason=reason, tenant_id=endpoint.tenant_id)
