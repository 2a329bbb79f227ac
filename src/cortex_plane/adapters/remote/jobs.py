"""Jobs through a server: submit, look, follow, cancel, retry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, cast

from cortex_plane.adapters.remote.bodies import given, job_body, submission_body
from cortex_plane.adapters.remote.following import follow
from cortex_plane.adapters.remote.ids import whole_id
from cortex_plane.adapters.remote.pages import read_pages
from cortex_plane.adapters.remote.server import Server
from cortex_plane.core.cursors import cursor_for
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.events import Position, Told
from cortex_plane.core.job_search import FoundJob
from cortex_plane.core.jobs import HistoryEntry, Job, JobId, JobSummary
from cortex_plane.core.queues import QueueState
from cortex_plane.core.states import JobStatus
from cortex_plane.core.workers import actor_of
from cortex_plane.handles import JobHandle
from cortex_plane.insides import Inside
from cortex_plane.operations.follow_job import START
from cortex_plane.operations.search_jobs import JobWish
from cortex_plane.operations.submit_jobs import Submission
from cortex_plane.operations.tell_job import Story
from cortex_plane.options import SubmitOptions
from cortex_plane.runs import Runs
from cortex_plane.workers import Workers

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

NO_WORKER = "no_worker"


@dataclass(frozen=True, slots=True)
class JobIds:
    ids: list[JobId]


class RemoteJobs:
    """Part of RemotePlane. Who asks is whom the key belongs to, whatever `actor` says."""

    server: Server
    runs: Runs
    workers: Workers

    async def submit(self, agent: str, payload: dict[str, Any] | None = None, **options: Unpack[SubmitOptions]) -> JobHandle[Any]:
        body = {"agent": agent, "payload": payload or {}, **job_body(options)}
        job = await self.server.create(Job, "jobs", body=body, tenant=options.get("tenant"))
        return self._handle(job.id)

    async def submit_many(self, submissions: Iterable[Submission], *, connection: Any = None) -> list[JobHandle[Any]]:
        asked = list(submissions)
        tenant = one_tenant(asked)
        if connection is not None:
            raise InvalidInput("A server cannot take part in a transaction of yours.", field="connection")
        body = {"jobs": [submission_body(one) for one in asked]}
        made = await self.server.create(JobIds, "bulk", "jobs", body=body, tenant=tenant)
        return [self._handle(job_id) for job_id in made.ids]

    def _handle(self, job_id: JobId) -> JobHandle[Any]:
        return JobHandle(cast("Plane", self), job_id)

    # -- asking ----------------------------------------------------------------------------------

    async def queues(self) -> list[QueueState]:
        return await self.server.get(list[QueueState], "queues")

    async def get(self, id_or_prefix: str) -> Job:
        return await self.server.get(Job, "jobs", await self.find(id_or_prefix))

    async def find(self, id_or_prefix: str) -> JobId:
        return JobId(await whole_id(self.server, "job", id_or_prefix))

    async def history(self, job_id: str) -> list[HistoryEntry]:
        return await self.server.get(list[HistoryEntry], "jobs", job_id, "history")

    async def chain(self, id_or_prefix: str) -> list[JobSummary]:
        return await self.server.get(list[JobSummary], "jobs", await self.find(id_or_prefix), "chain")

    async def search(
        self, wish: JobWish, *, tenant: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[JobSummary]:
        cursor = None if before is None else cursor_for("job", before)
        filters = {**asdict(wish), "since": _stamp(wish.since), "until": _stamp(wish.until)}
        found = await read_pages(self.server, FoundJob, "jobs", limit=limit, cursor=cursor, tenant=tenant, **filters)
        return [one.summary for one in found]

    async def list(
        self,
        *,
        status: JobStatus | str | None = None,
        agent: str | None = None,
        queue: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[JobSummary]:
        cursor = None if before is None else cursor_for("job", before)
        filters = {"status": status, "agent": agent, "queue": queue}
        found = await read_pages(self.server, FoundJob, "jobs", limit=limit, cursor=cursor, **filters)
        return [one.summary for one in found]

    async def story(self, job_id: JobId, *, with_names: bool = False) -> Story:
        entries, runs = await self.history(job_id), await self.runs(job_id)
        names = await self.workers.names() if with_names and runs else {}
        return Story(entries, runs, {actor_of(worker_id): name for worker_id, name in names.items()})

    async def inside(self, job: Job) -> Inside:
        return await self.server.get(Inside, "jobs", job.id, "inside")

    def follow(self, job_id: JobId, position: Position = START) -> AsyncIterator[Told]:
        return follow(self.server, lambda: self.get(job_id), job_id, position)

    async def somebody_works_on(self, job: Job) -> bool:
        """As the server sees it."""
        from cortex_plane.core.why import Reason

        reasons = await self.server.get(list[Reason], "jobs", job.id, "why")
        return all(reason.code != NO_WORKER for reason in reasons)

    # -- steering --------------------------------------------------------------------------------

    async def cancel(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> JobId:
        job_id = await self.find(id_or_prefix)
        return (await self.server.post(Job, "jobs", job_id, "cancel", body=given(reason=reason))).id

    async def retry(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        return self._handle((await self.server.create(Job, "jobs", await self.find(id_or_prefix), "retry")).id)


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def one_tenant(asked: Sequence[Submission]) -> str | None:
    tenants = {one.tenant for one in asked}
    if len(tenants) > 1:
        raise InvalidInput("Through a server, what is submitted together must be of one tenant.", field="tenant")
    return asked[0].tenant if asked else None
