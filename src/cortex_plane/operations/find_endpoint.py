"""Finds a webhook endpoint by its id, or by the first part of one, as people type it."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.webhooks import Endpoint, EndpointNotFound
from cortex_plane.ports.store import Store

SHORTEST_PREFIX = 4


async def find_endpoint(store: Store, id_or_prefix: str) -> Endpoint:
    return endpoint_named(id_or_prefix, await store.webhooks.list())


def endpoint_named(id_or_prefix: str, endpoints: Sequence[Endpoint]) -> Endpoint:
    prefix = str(id_or_prefix).strip().lower()
    if len(prefix) < SHORTEST_PREFIX:
        raise InvalidInput(f"Give at least {SHORTEST_PREFIX} characters of the endpoint's id.", field="id")
    found = [endpoint for endpoint in endpoints if endpoint.id.startswith(prefix)]
    if not found:
        raise EndpointNotFound(prefix)
    if len(found) > 1:
        raise InvalidInput(f"{prefix} fits {len(found)} webhook endpoints. Give more of the id.", field="id")
    return found[0]
