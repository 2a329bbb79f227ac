"""Why a job is not running: every obstacle that there is, in the order in which an operator would look for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cortex_plane.core.controls import Control, Scope
from cortex_plane.core.jobs import INTERNAL_QUEUE, Job
from cortex_plane.core.reservations import Reservation
from cortex_plane.core.states import JobStatus


@dataclass(frozen=True, slots=True)
class Reason:
    """`code` is for programs and stays the same; `message` is for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a waiting job stands in the queue."""

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
    """How many jobs of each queue, agent and tenant run on a worker."""

    reservation: Reservation | None
    workers: int
    """How many live workers read this queue and have this agent."""


MOST_COUNTED = 1000


def why_waiting(facts: Facts) -> list[Reason]:
    job, standing = facts.job, facts.standing
    if job.status.is_terminal:
        return [Reason("ended", f"It has ended: {job.status}.")]
    if job.status is JobStatus.WAITING_FOR_APPROVAL:
        return [Reason("approval", "It waits for somebody to approve it. To see what is asked: cortex approvals list")]
    if job.status is JobStatus.RUNNING and standing is None:
        return [Reason("running", f"It is running, on worker {job.worker_id}.")]
    if standing is None:
        return [Reason("broken", "It should have a place in the queue and has none. Run: cortex db repair")]
    return [*_own_reasons(job, standing), *_control_reasons(facts), *_room_reasons(facts, standing)]


def _own_reasons(job: Job, standing: Standing) -> list[Reason]:
    match standing.state:
        case "later":
            due = standing.due_at.isoformat(timespec="seconds")
            why = {"retry": "it failed and will be tried again", "sleep": "it sleeps"}.get(str(job.wait_reason), "so planned")
            return [Reason("not_due", f"It is not due until {due} ({why}).")]
        case "blocked" if standing.key_held_by:
            return [Reason("key_held", f'Its serial key "{job.serial_key}" is held by job {standing.key_held_by}, which runs.')]
        case "blocked":
            first = f", first {standing.key_next}" if standing.key_next else ""
            return [Reason("key_waits", f'Other jobs of its serial key "{job.serial_key}" come before it{first}.')]
        case "held":
            return [Reason("group_order", "An earlier member of its group has not ended yet.")]
        case _:
            return []


def _control_reasons(facts: Facts) -> list[Reason]:
    found: list[Reason] = []
    for control in facts.controls:
        if not control.paused or not _concerns(control, facts.job):
            continue
        since = f" since {control.paused_at.isoformat(timespec='seconds')}" if control.paused_at else ""
        by = f" by {control.paused_by}" if control.paused_by else ""
        reason = f": {control.pause_reason}" if control.pause_reason else ""
        if control.scope is Scope.GATE:
            found.append(Reason("gate_closed", f"The gate was closed{by}{since}{reason}. To open it: cortex gate open"))
        else:
            code, what = f"{control.scope.value}_paused", f'{control.scope.value} "{control.name}"'
            found.append(Reason(code, f"Its {what} was paused{by}{since}{reason}."))
    return found


def _room_reasons(facts: Facts, standing: Standing) -> list[Reason]:
    found: list[Reason] = []
    held, job = facts.reservation, facts.job
    if held is not None and held.job_id != job.id:
        found.append(Reason("reserved", f"Its queue is reserved by {held.reserved_by} for job {held.job_id}."))
    for control in facts.controls:
        running = facts.running.get((control.scope, control.name), 0)
        if control.max_running is not None and _concerns(control, job) and running >= control.max_running:
            what = f'{control.scope.value} "{control.name}"'
            found.append(Reason("limit_reached", f"Of its {what} at most {control.max_running} may run, and {running} do."))
    if facts.workers == 0:
        who = f'agent "{job.job_type}" and reads queue "{job.queue}"'
        found.append(Reason("no_worker", f"No live worker has {who}. Start one: cortex worker APP"))
    if standing.state == "ready" and standing.ahead:
        count = f"{MOST_COUNTED:,} jobs or more are" if standing.ahead >= MOST_COUNTED else _jobs_are(standing.ahead)
        found.append(Reason("behind_others", f"{count} before it in the queue."))
    if standing.state == "ready" and not found and not _control_reasons(facts):
        found.append(Reason("next", "Nothing stands in its way: a worker takes it as soon as one has a free slot."))
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
