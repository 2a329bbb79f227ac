"""Explains why a job is not running."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.clock import as_datetime
from cortex_plane.jobs.model import INTERNAL_QUEUE, Job
from cortex_plane.jobs.states import JobStatus, WaitReason
from cortex_plane.queues.model import Control, Reservation, Scope, for_one_tenant

if TYPE_CHECKING:
    from cortex_plane.stores import Store


@dataclass(frozen=True, slots=True)
class BlockedReason:
    """`code` is stable, for programs; `message` is for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The place of a waiting job in its queue."""

    state: str
    due_at: datetime
    ahead: int
    key_held_by: str | None = None
    key_next: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    job: Job
    standing: Standing | None
    controls: Sequence[Control]
    running: dict[tuple[Scope, str], int]
    """Number of running jobs of each queue, agent and tenant."""

    reservation: Reservation | None
    workers: int
    """Number of live workers that read this queue and have this agent."""
    now: datetime
    only_here: bool = False
    """For users of its tenant: hides data of other tenants."""
    undecidable: str | None = None
    """Why too few people can decide the approval that it waits for."""


MOST_COUNTED = 1000


def why_waiting(facts: Facts) -> list[BlockedReason]:
    job, standing = facts.job, facts.standing
    if job.status.is_terminal:
        return [BlockedReason("ended", f"It has ended: {job.status}.")]
    if job.status is JobStatus.WAITING_FOR_APPROVAL:
        stuck = [] if facts.undecidable is None else [BlockedReason("approval_undecidable", facts.undecidable)]
        return [
            BlockedReason("approval", "It waits for an approval. To list open approvals: cortex approvals list"),
            *stuck,
        ]
    if job.cancel_requested_at is not None and job.status is JobStatus.RUNNING and standing is None:
        return [BlockedReason("cancelling", f"It was cancelled and is cleaning up: {job.status_text}.")]
    if job.status is JobStatus.RUNNING and standing is None:
        return [BlockedReason("running", f"It is running on worker {job.worker_id}.")]
    if standing is None:
        return [BlockedReason("broken", "Its queue entry is missing. To repair it: cortex db repair")]
    asked = (
        []
        if job.cancel_requested_at is None
        else [BlockedReason("cancelling", f"It was cancelled and waits for a worker to clean up: {job.status_text}.")]
    )
    obstacles = [*_control_reasons(facts), *_hold_reasons(facts)]
    return [*asked, *_own_reasons(job, standing), *obstacles, *_room_reasons(facts, standing)]


def _own_reasons(job: Job, standing: Standing) -> list[BlockedReason]:
    if job.wait_reason is WaitReason.CODE_CHANGED and standing.state == "later":
        return [_held(job, standing)]
    match standing.state:
        case "later":
            due = standing.due_at.isoformat(timespec="seconds")
            why = job.status_text if job.status is JobStatus.RETRY else "scheduled"
            return [BlockedReason("not_due", f"It is scheduled for {due} ({why}).")]
        case "blocked" if standing.key_held_by:
            return [
                BlockedReason("key_held", f'Its serial key "{job.serial_key}" is held by running job {standing.key_held_by}.')
            ]
        case "blocked":
            first = f", first {standing.key_next}" if standing.key_next else ""
            return [BlockedReason("key_waits", f'Other jobs of its serial key "{job.serial_key}" come before it{first}.')]
        case "held":
            return [BlockedReason("group_order", "An earlier member of its group has not ended yet.")]
        case _:
            return []


def _held(job: Job, standing: Standing) -> BlockedReason:
    error = job.error if isinstance(job.error, dict) else {}
    due = standing.due_at.isoformat(timespec="seconds")
    return BlockedReason(
        "code_changed",
        f'It is held at step "{error.get("step")}": the code of its worker does not fit what is recorded. {error.get("message")} '
        f"It goes on when a worker starts with other code for its agent: roll back, or put the change under ctx.patched(...). "
        f"The same code is tried again at {due}, or now by: cortex jobs release {job.id}",
    )


def _control_reasons(facts: Facts) -> list[BlockedReason]:
    found: list[BlockedReason] = []
    for control in facts.controls:
        if not control.paused or not _concerns(control, facts.job):
            continue
        since = f" since {control.paused_at.isoformat(timespec='seconds')}" if control.paused_at else ""
        by = f" by {control.paused_by}" if control.paused_by else ""
        reason = f": {control.pause_reason}" if control.pause_reason else ""
        if control.scope is Scope.GATE:
            found.append(BlockedReason("gate_closed", f"The gate was closed{by}{since}{reason}. To open it: cortex gate open"))
        else:
            code, what = f"{control.scope.value}_paused", f'{control.scope.value} "{control.name}"'
            found.append(BlockedReason(code, f"Its {what} was paused{by}{since}{reason}."))
    return found


def _hold_reasons(facts: Facts) -> list[BlockedReason]:
    found: list[BlockedReason] = []
    for control in facts.controls:
        if control.held_until is None or control.held_until <= facts.now or not _concerns(control, facts.job):
            continue
        what, until = f'{control.scope.value} "{control.name}"', control.held_until.isoformat(timespec="seconds")
        lift = f"To lift it: cortex queues resume {'--agent ' if control.scope is Scope.AGENT else ''}{control.name}"
        found.append(
            BlockedReason(f"{control.scope.value}_held", f"Its {what} is held until {until}: {control.hold_reason}. {lift}")
        )
    return found


def _room_reasons(facts: Facts, standing: Standing) -> list[BlockedReason]:
    found: list[BlockedReason] = []
    held, job = facts.reservation, facts.job
    if held is not None and held.job_id != job.id:
        whose = "for another job" if facts.only_here else f"by {held.reserved_by} for job {held.job_id}"
        found.append(BlockedReason("reserved", f"Its queue is reserved {whose}."))
    for control in facts.controls:
        running = facts.running.get((control.scope, control.name), 0)
        if control.max_running is not None and _concerns(control, job) and running >= control.max_running:
            what = f'{control.scope.value} "{control.name}"'
            found.append(
                BlockedReason(
                    "limit_reached", f"Its {what} is limited to {control.max_running} running jobs, and {running} are running."
                )
            )
    if facts.workers == 0:
        who = f'agent "{job.job_type}" and reads queue "{job.queue}"'
        found.append(BlockedReason("no_worker", f"No live worker has {who}. Start one: cortex worker APP"))
    if standing.state == "ready" and standing.ahead:
        count = f"{MOST_COUNTED:,} jobs or more are" if standing.ahead >= MOST_COUNTED else _jobs_are(standing.ahead)
        found.append(BlockedReason("behind_others", f"{count} before it in the queue."))
    if standing.state == "ready" and not found and not _control_reasons(facts) and not _hold_reasons(facts):
        found.append(BlockedReason("next", "Nothing blocks it: the next worker with a free slot claims it."))
    return found


def _jobs_are(count: int) -> str:
    return "1 job is" if count == 1 else f"{count:,} jobs are"


def _concerns(control: Control, job: Job) -> bool:
    match control.scope:
        case Scope.GATE:
            return job.queue != INTERNAL_QUEUE
        case Scope.QUEUE:
            return control.name == job.queue
        case Scope.AGENT:
            return control.name == job.job_type
        case Scope.TENANT:
            return control.name == job.tenant_id


# -- explain job -------------------------------------------------------------------------------


MOST_WORKERS = 10_000


async def explain_job(store: Store, job: Job, *, only_here: bool = False) -> list[BlockedReason]:
    """Returns every reason why a job is not running. `only_here` hides names and texts of other tenants."""
    held = [reservation for reservation in await store.reservations.list() if reservation.queue == job.queue]
    return why_waiting(
        Facts(
            job=job,
            standing=await store.queue.standing(job.id),
            controls=await _controls(store, job, only_here),
            running=await _running(store),
            reservation=held[0] if held else None,
            workers=await _workers_for(store, job),
            only_here=only_here,
            now=as_datetime(await store.workers.now()),
            undecidable=await _undecidable(store, job),
        )
    )


async def _controls(store: Store, job: Job, only_here: bool) -> list[Control]:
    controls = list(await store.controls.list())
    return [for_one_tenant(control, job.tenant_id) for control in controls] if only_here else controls


async def _undecidable(store: Store, job: Job) -> str | None:
    if job.status is not JobStatus.WAITING_FOR_APPROVAL:
        return None
    asked = await store.approvals.list(job_id=job.id)
    return next(iter((await store.approvals.undecidable([one.id for one in asked])).values()), None)


async def _running(store: Store) -> dict[tuple[Scope, str], int]:
    counts: Counter[tuple[Scope, str]] = Counter()
    for queue, job_type, tenant_id, runs in await store.queue.running():
        counts[Scope.QUEUE, queue] += runs
        counts[Scope.AGENT, job_type] += runs
        counts[Scope.TENANT, tenant_id] += runs
    return dict(counts)


async def _workers_for(store: Store, job: Job) -> int:
    workers = await store.workers.list(MOST_WORKERS)
    return sum(worker.takes_jobs and job.queue in worker.queues and job.job_type in worker.job_types for worker in workers)
