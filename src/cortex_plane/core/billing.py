"""Who is charged for runs that are started under a grant, and what those have used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cortex_plane.core.errors import NotFound
from cortex_plane.core.execution import ChargeUnit
from cortex_plane.core.grants import BillingAccountId
from cortex_plane.core.jobs import TenantId

DEFAULT_ACCOUNT = "default"


@dataclass(frozen=True, slots=True)
class BillingAccount:
    id: BillingAccountId
    tenant_id: TenantId
    tenant: str
    name: str
    default_virtual_key_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """What all runs of an account have used of one unit."""

    billing_account_id: BillingAccountId
    unit: ChargeUnit
    quantity: int
    runs: int


class AccountNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f'There is no billing account "{name}". To see what there is: cortex billing list')
        self.name = name
