"""Looks for jobs by what they are like, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.job_search import JobFilter, JobPage
from cortex_plane.core.jobs import INTERNAL_PREFIX, INTERNAL_QUEUE, JobId, TenantId
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.names import checked_name
from cortex_plane.ports.store import Store

LONGEST_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class JobWish:
    """What somebody asks for, in their own words; None asks for all."""

    status: JobStatus | None = None
    agent: str | None = None
    queue: str | None = None
    tag: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def search_jobs(
    store: Store,
    directory: Directory,
    wish: JobWish,
    *,
    tenant_id: TenantId | None = None,
    before: JobId | None = None,
    limit: int = 50,
) -> JobPage:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_PAGE:
        raise InvalidInput(f"limit must be a whole number from 1 to {LONGEST_PAGE:,}, not {limit!r:.40}.", field="limit")
    for field in ("queue", "tag", "text"):
        if (value := getattr(wish, field)) is not None:
            checked_name(value, field)
    wanted = JobFilter(
        tenant_id=tenant_id,
        status=wish.status,
        agent_id=None if wish.agent is None else (await directory.agent(wish.agent)).id,
        queue=_queue_of(wish),
        tag=wish.tag,
        text=wish.text,
        since=_aware(wish.since),
        until=_aware(wish.until),
    )
    return await store.job_search.page(wanted, before=before, limit=limit)


def _queue_of(wish: JobWish) -> str | None:
    """Whoever names one of the plane's own agents wants its jobs, which are left out otherwise."""
    return INTERNAL_QUEUE if wish.queue is None and (wish.agent or "").startswith(INTERNAL_PREFIX) else wish.queue


def _aware(moment: datetime | None) -> datetime | None:
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
