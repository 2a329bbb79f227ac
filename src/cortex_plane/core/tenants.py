"""A tenant: who owns jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cortex_plane.core.budgets import CostTotal
from cortex_plane.core.controls import Control
from cortex_plane.core.jobs import DEFAULT_TENANT, TenantId


class OwnTenant(str):
    """What is meant when nobody named a tenant: `default` on a database; through a server, the tenant of the key."""

    __slots__ = ()


OWN_TENANT = OwnTenant(DEFAULT_TENANT)


@dataclass(frozen=True, slots=True)
class Tenant:
    id: TenantId
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TenantOverview:
    """Finished jobs are not counted: that would read all jobs of everybody."""

    tenant: Tenant
    running: int
    waiting: Mapping[str, int]
    """Queue entries by state: ready, later, blocked, held."""
    costs: Sequence[CostTotal]
    control: Control

    @property
    def spent_cents(self) -> int:
        return sum(total.cents for total in self.costs)
