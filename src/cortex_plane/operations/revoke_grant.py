"""Revokes a grant: at once, its schedules pause, what waits under it is cancelled, and what runs is asked to stop."""

from __future__ import annotations

from typing import NamedTuple

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import Conflict
from cortex_plane.core.grants import Grant
from cortex_plane.operations.find_grant import find_grant
from cortex_plane.ports.store import Store


class Revoked(NamedTuple):
    grant: Grant
    schedules: int
    jobs: int


async def revoke_grant(store: Store, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Revoked:
    grant = await find_grant(store, id_or_prefix)
    entry = AuditEntry("GRANT_REVOKED", "grant", grant.id, actor, reason, tenant_id=grant.tenant_id)
    stopped = await store.grants.revoke(grant.id, entry)
    grant = await find_grant(store, grant.id)
    if stopped is None:
        by = f" by {grant.revoked_by}" if grant.revoked_by else ""
        raise Conflict(f"Grant {grant.id} was already revoked{by}. Nothing runs under it.")
    return Revoked(grant, *stopped)
