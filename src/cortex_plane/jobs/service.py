"""`plane.jobs`: submit, find, follow, steer and end jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from cortex_plane.clock import utc_now
from cortex_plane.costs.service import check_budgets
from cortex_plane.durable.details import JobDetails
from cortex_plane.durable.resume import resume_job, settle_call
from cortex_plane.errors import InvalidInput, did_you_mean
from cortex_plane.jobs.changes import CancelMode, cancel_job, release_job, retry_job
from cortex_plane.jobs.fields import Submission, SubmitOptions, check_submit_options
from cortex_plane.jobs.follow import START, follow_job
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.lookup import await_result, find_job, find_job_id
from cortex_plane.jobs.model import HistoryEntry, Job, JobId, JobSummary, Run
from cortex_plane.jobs.search import JobPage, JobWish, search_jobs
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.submission import checked, submit_jobs
from cortex_plane.jobs.timeline import Timeline
from cortex_plane.queues.model import DEFAULT_TTL_SECONDS
from cortex_plane.queues.reservations import run_now
from cortex_plane.queues.service import move_job, place_of, set_priority
from cortex_plane.queues.why import BlockedReason, explain_job

if TYPE_CHECKING:
    from cortex_plane.ids import NewId
    from cortex_plane.jobs.events import Position, TimedEvent
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


LONGEST_LIST = 10_000


class JobService:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    @property
    def _store(self) -> Store:
        return self._plane.store

    # -- submitting ------------------------------------------------------------------------------

    async def submit(self, agent: str, payload: dict[str, Any] | None = None, **options: Unpack[SubmitOptions]) -> JobHandle[Any]:
        """Submits a job by its agent's name. The agent's code may live in another program.

        Args:
            agent: The name of an agent that is registered in the database.
            payload: The arguments of the handler, by name.
            **options: See `Submission`. With `connection`, the job is submitted in the transaction that it has open.

        Returns:
            A handle to ask about the job, wait for its result, or cancel it.

        Raises:
            UnknownAgent: No program has registered an agent of that name.
            InvalidInput: An argument or an option is wrong; `field` names it.
            BudgetExhausted: The budget of the agent or the tenant is spent.
        """
        check_submit_options("plane.submit", options)
        asked: dict[str, Any] = dict(options)
        connection = asked.pop("connection", None)
        job_ids = await self.submit_checked([Submission(agent, payload, **asked)], connection)
        return self.handle(job_ids[0])

    async def submit_many(self, submissions: Iterable[Submission], *, connection: Any = None) -> list[JobHandle[Any]]:
        """Submits all of them or none, in one transaction and in this order."""
        return [self.handle(job_id) for job_id in await self.submit_checked(list(submissions), connection)]

    async def submit_checked(
        self,
        submissions: Sequence[Submission],
        connection: Any = None,
        *,
        ids: NewId | None = None,
        traceparent: str | None = None,
    ) -> list[JobId]:
        """`ids` gives the jobs' ids; those that it gave once before change nothing. `traceparent` is the caller's span."""
        plane = self._plane
        with plane.submitting([asked.agent for asked in submissions], traceparent) as trace:
            return await submit_jobs(
                plane.store,
                plane.directory,
                ids or plane._ids,
                submissions,
                connection=connection,
                payload_limit_bytes=plane.settings.payload_limit_bytes,
                trace=trace,
            )

    async def run_now(
        self,
        agent: str,
        payload: dict[str, Any] | None = None,
        *,
        by: str = "",
        wait: bool = True,
        timeout_seconds: float | None = None,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        **options: Unpack[SubmitOptions],
    ) -> Any:
        """Runs a job ahead of its queue, alone, and answers with its result. The order of the queue stays as it is."""
        check_submit_options("run_now", options, "by", "wait", "timeout_seconds", "ttl_seconds")
        asked: dict[str, Any] = dict(options)
        if asked.pop("connection", None) is not None:
            raise InvalidInput("A job that runs now cannot be part of another transaction.", field="connection")
        plane = self._plane
        job = await checked(plane.directory, plane._ids, Submission(agent, payload, **asked))
        await check_budgets(plane.store, plane.directory, [job])
        return await run_now(
            plane.store,
            plane.clock,
            plane._ids,
            job,
            by=by or f"caller {job.id}",
            wait=wait,
            timeout=timeout_seconds,
            ttl_seconds=ttl_seconds,
        )

    # -- looking ---------------------------------------------------------------------------------

    def handle(self, job_id: str) -> JobHandle[Any]:
        """A handle for a job that was submitted earlier, or elsewhere."""
        return JobHandle(self, JobId(job_id))

    async def get(self, id_or_prefix: str) -> Job:
        """Raises JobNotFound, or AmbiguousJob when several ids begin so."""
        return await find_job(self._store, id_or_prefix)

    async def find(self, id_or_prefix: str) -> JobId:
        """The whole id. Raises JobNotFound, or AmbiguousJob when several ids begin so."""
        return await find_job_id(self._store, id_or_prefix)

    async def search(self, wish: JobWish, *, tenant: str | None = None, before: str | None = None, limit: int = 50) -> JobPage:
        """Newest first, by tags, times and words of the payload too. The plane's own jobs are left out unless their queue is
        named. It looks at a bounded number of jobs: `next_before` of the page is where to go on."""
        directory = self._plane.directory
        tenant_id = None if tenant is None else await directory.tenant(tenant)
        last = None if before is None else JobId(before)
        return await search_jobs(self._store, directory, wish, tenant_id=tenant_id, before=last, limit=limit)

    async def history(self, job_id: str) -> list[HistoryEntry]:
        """Every transition, oldest first."""
        return await self._store.jobs.history(JobId(job_id))

    async def runs(self, job_id: str) -> list[Run]:
        """Oldest first."""
        return await self._store.jobs.runs(JobId(job_id))

    async def chain(self, id_or_prefix: str) -> list[JobSummary]:
        """The retry chain that a job belongs to, from the first job to the last."""
        return await self._store.jobs.chain(await self.find(id_or_prefix))

    async def timeline(self, job_id: JobId, *, with_names: bool = False) -> Timeline:
        """What happened to a job, in words. `with_names` looks up what the workers are called."""
        return await Timeline.of(self._store, job_id, with_names=with_names)

    async def details(self, job: Job) -> JobDetails:
        """What is recorded of a job besides its states: steps, tools, memory, usage, approvals."""
        return await JobDetails.of(self._store, self._plane.checkpoints, job)

    async def follow(self, job_id: JobId, position: Position = START) -> AsyncIterator[TimedEvent]:
        """What happens to a job, as it happens, from the position on. Ends with the job."""
        stream = follow_job(self._store, self._plane.clock, job_id, position)
        async with aclosing(stream):  # type: ignore[type-var]
            async for told in stream:
                yield told

    async def result(self, job_id: str, timeout: float | None = None) -> Any:
        """Waits for the job to end. Raises JobFailed, JobCancelled, or ResultNotReady after `timeout` seconds."""
        return await await_result(self._store, self._plane.clock, JobId(job_id), timeout)

    async def why(self, id_or_prefix: str) -> list[BlockedReason]:
        """Why a job is not running: every obstacle that there is."""
        return await explain_job(self._store, await self.get(id_or_prefix))

    async def has_worker(self, job: Job) -> bool:
        """Whether a live worker takes jobs like this one. A killed worker counts until its lease has run out."""
        workers = await self._store.workers.list()
        living = [worker for worker in workers if worker.takes_jobs and worker.lease_until > utc_now()]
        return any(job.queue in worker.queues and job.job_type in worker.job_types for worker in living)

    # -- order -----------------------------------------------------------------------------------

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
        """Moves a waiting job within its queue: `await plane.jobs.move(job.id, before=other.id)`."""
        place, anchor = place_of(before, after, front, back)
        job_id = await self.find(id_or_prefix)
        anchor_id = None if anchor is None else await self.find(anchor)
        await move_job(self._store, job_id, place, anchor_id, actor=actor, reason=reason)
        return job_id

    async def set_priority(
        self, id_or_prefix: str, priority: int, *, reason: str | None = None, actor: str | None = None
    ) -> JobId:
        """Changes the priority of a waiting job."""
        job_id = await self.find(id_or_prefix)
        await set_priority(self._store, job_id, priority, actor=actor, reason=reason)
        return job_id

    # -- ending and going on ---------------------------------------------------------------------

    async def cancel(
        self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None, mode: CancelMode = "cleanup"
    ) -> JobId:
        """A job inside an open `ctx.cleanup()` is asked to end, and cleans up first; mode="kill" ends it at once."""
        job_id = await find_job_id(self._store, id_or_prefix)
        await cancel_job(self._store, job_id, actor=actor, reason=reason, mode=mode)
        return job_id

    async def resume(
        self, id_or_prefix: str, *, actor: str | None = None, ids: NewId | None = None, revision: int | None = None
    ) -> JobHandle[Any]:
        """Goes on with a job that failed or was cancelled, as a new job that is linked to it (`retry_of`).

        Recorded steps answer, the call that failed is made again, with fresh retries; a child that failed is resumed, and an
        approval that was denied or expired is asked for again. A job that recorded nothing begins anew. It acts on the last job
        of the retry chain. With `revision`, only while the job is at it.

        Raises JobNotFound, StillRunning (naming the job that is live), NothingToResume for a job that is COMPLETED, and
        CheckpointCorrupted."""
        job_id = await find_job_id(self._store, id_or_prefix)
        check = self._plane.checkpoints.check
        return self.handle(await resume_job(self._store, ids or self._plane._ids, job_id, check, actor=actor, revision=revision))

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
        """Says what became of an uncertain tool call of a job that ended, and goes on as a new job that is linked to it.

        `call` is the tool's name, with `#2` for its second time. With `applied=True` the call has the given `result`; with
        `applied=False` it took no effect, and is made. `jobs show` and `JobDetails.uncertain` list what is uncertain.

        Raises JobNotFound, StillRunning (naming the job that is live), NothingToResume for a job that is COMPLETED, and
        InvalidInput when the job has no such uncertain call."""
        job_id = await find_job_id(self._store, id_or_prefix)
        checkpoint_of = partial(self._plane.checkpoints.with_settled, call=call, applied=applied, result=result)
        settled_as = await settle_call(
            self._store,
            ids or self._plane._ids,
            job_id,
            call,
            checkpoint_of,
            applied=applied,
            result=result,
            actor=actor,
            revision=revision,
        )
        return self.handle(settled_as)

    async def retry(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        """Runs a finished job again from the beginning, as a new job that is linked to it. It acts on the last job of the retry
        chain. To keep what is recorded: `resume`."""
        job_id = await find_job_id(self._store, id_or_prefix)
        return self.handle(await retry_job(self._store, self._plane._ids, job_id, actor=actor))

    async def release(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> JobId:
        """Lets any worker try a job that is held because its code did not fit (`wait_reason` code_changed)."""
        job_id = await find_job_id(self._store, id_or_prefix)
        await release_job(self._store, job_id, actor=actor, reason=reason)
        return job_id

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
        return await self._store.jobs.list(
            status=None if status is None else _status(status),
            agent_id=None if agent is None else (await self._plane.directory.agent(agent)).id,
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
