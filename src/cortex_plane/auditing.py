"""The audit log as a plane offers it: `plane.audit.list()`, `plane.audit.verify()`, `plane.audit.record(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from cortex_plane.core.audit import AuditEntry, AuditPage, AuditRecord
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.list_audit import AuditWish, list_audit, page_audit
from cortex_plane.operations.record_audit import record_audit
from cortex_plane.operations.verify_audit import AuditReport, verify_audit

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class Auditing:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def record(
        self,
        action: str,
        object_type: str,
        object_id: str,
        *,
        actor: str | None = None,
        reason: str | None = None,
        source: str | None = None,
        tenant: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        """Adds an entry of your own, such as what a person did in your program. It can never be changed."""
        store = await self._plane.store
        tenant_id = None if tenant is None else await Directory(store).tenant(tenant)
        await record_audit(store, AuditEntry(action, object_type, object_id, actor, reason, source, tenant_id, details or {}))

    async def verify(self, *, known: str | None = None) -> AuditReport:
        """Checks every sealed entry. `known` is the name of a seal that you kept elsewhere: it must still be there."""
        return await verify_audit(await self._plane.store, known)

    async def list(self, *, before: int | None = None, limit: int = 50, **wanted: Unpack[AuditWish]) -> list[AuditRecord]:
        """Newest first. `before` is the number of the last entry of the page before; `until` is not included."""
        return await list_audit(await self._plane.store, before=before, limit=limit, **wanted)

    async def page(self, *, before: int | None = None, limit: int = 50, **wanted: Unpack[AuditWish]) -> AuditPage:
        """The same in steps that never take long: a page may be short and still have a next one, at its `next_before`."""
        return await page_audit(await self._plane.store, before=before, limit=limit, **wanted)
