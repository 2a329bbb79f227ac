"""Part of `Plane`: get, list, search and follow jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING

from cortex_plane.clock import Clock, utc_now
from cortex_plane.durable.details import JobDetails
from cortex_plane.errors import InvalidInput, did_you_mean
from cortex_plane.jobs.follow import START, follow_job
from cortex_plane.jobs.lookup import find_job, find_job_id
from cortex_plane.jobs.model import HistoryEntry, Job, JobId, JobSummary
from cortex_plane.jobs.search import JobPage, JobWish, search_jobs
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.timeline import Story
from cortex_plane.queues.service import look_at_queues

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.durable.service import Checkpoints
    from cortex_plane.jobs.events import Position, Told
    from cortex_plane.queues.model import QueueState
    from cortex_plane.stores import Store


LONGEST_LIST = 10_000


class Looking:
    """Part of Plane."""

    clock: Clock
    checkpoints: Checkpoints
    store: cached_property[Store]
    directory: cached_property[Directory]

    async def get(self, id_or_prefix: str) -> Job:
        return await find_job(self.store, id_or_prefix)

    async def find(self, id_or_prefix: str) -> JobId:
        return await find_job_id(self.store, id_or_prefix)

    async def history(self, job_id: str) -> list[HistoryEntry]:
        return await self.store.jobs.history(JobId(job_id))

    async def chain(self, id_or_prefix: str) -> list[JobSummary]:
        """The retry chain that a job belongs to, from the first job to the last."""
        store = self.store
        return await store.jobs.chain(await find_job_id(store, id_or_prefix))

    async def story(self, job_id: JobId, *, with_names: bool = False) -> Story:
        """What happened to a job, to be told in words. `with_names` looks up what the workers are called."""
        return await Story.of(self.store, job_id, with_names=with_names)

    async def inside(self, job: Job) -> JobDetails:
        """What is recorded of it besides its states."""
        return await JobDetails.of(self.store, self.checkpoints, job)

    async def follow(self, job_id: JobId, position: Position = START) -> AsyncIterator[Told]:
        """What happens to a job, as it happens, from the position on. Ends with the job."""
        stream = follow_job(self.store, self.clock, job_id, position)
        async with aclosing(stream):  # type: ignore[type-var]
            async for told in stream:
                yield told

    async def somebody_works_on(self, job: Job) -> bool:
        """As far as this machine's clock can tell: a worker that was killed is listed until its lease has run out."""
        workers = await self.store.workers.list()
        living = [worker for worker in workers if worker.takes_jobs and worker.lease_until > utc_now()]
        return any(job.queue in worker.queues and job.job_type in worker.job_types for worker in living)

    async def queues(self) -> list[QueueState]:
        """Every queue in which something waits or runs, or for which something is set."""
        return await look_at_queues(self.store)

    async def search(self, wish: JobWish, *, tenant: str | None = None, before: str | None = None, limit: int = 50) -> JobPage:
        """Newest first, by tags, times and words of the payload too. The plane's own jobs are left out unless their queue is
        named. It looks at a bounded number of jobs: `next_before` of the page is where to go on."""
        tenant_id = None if tenant is None else await self.directory.tenant(tenant)
        last = None if before is None else JobId(before)
        return await search_jobs(self.store, self.directory, wish, tenant_id=tenant_id, before=last, limit=limit)

    async def list(
        self,
        *,
        status: JobStatus | str | None = None,
        agent: str | None = None,
        queue: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[JobSummary]:
        """Newest first. `before` is the id of the last job of the page before."""
        return await self.store.jobs.list(
            status=None if status is None else _status(status),
            agent_id=None if agent is None else (await self.directory.agent(agent)).id,
            queue=queue,
            before=None if before is None else JobId(before),
            limit=_limit(limit),
        )


def _status(name: str) -> JobStatus:
    try:
        return JobStatus(name)
    except ValueError:
        known = ", ".join(JobStatus)
        raise InvalidInput(
            f"There is no status {name!r}.{did_you_mean(name, JobStatus)} Known: {known}.", field="status"
        ) from None


def _limit(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_LIST:
        raise InvalidInput(f"limit must be a whole number from 1 to {LONGEST_LIST:,}, not {limit!r}.", field="limit")
    return limit
