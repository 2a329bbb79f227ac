"""Schedules: each change in one transaction with the jobs that it puts into the queue or takes out, and its audit entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.clock import instant
from cortex_plane.grants.store import add_grant
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.jobs.store import submit_keyed
from cortex_plane.json import dumps
from cortex_plane.schedules.model import Schedule, ScheduleExists, ScheduleId, Slot, slot_id
from cortex_plane.schedules.rows import (
    Change,
    DueRule,
    MakeJob,
    record,
    schedule_document,
    schedule_from,
    slot_documents,
    slot_from,
)
from cortex_plane.schedules.slot_store import due_now, give_another_job, leave_out_due, move_on
from cortex_plane.schedules.slots import DueSlots, begin_by, due_at, new_slot, recomputed
from cortex_plane.storage import rows
from cortex_plane.storage.rows import NO_DIGITS
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.grants.model import NewGrant
    from cortex_plane.storage.database import Database


class ScheduleStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, schedule: Schedule, grant: NewGrant | None, make_job: MakeJob, entries: Sequence[AuditEntry]) -> None:
        """The grant, the schedule and the job of its first slot, or nothing. Raises ScheduleExists."""
        await self._database.transact(lambda: _add(schedule, grant, make_job, entries))

    async def get(self, schedule_id: ScheduleId) -> Schedule | None:
        """Also one that was removed."""
        found = await self._database.read("schedules/get", id=schedule_id)
        return schedule_from(found[0]) if found else None

    async def find(self, tenant_id: TenantId, name: str) -> Schedule | None:
        found = await self._database.read("schedules/find", tenant_id=tenant_id, name=name)
        return schedule_from(found[0]) if found else None

    async def change(
        self, schedule_id: ScheduleId, change: Change, make_job: MakeJob, entry: AuditEntry, due_slots: DueRule = "run"
    ) -> bool:
        """Applies a pure change, which is given the last slot and the time. A slot that the chain no longer stands at is taken
        out of the queue, a new one put in. Every slot that is due runs or is recorded as skipped. False when nothing changed;
        then nothing is recorded."""
        return await self._database.transact(lambda: _change(schedule_id, change, make_job, entry, due_slots))

    async def remove(self, schedule_id: ScheduleId, entry: AuditEntry) -> bool:
        """Its row and its slots stay. What waits is cancelled; a run that was started goes on, and its slot with it. A grant that
        has served this schedule alone is revoked."""
        return await self._database.transact(lambda: _remove(schedule_id, entry))

    async def take_turn(self, rest_seconds: float) -> bool:
        """Of many who would look through the schedules, one may. False also when there are none."""
        if not await self._database.read("schedules/any"):
            return False
        return bool(await self._database.write_once("schedules/take_turn", rest_seconds=rest_seconds))

    async def broken(self, zone_data: str, after: ScheduleId | None, limit: int) -> list[ScheduleId]:
        """Those after one of them, by id, whose chain has no job that goes on, or whose slot was reckoned by other time-zone
        data."""
        found = await self._database.read("schedules/broken", zone_data=zone_data, after=after or NO_DIGITS, limit=limit)
        return [ScheduleId(str(row["id"])) for row in found]

    async def mend(self, schedule_id: ScheduleId, zone_data: str, make_job: MakeJob) -> bool:
        """Makes the chain go on. False when it was whole."""
        return await self._database.transact(lambda: _mend(schedule_id, zone_data, make_job))

    async def list(self, tenant_id: TenantId | None = None) -> list[Schedule]:
        """By name, without those that were removed."""
        return [schedule_from(row) for row in await self._database.read("schedules/list", tenant_id=tenant_id)]

    async def page(self, tenant_id: TenantId, after: str, limit: int) -> Sequence[Schedule]:
        """Those of a tenant by name, after a name."""
        found = await self._database.read("schedules/page", tenant_id=tenant_id, after=after, limit=limit)
        return [schedule_from(row) for row in found]


def _add(schedule: Schedule, grant: NewGrant | None, make_job: MakeJob, entries: Sequence[AuditEntry]) -> Transaction[None]:
    if grant is not None:
        yield from add_grant(grant)
    if schedule.next_run_at is not None:
        job = make_job(schedule, schedule.next_run_at, "cron")
        schedule = replace(schedule, slot_job_id=job.id)
    if not (yield from query("schedules/add", schedule=schedule_document(schedule))):
        raise ScheduleExists(schedule.name)
    if schedule.next_run_at is not None:
        yield from submit_keyed([job])
    yield from record(*entries)


def _change(
    schedule_id: ScheduleId, change: Change, make_job: MakeJob, entry: AuditEntry, due_slots: DueRule
) -> Transaction[bool]:
    found = yield from query("schedules/lock", id=schedule_id)
    if not found:
        return False
    before = schedule_from(found[0])
    if before.removed_at is not None:
        return False
    last = yield from last_slot(schedule_id)
    [clock] = yield from query("slots/now")
    now = rows.moment(clock["now"])
    after = change(before, last, now)
    if after == before:
        return False
    due = (yield from due_now(before, now)) if before.enabled else DueSlots()
    yield from put(before, after, make_job)
    if due_slots == "run":
        yield from _settle(before, after, due, now, make_job)
    else:
        yield from leave_out_due(before, due, "paused")
    yield from record(entry)
    return True


def _settle(before: Schedule, after: Schedule, due: DueSlots, now: datetime, make_job: MakeJob) -> Transaction[None]:
    """Records the slots that are left out. A slot that still runs is no part of the chain any more: like a backfill, its job
    waits for its turn."""
    skipped = [new_slot(before, one.slot, "cron", reason=one.reason) for one in due.skipped]
    if skipped:
        yield from query("slots/add", slots=slot_documents(skipped))
    for at in due.run:
        job, due_from = make_job(after, at, "backfill"), due_at(before, at)
        if due_from > now:
            job = replace(job, run_at=instant(due_from))
        slot = new_slot(before, at, "cron", job_id=job.id, begin_by=begin_by(before, at))
        yield from query("slots/add", slots=slot_documents([slot]))
        yield from submit_keyed([job])


def _has_begun(schedule: Schedule) -> Transaction[bool]:
    if schedule.next_run_at is None:
        return False
    return bool((yield from query("slots/get", id=slot_id(schedule.id, schedule.next_run_at))))


def put(before: Schedule, after: Schedule, make_job: MakeJob) -> Transaction[None]:
    """Writes a changed schedule. The queue follows: the job of a slot that has not begun is replaced by the job of the new one.

    A slot that runs is left alone: under `forbid`, slots that fall due before it ends find it running, and are skipped."""
    anew = after.next_run_at != before.next_run_at or after.terms != before.terms
    if anew and before.slot_job_id is not None and not (yield from _has_begun(before)):
        yield from take_out(before.slot_job_id, "the schedule was changed")
    job = make_job(after, after.next_run_at, "cron") if anew and after.next_run_at is not None else None
    if anew:
        after = replace(after, slot_job_id=None if job is None else job.id)
    expected = None if before.next_run_at is None else instant(before.next_run_at)
    assert (yield from query("schedules/write", schedule=schedule_document(after), expected_next_run_at=expected))
    if job is not None:
        yield from submit_keyed([job])


def take_out(job_id: JobId, reason: str) -> Transaction[None]:
    yield from query(
        "jobs/cancel", id=job_id, cause="cancel", actor="schedules", note=dumps({"reason": reason}), revision=None, kill=True
    )


def _remove(schedule_id: ScheduleId, entry: AuditEntry) -> Transaction[bool]:
    seen = yield from query("schedules/get", id=schedule_id)
    if seen:  # Grant before schedule; it may be another by now, and then that one is left alone.
        yield from query("grants/lock", id=str(seen[0]["grant_id"]))
    found = yield from query("schedules/lock", id=schedule_id)
    if not found:
        return False
    schedule = schedule_from(found[0])
    [clock] = yield from query("slots/now")
    due = (yield from due_now(schedule, rows.moment(clock["now"]))) if schedule.enabled else DueSlots()
    if not (yield from query("schedules/remove", id=schedule_id, actor=entry.actor)):
        return False
    waiting = {schedule.slot_job_id} - {slot.job_id for slot in (yield from _open_slots(schedule_id))}
    left = yield from query("slots/leave", schedule_id=schedule_id)
    yield from leave_out_due(schedule, due, "removed")
    jobs = {JobId(str(job_id)) for job_id in [*waiting, *(row["job_id"] for row in left)] if job_id is not None}
    for job_id in sorted(jobs):
        yield from take_out(job_id, "the schedule was removed")
    yield from record(entry, *(yield from _without_its_grant(schedule, entry)))
    return True


def _open_slots(schedule_id: ScheduleId) -> Transaction[list[Slot]]:
    return [slot_from(row) for row in (yield from query("slots/open", schedule_id=schedule_id))]


def _without_its_grant(schedule: Schedule, entry: AuditEntry) -> Transaction[list[AuditEntry]]:
    """A grant that has served this schedule alone is good for nothing more."""
    reason = f'schedule "{schedule.name}" was removed, and nothing else has used it'
    values = {"id": schedule.grant_id, "schedule_id": schedule.id, "actor": entry.actor, "reason": reason}
    if not (yield from query("grants/revoke_if_unused", **values)):
        return []
    return [AuditEntry("GRANT_REVOKED", "grant", schedule.grant_id, entry.actor, reason, tenant_id=schedule.tenant_id)]


def _mend(schedule_id: ScheduleId, zone_data: str, make_job: MakeJob) -> Transaction[bool]:
    """What was selected without a lock is looked at again under it."""
    found = yield from query("schedules/lock", id=schedule_id)
    schedule = schedule_from(found[0]) if found else None
    if schedule is None or not schedule.enabled:
        return False
    [clock] = yield from query("slots/now")
    now = rows.moment(clock["now"])
    at = schedule.next_run_at
    if at is not None and (yield from query("schedules/job_ended", id=schedule.slot_job_id)):
        yield from _go_on(schedule, at, now, make_job)
        return True
    if schedule.zone_data == zone_data:
        return False
    last = yield from last_slot(schedule_id)
    due = at is not None and at <= now
    after = replace(schedule, next_run_at=at if due else recomputed(schedule, last, now), zone_data=zone_data)
    yield from put(schedule, after, make_job)
    return True


def _go_on(schedule: Schedule, at: datetime, now: datetime, make_job: MakeJob) -> Transaction[None]:
    """The job of the slot has ended or is gone. One that is open gets another job; behind one that ended, the chain moves on."""
    found = yield from query("slots/get", id=slot_id(schedule.id, at))
    slot = slot_from(found[0]) if found else None
    if slot is None:
        job = make_job(schedule, at, "cron")
        yield from query(
            "schedules/write",
            schedule=schedule_document(replace(schedule, slot_job_id=job.id)),
            expected_next_run_at=instant(at),
        )
        yield from submit_keyed([job])
    elif slot.open:
        yield from give_another_job(schedule, slot, make_job)
    else:
        yield from move_on(schedule, at, slot.started_at or now, now, make_job)


def last_slot(schedule_id: ScheduleId) -> Transaction[Slot | None]:
    found = yield from query("slots/last_begun", schedule_id=schedule_id)
    return slot_from(found[0]) if found else None
