"""Asks the approvers of a request anew, because somebody wants an answer now."""

from __future__ import annotations

from cortex_plane.core.approvals import ApprovalClosed
from cortex_plane.core.audit import AuditEntry
from cortex_plane.operations.find_approval import find_approval
from cortex_plane.ports.store import Store


async def remind_approval(store: Store, id_or_prefix: str, *, actor: str | None = None, source: str | None = None) -> None:
    request = await find_approval(store, id_or_prefix)
    details = {"job_id": request.job_id}
    entry = AuditEntry("APPROVAL_REMINDED", "approval", request.id, actor, None, source, request.tenant_id, details)
    if not await store.approvals.remind(request.id, entry):
        raise ApprovalClosed(request.id)
