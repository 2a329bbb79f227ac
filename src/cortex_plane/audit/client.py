"""The audit log through a server. Entries of one's own are added where the database is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

from cortex_plane.audit.model import AuditRecord
from cortex_plane.audit.service import AuditLog, AuditReport
from cortex_plane.cursors import cursor_for
from cortex_plane.people.roles import RoleMissing
from cortex_plane.remote import given, read_pages

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


MOST_SEALS = 1_000


class AuditClient(AuditLog):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def verify(self, *, known: str | Sequence[str] | None = None) -> AuditReport:
        """Of many seals the last ones: what was cut off is missing there."""
        body = given(seal=known) if known is None or isinstance(known, str) else {"seals": list(known)[-MOST_SEALS:]}
        return await self._server.post(AuditReport, "audit", "verify", body=body)

    async def list(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        object_id: str | None = None,
        tenant: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[AuditRecord]:
        """Of the whole installation for those who may see that; otherwise of the tenant."""
        filters = given(actor=actor, action=action, object_id=object_id, since=since, until=until)
        cursor = None if before is None else cursor_for("audit", before)
        if tenant is None:
            try:
                return await read_pages(self._server, AuditRecord, "audit", "all", limit=limit, cursor=cursor, **filters)
            except RoleMissing:
                pass
        return await read_pages(self._server, AuditRecord, "audit", limit=limit, cursor=cursor, tenant=tenant, **filters)
