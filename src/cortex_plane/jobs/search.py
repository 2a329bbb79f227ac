"""Searches jobs by state, agent, queue, tag, text and time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import INTERNAL_PREFIX, INTERNAL_QUEUE, AgentId, JobId, JobSummary, TenantId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json import loads
from cortex_plane.metrics.model import first_id_at, moment_in
from cortex_plane.people.model import checked_noun_name
from cortex_plane.storage import rows

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.storage.database import Database, Row
    from cortex_plane.stores import Store

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


# -- job search --------------------------------------------------------------------------------
# Finds jobs by what they are like: ids come from the index that fits best, a batch at a time, and the rest is asked of those.


BATCH = 500
NEWER_THAN_ALL = JobId("ffffffff-ffff-ffff-ffff-ffffffffffff")
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)

# Sources end in `limit (select …)`: PostgreSQL then plans for a page of unknown length, in the order of an index. While a table
# has no statistics, it expects few rows to fit; for a page that is longer than that it would read and sort all that do.

# Where jobs in a state are found without reading all the others.
SOURCE_FOR_STATUS = {
    JobStatus.PENDING: "search/waiting",
    JobStatus.RETRY: "search/waiting",
    JobStatus.RUNNING: "search/running",
    JobStatus.WAITING_FOR_APPROVAL: "search/asking",
    JobStatus.FAILED: "search/unsuccessful",
    JobStatus.CANCELLED: "search/unsuccessful",
}
LATER_THAN_ITS_ID = timedelta(minutes=1)
"""Ids begin with the time by the clock of whoever made them, which may differ so much from the clock of the database."""

FINEST = timedelta(milliseconds=1)


class JobSearchStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, wanted: JobFilter, *, before: JobId | None = None, limit: int = 50) -> JobPage:
        """Newest first. Looks at a bounded number of jobs, whatever is asked for."""
        found: list[FoundJob] = []
        last = before or (NEWER_THAN_ALL if wanted.until is None else await self._first_after(wanted.until))
        looked, batch = 0, min(2 * limit, BATCH)  # Mostly, nearly all of the newest fit.
        while looked < LOOKED_THROUGH:
            ids = await self._look(wanted, last, batch)
            found += await self._pick(wanted, ids, limit - len(found))
            if len(found) == limit:
                more = len(ids) == batch or found[-1].summary.id != ids[-1]
                return JobPage(found, found[-1].summary.id if more else None)
            if len(ids) < batch or (wanted.since and await self._all_older(ids[-1], wanted.since)):
                return JobPage(found, None)
            last, looked, batch = ids[-1], looked + batch, BATCH
        return JobPage(found, last)

    async def _look(self, wanted: JobFilter, before: JobId, batch: int) -> list[JobId]:
        source, values = _source(wanted)
        looked = await self._database.read(source, before=before, limit=batch, **values)
        return [JobId(str(row["id"])) for row in looked]

    async def _all_older(self, before: JobId, since: datetime) -> bool:
        created = await self._created(before)
        return created is None or created < since - LATER_THAN_ITS_ID

    async def _first_after(self, until: datetime) -> JobId:
        """An id from which on all jobs are later than that: ids sort by age, so halving the time between finds it."""
        oldest = await self._database.read("search/oldest")
        if not oldest or not (created := await self._created(NEWER_THAN_ALL)) or created < until:
            return NEWER_THAN_ALL
        newest = await self._database.read("search/all", before=NEWER_THAN_ALL, limit=1)
        low, high = moment_in(JobId(str(oldest[0]["id"]))), moment_in(JobId(str(newest[0]["id"]))) + FINEST
        while high - low > FINEST:
            middle = low + (high - low) / 2
            created = await self._created(first_id_at(middle))
            if created is None or created < until + LATER_THAN_ITS_ID:
                low = middle
            else:
                high = middle
        return first_id_at(high)

    async def _created(self, before: JobId) -> datetime | None:
        """When the newest job before that one was created."""
        for row in await self._database.read("search/created", before=before):
            return rows.moment(row["created_at"])
        return None

    async def _pick(self, wanted: JobFilter, ids: list[JobId], limit: int) -> list[FoundJob]:
        if not ids:
            return []
        picked = await self._database.read(
            "search/pick",
            ids=self._database.array(ids),
            tenant_id=wanted.tenant_id,
            status=wanted.status,
            agent_id=wanted.agent_id,
            queue=wanted.queue,
            tag=wanted.tag,
            text=wanted.text,
            since=self._database.instant(wanted.since or FIRST_MOMENT),
            until=self._database.instant(wanted.until or LAST_MOMENT),
            limit=limit,
        )
        return [_found(row) for row in picked]


def _source(wanted: JobFilter) -> tuple[str, dict[str, Any]]:
    """The index that leaves out the most."""
    if wanted.tag is not None:
        return "search/of_tag", {"tag": wanted.tag}
    if wanted.status in SOURCE_FOR_STATUS:
        return SOURCE_FOR_STATUS[wanted.status], {}
    if wanted.agent_id is not None:
        return "search/of_agent", {"agent_id": wanted.agent_id}
    if wanted.queue is not None:
        return "search/of_queue", {"queue": wanted.queue}
    if wanted.tenant_id is not None:
        return "search/of_tenant", {"tenant_id": wanted.tenant_id}
    return "search/all", {}


def _found(row: Row) -> FoundJob:
    tenant_id, tags = TenantId(str(row["tenant_id"])), loads(row["tags"])
    return FoundJob(rows.job_summary(row), tenant_id, tags, row["cost_cents"], row["revision"])


# -- search jobs -------------------------------------------------------------------------------
# Looks for jobs by what they are like, a page at a time.


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
            checked_noun_name(value, field)
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
