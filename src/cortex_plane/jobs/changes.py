"""Cancels, retries and releases jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, get_args

from cortex_plane.audit.model import AuditEntry
from cortex_plane.costs.service import check_budgets_of
from cortex_plane.errors import AlreadyFinished, Denied, InvalidInput, JobNotFound, NotHeld, RevisionChanged, StillRunning
from cortex_plane.grants.model import GrantRefused, RequestId
from cortex_plane.jobs.lookup import find_job
from cortex_plane.jobs.model import INTERNAL_QUEUE, Job, JobId
from cortex_plane.jobs.states import JobStatus

if TYPE_CHECKING:
    from cortex_plane.ids import NewId
    from cortex_plane.stores import Store

CancelMode = Literal["cleanup", "kill"]


async def cancel_job(
    store: Store,
    job_id: JobId,
    *,
    actor: str | None = None,
    reason: str | None = None,
    revision: int | None = None,
    mode: CancelMode = "cleanup",
) -> None:
    """With a revision, only while the job is at it. One that has an open cleanup scope is asked to end, and is CANCELLED when it
    has cleaned up; with mode="kill" it is at once, as any other."""
    if mode not in get_args(CancelMode):
        raise InvalidInput(f'mode must be "cleanup" or "kill", not {mode!r:.80}.', field="mode")
    job = await store.jobs.get(job_id)
    if job is None:
        raise JobNotFound(job_id)
    _refuse_the_planes_own(job)
    if await store.jobs.cancel(job_id, actor, reason, revision, kill=mode == "kill"):
        return
    now = await store.jobs.get(job_id)
    if now is None:
        raise JobNotFound(job_id)
    if revision is not None and now.revision != revision:
        raise RevisionChanged(job_id, now.revision)
    raise AlreadyFinished(job_id, now.status)


def _refuse_the_planes_own(job: Job) -> None:
    """Without it, what it looks after would rest for ever: a group is not moved on, an endpoint is not told."""
    if job.queue == INTERNAL_QUEUE:
        raise Denied(
            f"Job {job.id} ({job.job_type}) belongs to the plane itself and is not cancelled by hand. "
            "Cancel what it works for: cortex groups cancel ID, cortex webhooks disable ID"
        )


# -- retry job ---------------------------------------------------------------------------------
# An operator's retry: terminal states do not move, so a finished job gets a linked successor, at the end of its chain.


Check = Callable[[JobId, JobStatus], Awaitable[None]]
Make = Callable[[JobId, JobId], Awaitable[bool]]
"""Makes the successor of a job under an id; False when it has one, or has not ended."""


async def retry_job(
    store: Store, new_id: NewId, job_id: JobId, *, actor: str | None = None, revision: int | None = None
) -> JobId:
    """The same work from the beginning. With a revision, only while the job is at it and has no successor."""

    async def make(last_id: JobId, successor: JobId) -> bool:
        return await store.jobs.retry(last_id, successor, actor)

    return await add_linked(store, new_id, job_id, make, revision=revision)


async def add_linked(
    store: Store, new_id: NewId, job_id: JobId, make: Make, *, check: Check | None = None, revision: int | None = None
) -> JobId:
    """A successor of the last job of the chain; `check` may refuse it. Raises StillRunning, naming the one that is live."""
    successor = JobId(new_id())
    if await store.jobs.status(successor) is not None:
        return successor  # It was made before, and only the answer was lost.
    if revision is not None:
        await _check_revision(store, job_id, revision)
    end = await store.jobs.chain_end(job_id)
    if end is None:
        raise JobNotFound(job_id)
    last_id, status = end
    if status.is_terminal and (revision is None or last_id == job_id):
        if check is not None:
            await check(last_id, status)
        await _check_means(store, last_id)
        if await make(last_id, successor):
            return successor
    return await _why_not(store, job_id, successor)


async def _check_revision(store: Store, job_id: JobId, revision: int) -> None:
    """What has ended changes no more: a job that has ended at this revision is at it for ever, and has at most one retry."""
    job = await store.jobs.get(job_id)
    if job is None:
        raise JobNotFound(job_id)
    if job.revision != revision or job.retried_as is not None:
        raise RevisionChanged(job_id, job.revision)
    if not job.status.is_terminal:
        raise StillRunning(job_id, job_id, job.status)


async def _check_means(store: Store, job_id: JobId) -> None:
    """What the plane does by itself, such as telling others that a job ended, costs nobody anything. What runs again under a
    grant is charged to it, and is no new use of it."""
    job = await store.jobs.get(job_id)
    if job is not None and job.queue != INTERNAL_QUEUE:
        await check_budgets_of(store, job)
        await check_not_revoked(store, job)


async def check_not_revoked(store: Store, job: Job) -> None:
    """Raises GrantRefused for a job whose grant was revoked: nobody would be charged for what it uses."""
    request = None if job.request_id is None else await store.requests.get(RequestId(job.request_id))
    grant = None if request is None else await store.grants.get(request.grant_id)
    if grant is not None and grant.revoked_at is not None:
        by = f" by {grant.revoked_by}" if grant.revoked_by else ""
        raise GrantRefused(
            grant.id,
            "grant_revoked",
            f"Job {job.id} was started under grant {grant.id}, which was revoked{by}: it is not run again under it. "
            f"To run the work anew: cortex jobs submit {job.job_type}",
        )


async def _why_not(store: Store, job_id: JobId, successor: JobId) -> JobId:
    """It has not ended, or somebody else was faster; or our own insert did apply and only its answer was lost."""
    end = await store.jobs.chain_end(job_id)
    if end is None:
        raise JobNotFound(job_id)
    if end[0] == successor:
        return successor
    if end[1].is_terminal and (job := await store.jobs.get(end[0])) is not None:
        await check_not_revoked(store, job)
    raise StillRunning(job_id, end[0], end[1])


# -- release job -------------------------------------------------------------------------------
# Releases a job that is held because its record did not fit the code: any worker may take it, at once.


async def release_job(
    store: Store, job_id: JobId, *, actor: str | None = None, reason: str | None = None, revision: int | None = None
) -> None:
    """With a revision, only while the job is at it. Raises NotHeld."""
    job = await find_job(store, job_id)
    if revision is not None and job.revision != revision:
        raise RevisionChanged(job.id, job.revision)
    entry = AuditEntry("JOB_RELEASED", "job", job.id, actor, reason, tenant_id=job.tenant_id)
    if not await store.holds.release(job.id, entry):
        raise NotHeld(job.id, job.status)
