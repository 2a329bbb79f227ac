"""The audit log through a server. Entries of one's own are added where the database is."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.adapters.remote.bodies import given
from cortex_plane.adapters.remote.pages import read_pages
from cortex_plane.adapters.remote.server import Server
from cortex_plane.auditing import Auditing
from cortex_plane.core.access import RoleMissing
from cortex_plane.core.audit import AuditRecord
from cortex_plane.core.cursors import cursor_for
from cortex_plane.operations.verify_audit import AuditReport

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class RemoteAuditing(Auditing):
    def __init__(self, plane: Plane, server: Server) -> None:
        super().__init__(plane)
        self._server = server

    async def verify(self, *, known: str | None = None) -> AuditReport:
        return await self._server.post(AuditReport, "audit", "verify", body=given(seal=known))

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
