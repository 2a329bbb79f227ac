"""Slots: begun once, ended once, and the chain of a schedule moved on in the same transaction.

The schedule's row is locked first, so that of two who come for one slot the second sees what the first has done. Moving on is
one compare-and-swap: the row changes only while its chain stands at the slot from which it is moved, and the job of the next
slot is submitted with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.clock import instant
from cortex_plane.jobs.store import submit_keyed
from cortex_plane.json import dumps
from cortex_plane.queues.model import Scope
from cortex_plane.schedules.model import (
    SLOT_AGENT,
    Schedule,
    ScheduleId,
    SkipReason,
    Slot,
    SlotId,
    SlotOrigin,
    SlotStatus,
    slot_id,
    slot_time,
)
from cortex_plane.schedules.rows import MakeJob, record, schedule_document, schedule_from, slot_documents, slot_from
from cortex_plane.schedules.slots import (
    Begun,
    Circumstances,
    DueSlots,
    Skipped,
    advance,
    due_at_change,
    how_to_begin,
    new_slot,
    standing_at,
)
from cortex_plane.storage import rows
from cortex_plane.storage.rows import NO_DIGITS
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.jobs.model import JobId
    from cortex_plane.storage.database import Database


class SlotStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self,
        schedule_id: ScheduleId,
        at: datetime,
        origin: SlotOrigin,
        job_id: JobId,
        make_job: MakeJob,
        looked_at: Collection[SlotId] = (),
    ) -> Begun:
        """Begins a slot once, or leaves it out; where that moves the chain on, the next job is submitted with it. It replaces
        only slots that were `looked_at`."""
        return await self._database.transact(lambda: _begin(schedule_id, at, origin, job_id, make_job, looked_at))

    async def note_run(self, slot_id: SlotId, run_id: JobId, trace_id: str) -> bool:
        """What the slot has started. False when it has ended meanwhile."""
        return bool(await self._database.write("slots/note_run", id=slot_id, run_id=run_id, trace_id=trace_id))

    async def end(
        self, slot_id: SlotId, status: SlotStatus, error_code: str | None, error_message: str | None, make_job: MakeJob
    ) -> bool:
        """Ends it once, and moves the chain on where that waited. False when it had ended."""
        return await self._database.transact(lambda: _end(slot_id, status, error_code, error_message, make_job))

    async def ask_for(
        self,
        schedule_id: ScheduleId,
        moments: Sequence[datetime],
        origin: SlotOrigin,
        make_job: MakeJob,
        requested_by: str | None = None,
    ) -> list[Slot]:
        """Slots that somebody wants, with their jobs; those that have run, run or wait already are passed over."""
        return await self._database.transact(lambda: _ask_for(schedule_id, moments, origin, make_job, requested_by))

    async def stuck(self, after: SlotId | None, limit: int) -> list[SlotId]:
        """Those after one of them, by id, that have not ended though the job that looks after them has."""
        found = await self._database.read("slots/stuck", after=after or NO_DIGITS, limit=limit)
        return [SlotId(str(row["id"])) for row in found]

    async def look_again(self, slot_id: SlotId, make_job: MakeJob) -> bool:
        """Gives a slot that has not ended another job to look after it. False when it has ended, or its job goes on."""
        return await self._database.transact(lambda: _look_again(slot_id, make_job))

    async def get(self, slot_id: SlotId) -> Slot | None:
        found = await self._database.read("slots/get", id=slot_id)
        return slot_from(found[0]) if found else None

    async def list(self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 50) -> list[Slot]:
        """Newest first."""
        if before is None:
            found = await self._database.read("slots/list", schedule_id=schedule_id, limit=limit)
        else:
            found = await self._database.read("slots/page", schedule_id=schedule_id, before=instant(before), limit=limit)
        return [slot_from(row) for row in found]


def _begin(
    schedule_id: ScheduleId,
    at: datetime,
    origin: SlotOrigin,
    job_id: JobId,
    make_job: MakeJob,
    looked_at: Collection[SlotId],
) -> Transaction[Begun]:
    found = yield from query("schedules/lock", id=schedule_id)
    if not found:
        return Begun("superseded")
    schedule = schedule_from(found[0])
    known = yield from _known(schedule, at)
    if known is not None and known.status != "pending":
        replaced = yield from _replaced_by(known)
        return Begun("run" if known.status == "running" else "ended", schedule, known, replaced)
    if origin == "cron" and (not schedule.enabled or schedule.next_run_at != at):
        return Begun("superseded", schedule)
    running = [slot for slot in (yield from _open(schedule_id)) if slot.status == "running"]
    [clock] = yield from query("slots/now")
    now = rows.moment(clock["now"])
    gate = yield from query("controls/get", scope=Scope.GATE, name="")
    closed = any(bool(row["paused"]) for row in gate)
    by = None if known is None else known.begin_by
    match how_to_begin(schedule, at, Circumstances(origin, bool(running), closed, now, by)):
        case "wait":
            return Begun("wait", schedule, known)
        case "run":
            unseen = tuple(slot for slot in running if slot.id not in looked_at)
            if unseen and schedule.terms.overlap == "replace":
                return Begun("look", schedule, known, unseen)
            return (yield from _run(schedule, at, origin, job_id, running, now, make_job))
        case reason:
            yield from leave_out(schedule, at, reason)
            if origin == "cron":
                yield from move_on(schedule, at, now, now, make_job)
            return Begun("ended", schedule, (yield from _known(schedule, at)))


def _run(
    schedule: Schedule, at: datetime, origin: SlotOrigin, job_id: JobId, running: Sequence[Slot], now: datetime, make_job: MakeJob
) -> Transaction[Begun]:
    identity = slot_id(schedule.id, at)
    yield from query("slots/add", slots=slot_documents([new_slot(schedule, at, origin, job_id=job_id)]))
    yield from query("slots/start", id=identity, job_id=job_id)
    if schedule.terms.overlap == "replace":
        for other in running:
            message = f"The slot of {slot_time(at)} took its place."
            yield from _ends(other.id, "error", "replaced", message, replaced_by=identity)
    moved = replace(schedule, last_run_at=at)
    if origin == "cron" and schedule.terms.overlap != "forbid":
        yield from move_on(schedule, at, now, now, make_job, moved)
    elif moved != schedule:
        yield from _write(schedule, moved)
    slot = yield from _known(schedule, at)
    assert slot is not None
    return Begun("run", moved, slot, (yield from _replaced_by(slot)))


def leave_out(schedule: Schedule, at: datetime, reason: SkipReason) -> Transaction[None]:
    yield from query("slots/add", slots=slot_documents([new_slot(schedule, at, "cron", reason=reason)]))
    yield from query("slots/skip", id=slot_id(schedule.id, at), reason=reason)


def leave_out_due(schedule: Schedule, due: DueSlots, reason: SkipReason) -> Transaction[None]:
    """Records the slots that are due when a schedule is paused or removed, and that will not begin."""
    left_out = [*due.skipped, *(Skipped(at, reason) for at in due.run)]
    if left_out:
        rows_of = [new_slot(schedule, one.slot, "cron", reason=one.reason) for one in left_out]
        yield from query("slots/add", slots=slot_documents(rows_of))
    yield from query("slots/skip_settled", schedule_id=schedule.id, reason=reason)


def due_now(schedule: Schedule, now: datetime) -> Transaction[DueSlots]:
    """The slots that are due by the rule that is in force, settled."""
    begun = None if schedule.next_run_at is None else (yield from _known(schedule, schedule.next_run_at))
    return due_at_change(schedule, None if begun is None else begun.started_at or now, now)


def move_on(
    schedule: Schedule, at: datetime, began_at: datetime, now: datetime, make_job: MakeJob, moved: Schedule | None = None
) -> Transaction[None]:
    """From this slot to the next: the schedule's row, the slots that are left out, and the job of the next, together."""
    step = advance(schedule, at, began_at, now)
    after = standing_at(moved or schedule, step.next)
    job = None if step.next is None else make_job(after, step.next, "cron")
    after = replace(after, slot_job_id=None if job is None else job.id)
    if not (yield from _write(schedule, after)):
        return
    if step.skipped:
        left_out = [new_slot(schedule, one.slot, "cron", reason=one.reason) for one in step.skipped]
        yield from query("slots/add", slots=slot_documents(left_out))
    if job is not None:
        yield from submit_keyed([job])


def _look_again(identity: SlotId, make_job: MakeJob) -> Transaction[bool]:
    seen = yield from query("slots/get", id=identity)
    found = (yield from query("schedules/lock", id=slot_from(seen[0]).schedule_id)) if seen else ()
    if not found:
        return False
    schedule = schedule_from(found[0])
    slot = slot_from((yield from query("slots/get", id=identity))[0])
    if not slot.open or not (yield from query("schedules/job_ended", id=slot.job_id)):
        return False
    yield from give_another_job(schedule, slot, make_job)
    return True


def give_another_job(schedule: Schedule, slot: Slot, make_job: MakeJob) -> Transaction[None]:
    """The job that looked after a slot has ended before the slot: another one finds its run by the idempotency key."""
    in_chain = slot.origin == "cron" and schedule.next_run_at == slot.scheduled_for
    job = make_job(schedule, slot.scheduled_for, "cron" if in_chain else "backfill")
    yield from query("slots/give_job", id=slot.id, job_id=job.id)
    if in_chain:
        yield from _write(schedule, replace(schedule, slot_job_id=job.id))
    yield from submit_keyed([job])


def _end(
    identity: SlotId, status: SlotStatus, error_code: str | None, error_message: str | None, make_job: MakeJob
) -> Transaction[bool]:
    seen = yield from query("slots/get", id=identity)
    if not seen:
        return False
    slot = slot_from(seen[0])
    found = yield from query("schedules/lock", id=slot.schedule_id)
    if not found:
        return False
    [clock] = yield from query("slots/now")
    now = rows.moment(clock["now"])
    return (yield from close(schedule_from(found[0]), slot, status, error_code, error_message, now, make_job))


def close(
    schedule: Schedule,
    slot: Slot,
    status: SlotStatus,
    error_code: str | None,
    error_message: str | None,
    now: datetime,
    make_job: MakeJob,
) -> Transaction[bool]:
    if not (yield from _ends(slot.id, status, error_code, error_message)):
        return False
    counted = replace(schedule, failures=0 if status == "success" else schedule.failures + 1)
    most = schedule.terms.pause_after_failures
    if schedule.enabled and most is not None and counted.failures >= most:
        yield from _pause(schedule, slot, counted, now)
    elif schedule.enabled and slot.origin == "cron" and schedule.next_run_at == slot.scheduled_for:
        yield from move_on(schedule, slot.scheduled_for, slot.started_at or now, now, make_job, counted)
    elif counted != schedule:
        yield from _write(schedule, counted)
    return True


def _pause(schedule: Schedule, slot: Slot, counted: Schedule, now: datetime) -> Transaction[None]:
    reason = f"{counted.failures} {'slot' if counted.failures == 1 else 'slots in a row'} failed"
    paused = replace(
        counted, enabled=False, paused_by=SLOT_AGENT, paused_at=now, pause_reason=reason, next_run_at=None, slot_job_id=None
    )
    yield from leave_out_due(schedule, (yield from due_now(schedule, now)), "paused")
    yield from _write(schedule, paused)
    if schedule.slot_job_id is not None and schedule.slot_job_id != slot.job_id:
        note = dumps({"reason": f"the schedule paused: {reason}"})
        yield from query(
            "jobs/cancel", id=schedule.slot_job_id, cause="cancel", actor=SLOT_AGENT, note=note, revision=None, kill=True
        )
    details = {"name": schedule.name, "failures": counted.failures}
    yield from record(
        AuditEntry("SCHEDULE_PAUSED", "schedule", schedule.id, SLOT_AGENT, reason, tenant_id=schedule.tenant_id, details=details)
    )


def _ask_for(
    schedule_id: ScheduleId,
    moments: Sequence[datetime],
    origin: SlotOrigin,
    make_job: MakeJob,
    requested_by: str | None,
) -> Transaction[list[Slot]]:
    found = yield from query("schedules/lock", id=schedule_id)
    wanted: list[Slot] = []
    for at in moments if found and found[0]["removed_at"] is None else ():
        schedule = schedule_from(found[0])
        if schedule.next_run_at == at:
            continue  # The chain stands there: its job is under way.
        job = make_job(schedule, at, origin)
        slot = new_slot(schedule, at, origin, job_id=job.id, requested_by=requested_by)
        added = yield from query("slots/add", slots=slot_documents([slot]))
        if added or (yield from query("slots/ask_again", id=slot.id, job_id=job.id, requested_by=requested_by)):
            yield from submit_keyed([job])
            wanted.append(slot)
    if wanted:
        details = {"name": schedule.name, "slots": len(wanted), "first": slot_time(wanted[0].scheduled_for)}
        action = "SCHEDULE_TRIGGERED" if origin == "manual" else "SCHEDULE_BACKFILLED"
        yield from record(
            AuditEntry(action, "schedule", schedule_id, requested_by, tenant_id=schedule.tenant_id, details=details)
        )
    return wanted


def _ends(
    identity: SlotId, status: SlotStatus, error_code: str | None, error_message: str | None, replaced_by: SlotId | None = None
) -> Transaction[bool]:
    ended = yield from query(
        "slots/end",
        id=identity,
        status=status,
        error_code=error_code,
        error_message=error_message,
        replaced_by=replaced_by,
    )
    return bool(ended)


def _write(before: Schedule, after: Schedule) -> Transaction[bool]:
    expected = None if before.next_run_at is None else instant(before.next_run_at)
    return bool((yield from query("schedules/write", schedule=schedule_document(after), expected_next_run_at=expected)))


def _known(schedule: Schedule, at: datetime) -> Transaction[Slot | None]:
    found = yield from query("slots/get", id=slot_id(schedule.id, at))
    return slot_from(found[0]) if found else None


def _open(schedule_id: ScheduleId) -> Transaction[list[Slot]]:
    return [slot_from(row) for row in (yield from query("slots/open", schedule_id=schedule_id))]


def _replaced_by(slot: Slot) -> Transaction[tuple[Slot, ...]]:
    found = yield from query("slots/replaced_by", schedule_id=slot.schedule_id, id=slot.id)
    return tuple(slot_from(row) for row in found)
