"""Removes a webhook endpoint. What was still to be delivered to it is dropped when its turn comes."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.webhooks import EndpointId, EndpointNotFound
from cortex_plane.operations.find_endpoint import find_endpoint
from cortex_plane.ports.store import Store


async def remove_endpoint(store: Store, id_or_prefix: str, *, actor: str | None = None) -> EndpointId:
    endpoint = await find_endpoint(store, id_or_prefix)
    entry = AuditEntry("WEBHOOK_REMOVED", "webhook_endpoint", endpoint.id, actor=actor, tenant_id=endpoint.tenant_id)
    if not await store.webhooks.remove(endpoint.id, entry):
        raise EndpointNotFound(endpoint.id)
    return endpoint.id
