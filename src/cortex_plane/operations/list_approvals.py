"""Lists approval requests: one's own inbox, those of a tenant, or those of a job; newest first."""

from __future__ import annotations

from cortex_plane.core.approvals import ApprovalId, ApprovalRequest
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import JobId, TenantId
from cortex_plane.core.people import UserId
from cortex_plane.ports.store import Store

LARGEST_PAGE = 1_000


async def list_approvals(
    store: Store,
    *,
    waiting_for: UserId | None = None,
    tenant_id: TenantId | None = None,
    job_id: JobId | None = None,
    open_only: bool = True,
    before: ApprovalId | None = None,
    limit: int = 50,
) -> list[ApprovalRequest]:
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"limit must be from 1 to {LARGEST_PAGE:,}, not {limit!r:.80}.", field="limit")
    if waiting_for is not None and not open_only:
        raise InvalidInput("Only open approvals wait for somebody: leave out either of the two.", field="open_only")
    return await store.approvals.list(
        waiting_for=waiting_for, tenant_id=tenant_id, job_id=job_id, open_only=open_only, before=before, limit=limit
    )
