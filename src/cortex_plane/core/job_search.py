"""Which jobs somebody looks for, and what a list shows of each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cortex_plane.core.jobs import AgentId, JobId, JobSummary, TenantId
from cortex_plane.core.states import JobStatus

LOOKED_THROUGH = 5_000
"""So many jobs are looked at for one page at most: a page may be short, or empty, and still not be the last."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """None asks for all. `since` is included, `until` is not; `text` is found anywhere in the payload, case ignored."""

    tenant_id: TenantId | None = None
    status: JobStatus | None = None
    agent_id: AgentId | None = None
    queue: str | None = None
    tag: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class FoundJob:
    summary: JobSummary
    tenant_id: TenantId
    tags: list[str]
    cost_cents: int
    revision: int


@dataclass(frozen=True, slots=True)
class JobPage:
    """`next_before` is where the next page begins; None when everything was looked at."""

    jobs: list[FoundJob]
    next_before: JobId | None
