"""Jobs and runs through a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, cast

from pydantic import TypeAdapter

from cortex_plane.cursors import cursor_for, place_in
from cortex_plane.durable.details import JobDetails
from cortex_plane.errors import AmbiguousRun, InvalidInput, JobCancelled, JobFailed, ResultNotReady, RunNotFound
from cortex_plane.jobs.changes import CancelMode
from cortex_plane.jobs.events import (
    JobEnded,
    LineLogged,
    News,
    NothingNew,
    Position,
    ProgressMade,
    StateChanged,
    StepRecorded,
    TimedEvent,
    TokensUsed,
)
from cortex_plane.jobs.fields import Submission, SubmitOptions, check_submit_options
from cortex_plane.jobs.follow import START
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import HistoryEntry, Job, JobId, JobSummary, Run
from cortex_plane.jobs.runs import RunService, run_status_named
from cortex_plane.jobs.search import FoundJob, JobPage, JobWish
from cortex_plane.jobs.service import JobService
from cortex_plane.jobs.states import JobStatus, RunStatus
from cortex_plane.jobs.timeline import Timeline
from cortex_plane.json import loads
from cortex_plane.queues.service import place_of
from cortex_plane.queues.why import BlockedReason
from cortex_plane.remote import RemotePage, Server, given, job_body, read_pages, submission_body, whole_id
from cortex_plane.server_urls import ServerUnreachable
from cortex_plane.worker.model import actor_of

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.ids import NewId
    from cortex_plane.plane import Plane


class RunClient(RunService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def list(
        self,
        *,
        job: str | None = None,
        status: RunStatus | str | None = None,
        worker: str | None = None,
        limit: int = 50,
    ) -> list[Run]:
        wanted = None if status is None else run_status_named(status)
        worker_id = None if worker is None else (await self._client.workers.get(worker)).id
        if job is None:
            return await read_pages(self._server, Run, "runs", limit=limit, status=wanted, worker=worker_id)
        runs = await self._of_job(job)
        fitting = [run for run in runs if wanted in {None, run.status} and worker_id in {None, run.worker_id}]
        return fitting[:limit]

    async def get(self, id_or_prefix: str, *, job: str | None = None) -> Run:
        if job is None:
            return await self._server.get(Run, "runs", await whole_id(self._server, "run", id_or_prefix))
        beginning = id_or_prefix.strip().lower()
        found = [run for run in await self._of_job(job) if run.id.startswith(beginning)]
        if len(found) > 1:
            raise AmbiguousRun(beginning, [run.id for run in found])
        if not found:
            raise RunNotFound(beginning, of_a_job=True)
        return found[0]

    async def _of_job(self, job: str) -> Sequence[Run]:
        return (await self._client.jobs.runs(await whole_id(self._server, "job", job)))[::-1]


# -- following ---------------------------------------------------------------------------------
# A job as it goes on, through the server's events: each becomes what it was before it was sent.
#
#     (id) 3.2.17
#     (event) step
#     (data) {"type": "step", "position": "3.2.17", "at": …}


READERS: dict[str, TypeAdapter[Any]] = {
    kind.type: TypeAdapter(kind) for kind in (StepRecorded, TokensUsed, LineLogged, ProgressMade)
}
ENTRY = TypeAdapter(HistoryEntry)
DATA, COMMENT = "data:", ":"


async def follow(
    server: Server, look: Callable[[], Awaitable[Job]], job_id: JobId, position: Position
) -> AsyncIterator[TimedEvent]:
    """`look` reads the job as it is now. A server ends streams after a while: then it is asked again, from where that was. One
    that said nothing at all is away."""
    job, ended_at = await look(), None
    while ended_at is None:
        said_something = False
        async with server.lines("jobs", job_id, "events", last_event_id=str(position)) as lines:
            async for line in lines:
                said_something = True
                if line.startswith(DATA):
                    document = loads(line.removeprefix(DATA))
                    at, position = datetime.fromisoformat(document["at"]), Position.parse(document["position"])
                    if document["type"] == JobEnded.type:
                        ended_at = at
                        break
                    if document["type"] == StateChanged.type:
                        job = await look()
                    if (news := _news(document, job, position)) is not None:
                        yield TimedEvent(at, position, news)
                elif line.startswith(COMMENT):
                    yield TimedEvent(job.updated_at, position, NothingNew(job))
        if not said_something:
            raise ServerUnreachable(f"{server.url} has ended the stream before the job ended.")
    # Only now, with the connection given back: whoever hears of the end listens no further.
    yield TimedEvent(ended_at, position, JobEnded(await look()))


def _news(document: dict[str, Any], job: Job, position: Position) -> News | None:
    """None for what only a newer server tells."""
    match document["type"]:
        case StateChanged.type:
            return StateChanged(_entry(document, job.id, position))
        case kind if reader := READERS.get(kind):
            news: News = reader.validate_python(document)
            return news
        case _:
            return None


def _entry(document: dict[str, Any], job_id: JobId, position: Position) -> HistoryEntry:
    return ENTRY.validate_python(
        {
            **document,
            "job_id": job_id,
            "revision": position.revision,
            "new_status": document["status"],
            "metadata": document["details"],
            "created_at": document["at"],
        }
    )


# -- jobs --------------------------------------------------------------------------------------
# Jobs through a server: submit, look, follow, cancel, resume, retry.


NO_WORKER = "no_worker"
LONGEST_WAIT_SECONDS = 30.0
"""For one answer of the server. A proxy in between may give up on a longer one."""


@dataclass(frozen=True, slots=True)
class JobIds:
    ids: list[JobId]


class JobClient(JobService):
    """Who asks is whom the key belongs to, whatever `actor` says."""

    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def submit(self, agent: str, payload: dict[str, Any] | None = None, **options: Unpack[SubmitOptions]) -> JobHandle[Any]:
        check_submit_options("plane.submit", options)
        body = {"agent": agent, "payload": payload or {}, **job_body(options)}
        job = await self._server.create(Job, "jobs", body=body, tenant=options.get("tenant"))
        return self.handle(job.id)

    async def submit_many(self, submissions: Iterable[Submission], *, connection: Any = None) -> list[JobHandle[Any]]:
        asked = list(submissions)
        tenant = one_tenant(asked)
        if connection is not None:
            raise InvalidInput("A server cannot take part in a transaction of yours.", field="connection")
        body = {"jobs": [submission_body(one) for one in asked]}
        made = await self._server.create(JobIds, "bulk", "jobs", body=body, tenant=tenant)
        return [self.handle(job_id) for job_id in made.ids]

    # -- asking ----------------------------------------------------------------------------------

    async def get(self, id_or_prefix: str) -> Job:
        return await self._server.get(Job, "jobs", await self.find(id_or_prefix))

    async def find(self, id_or_prefix: str) -> JobId:
        return JobId(await whole_id(self._server, "job", id_or_prefix))

    async def history(self, job_id: str) -> list[HistoryEntry]:
        return await self._server.get(list[HistoryEntry], "jobs", job_id, "history")

    async def runs(self, job_id: str) -> list[Run]:
        return await self._server.get(list[Run], "jobs", job_id, "runs")

    async def chain(self, id_or_prefix: str) -> list[JobSummary]:
        return await self._server.get(list[JobSummary], "jobs", await self.find(id_or_prefix), "chain")

    async def search(self, wish: JobWish, *, tenant: str | None = None, before: str | None = None, limit: int = 50) -> JobPage:
        cursor = None if before is None else cursor_for("job", before)
        filters = {**asdict(wish), "since": _stamp(wish.since), "until": _stamp(wish.until)}
        page = await self._server.get(RemotePage[FoundJob], "jobs", limit=limit, cursor=cursor, tenant=tenant, **filters)
        return JobPage(page.items, None if page.next is None else JobId(place_in("job", page.next)))

    async def timeline(self, job_id: JobId, *, with_names: bool = False) -> Timeline:
        entries, runs = await self.history(job_id), await self.runs(job_id)
        names = await self._client.workers.names() if with_names and runs else {}
        return Timeline(entries, runs, {actor_of(worker_id): name for worker_id, name in names.items()})

    async def details(self, job: Job) -> JobDetails:
        return await self._server.get(JobDetails, "jobs", job.id, "details")

    def follow(self, job_id: JobId, position: Position = START) -> AsyncIterator[TimedEvent]:
        return follow(self._server, lambda: self.get(job_id), job_id, position)

    async def has_worker(self, job: Job) -> bool:
        """As the server sees it."""
        reasons = await self._server.get(list[BlockedReason], "jobs", job.id, "why")
        return all(reason.code != NO_WORKER for reason in reasons)

    async def result(self, job_id: str, timeout: float | None = None) -> Any:
        until = None if timeout is None else self._client.clock.elapsed() + timeout
        while True:
            left = LONGEST_WAIT_SECONDS if until is None else max(0.0, until - self._client.clock.elapsed())
            job = await self._server.get(Job, "jobs", job_id, wait=min(left, LONGEST_WAIT_SECONDS))
            match job.status:
                case JobStatus.COMPLETED:
                    return job.output
                case JobStatus.FAILED:
                    raise JobFailed(job.id, job.error_message or "failed", job.error)
                case JobStatus.CANCELLED:
                    raise JobCancelled(job.id)
            if until is not None and self._client.clock.elapsed() >= until:
                raise ResultNotReady(job.id, job.status, timeout or 0.0)

    # -- changes ---------------------------------------------------------------------------------

    async def cancel(
        self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None, mode: CancelMode = "cleanup"
    ) -> JobId:
        job_id = await self.find(id_or_prefix)
        return (await self._server.post(Job, "jobs", job_id, "cancel", body=given(reason=reason, mode=mode))).id

    async def resume(
        self, id_or_prefix: str, *, actor: str | None = None, ids: NewId | None = None, revision: int | None = None
    ) -> JobHandle[Any]:
        return self.handle((await self._server.create(Job, "jobs", await self.find(id_or_prefix), "resume")).id)

    async def settle(
        self,
        id_or_prefix: str,
        call: str,
        *,
        applied: bool,
        result: Any = None,
        actor: str | None = None,
        ids: NewId | None = None,
        revision: int | None = None,
    ) -> JobHandle[Any]:
        body = {"call": call, "applied": applied, "result": result}
        return self.handle((await self._server.create(Job, "jobs", await self.find(id_or_prefix), "settle", body=body)).id)

    async def retry(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        return self.handle((await self._server.create(Job, "jobs", await self.find(id_or_prefix), "retry")).id)

    async def release(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> JobId:
        job_id = await self.find(id_or_prefix)
        return (await self._server.post(Job, "jobs", job_id, "release", body=given(reason=reason))).id

    async def move(
        self,
        id_or_prefix: str,
        *,
        before: str | None = None,
        after: str | None = None,
        front: bool = False,
        back: bool = False,
        reason: str | None = None,
        actor: str | None = None,
    ) -> JobId:
        place, anchor = place_of(before, after, front, back)
        job_id = await self.find(id_or_prefix)
        anchor_id = None if anchor is None else await self.find(anchor)
        body = {"place": place.value, **given(anchor=anchor_id, reason=reason)}
        return (await self._server.post(Job, "jobs", job_id, "move", body=body)).id

    async def set_priority(
        self, id_or_prefix: str, priority: int, *, reason: str | None = None, actor: str | None = None
    ) -> JobId:
        job_id = await self.find(id_or_prefix)
        body = {"priority": priority, **given(reason=reason)}
        return (await self._server.put(Job, "jobs", job_id, "priority", body=body)).id

    async def why(self, id_or_prefix: str) -> list[BlockedReason]:
        return await self._server.get(list[BlockedReason], "jobs", await self.find(id_or_prefix), "why")

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
        found = await read_pages(self._server, FoundJob, "jobs", limit=limit, cursor=cursor, **filters)
        return [one.summary for one in found]


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def one_tenant(asked: Sequence[Submission]) -> str | None:
    tenants = {one.tenant for one in asked}
    if len(tenants) > 1:
        raise InvalidInput("Through a server, what is submitted together must be of one tenant.", field="tenant")
    return asked[0].tenant if asked else None
