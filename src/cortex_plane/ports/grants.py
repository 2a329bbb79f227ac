"""Grants, billing accounts and the runs that were asked for, as the database keeps them."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.billing import BillingAccount, UsageTotal
from cortex_plane.core.execution import ExecutionRequest, NewRequest, Receipt
from cortex_plane.core.grants import Grant, GrantId, NewGrant
from cortex_plane.core.jobs import JobId, NewJob, TenantId


class Grants(Protocol):
    async def add(self, grant: NewGrant, entry: AuditEntry) -> None: ...

    async def get(self, grant_id: GrantId) -> Grant | None: ...

    async def find(self, prefix: str) -> list[GrantId]:
        """At most five ids that begin with the prefix."""

    async def revoke(self, grant_id: GrantId, entry: AuditEntry) -> tuple[int, int] | None:
        """Takes it back: its schedules pause, what waits under it is cancelled, what runs is asked to stop. Returns how many
        schedules and jobs that were; None when it was revoked already. All in one transaction."""

    async def list(self, tenant_id: TenantId | None = None, limit: int = 50) -> list[Grant]:
        """Newest first."""


class Requests(Protocol):
    """What was asked for under grants: written by the execution service alone."""

    async def add(self, request: NewRequest, job: NewJob) -> ExecutionRequest:
        """Counts a use of the grant, remembers the request and submits its job; or returns what the key was used for before,
        and does nothing. Raises GrantRefused when the grant is not good for it any more."""

    async def by_key(self, tenant_id: TenantId, idempotency_key: str) -> ExecutionRequest | None: ...

    async def by_run(self, run_id: JobId) -> ExecutionRequest | None: ...

    async def receipts(self, run_id: JobId) -> list[Receipt]:
        """What the run has used, its retries included."""


class Billing(Protocol):
    async def ensure(self, account_id: str, tenant_id: TenantId, name: str, virtual_key_id: str) -> BillingAccount:
        """The tenant's account of that name, made if there is none."""

    async def find(self, tenant_id: TenantId, name: str) -> BillingAccount | None: ...

    async def totals(self) -> list[UsageTotal]: ...

    async def list(self, tenant_id: TenantId | None = None) -> list[BillingAccount]:
        """By name."""
