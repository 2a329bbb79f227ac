"""Schedules: each change in one transaction with the jobs that it puts into the queue or takes out, and its audit entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.adapters.storage.grants import add_grant
from cortex_plane.adapters.storage.jobs import NO_DIGITS
from cortex_plane.adapters.storage.keys import submit_keyed
from cortex_plane.adapters.storage.schedule_rows import (
    record,
    schedule_document,
    schedule_from,
    slot_from,
)
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.adapters.storage.slots import close, move_on
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.grants import NewGrant
from cortex_plane.core.instants import instant
from cortex_plane.core.jobs import JobId, TenantId
from cortex_plane.core.schedules import Schedule, ScheduleExists, ScheduleId, Slot, slot_id
from cortex_plane.core.slots import recomputed
from cortex_plane.ports.json_text import dumps
from cortex_plane.ports.schedules import Change, MakeJob


class SqlSchedules:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, schedule: Schedule, grant: NewGrant | None, make_job: MakeJob, entries: Sequence[AuditEntry]) -> None:
        await self._database.transact(lambda: _add(schedule, grant, make_job, entries))

    async def get(self, schedule_id: ScheduleId) -> Schedule | None:
        found = await self._database.read("schedules/get", id=schedule_id)
        return schedule_from(found[0]) if found else None

    async def find(self, tenant_id: TenantId, name: str) -> Schedule | None:
        found = await self._database.read("schedules/find", tenant_id=tenant_id, name=name)
        return schedule_from(found[0]) if found else None

    async def change(self, schedule_id: ScheduleId, change: Change, make_job: MakeJob, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _change(schedule_id, change, make_job, entry))

    async def remove(self, schedule_id: ScheduleId, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _remove(schedule_id, entry))

    async def take_turn(self, rest_seconds: float) -> bool:
        if not await self._database.read("schedules/any"):
            return False
        return bool(await self._database.write_once("schedules/take_turn", rest_seconds=rest_seconds))

    async def broken(self, zone_data: str, after: ScheduleId | None, limit: int) -> list[ScheduleId]:
        found = await self._database.read("schedules/broken", zone_data=zone_data, after=after or NO_DIGITS, limit=limit)
        return [ScheduleId(str(row["id"])) for row in found]

    async def mend(self, schedule_id: ScheduleId, zone_data: str, make_job: MakeJob) -> bool:
        return await self._database.transact(lambda: _mend(schedule_id, zone_data, make_job))

    async def list(self, tenant_id: TenantId | None = None) -> list[Schedule]:
        return [schedule_from(row) for row in await self._database.read("schedules/list", tenant_id=tenant_id)]

    async def page(self, tenant_id: TenantId, after: str, limit: int) -> Sequence[Schedule]:
        found = await self._database.read("schedules/page", tenant_id=tenant_id, after=after, limit=limit)
        return [schedule_from(row) for row in found]


def _add(schedule: Schedule, grant: NewGrant | None, make_job: MakeJob, entries: Sequence[AuditEntry]) -> Script[None]:
    if grant is not None:
        yield from add_grant(grant)
    if schedule.next_run_at is not None:
        job = make_job(schedule, schedule.next_run_at, "cron")
        schedule = replace(schedule, slot_job_id=job.id)
    if not (yield from ask("schedules/add", schedule=schedule_document(schedule))):
        raise ScheduleExists(schedule.name)
    if schedule.next_run_at is not None:
        yield from submit_keyed([job])
    yield from record(*entries)


def _change(schedule_id: ScheduleId, change: Change, make_job: MakeJob, entry: AuditEntry) -> Script[bool]:
    found = yield from ask("schedules/lock", id=schedule_id)
    if not found:
        return False
    before = schedule_from(found[0])
    last = yield from last_slot(schedule_id)
    [clock] = yield from ask("slots/now")
    after = change(before, last, rows.moment(clock["now"]))
    if after == before:
        return False
    yield from put(before, after, make_job)
    yield from record(entry)
    return True


def put(before: Schedule, after: Schedule, make_job: MakeJob) -> Script[None]:
    """Writes a schedule that somebody has changed. The queue follows: a slot that has not begun gives way to the new one."""
    anew = after.next_run_at != before.next_run_at or after.terms != before.terms
    if anew and before.next_run_at is not None and before.slot_job_id is not None:
        begun = yield from ask("slots/get", id=slot_id(before.id, before.next_run_at))
        if not begun:
            yield from take_out(before.slot_job_id, "the schedule was changed")
        elif after.next_run_at is not None and after.terms.overlap == "forbid" and slot_from(begun[0]).open:
            anew, after = False, replace(after, next_run_at=before.next_run_at)  # When that one ends, the chain goes on.
    job = make_job(after, after.next_run_at, "cron") if anew and after.next_run_at is not None else None
    if anew:
        after = replace(after, slot_job_id=None if job is None else job.id)
    expected = None if before.next_run_at is None else instant(before.next_run_at)
    assert (yield from ask("schedules/write", schedule=schedule_document(after), expected_next_run_at=expected))
    if job is not None:
        yield from submit_keyed([job])


def take_out(job_id: JobId, reason: str) -> Script[None]:
    yield from ask("jobs/cancel", id=job_id, cause="cancel", actor="schedules", note=dumps({"reason": reason}), revision=None)


def _remove(schedule_id: ScheduleId, entry: AuditEntry) -> Script[bool]:
    found = yield from ask("schedules/lock", id=schedule_id)
    if not found:
        return False
    schedule = schedule_from(found[0])
    open_slots = [slot_from(row) for row in (yield from ask("slots/open", schedule_id=schedule_id))]
    jobs = {job_id for job_id in [schedule.slot_job_id, *(slot.job_id for slot in open_slots)] if job_id is not None}
    yield from ask("schedules/remove", id=schedule_id)
    for job_id in sorted(jobs):
        yield from take_out(job_id, "the schedule was removed")
    yield from record(entry)
    return True


def _mend(schedule_id: ScheduleId, zone_data: str, make_job: MakeJob) -> Script[bool]:
    """What was selected without a lock is looked at again under it."""
    found = yield from ask("schedules/lock", id=schedule_id)
    schedule = schedule_from(found[0]) if found else None
    if schedule is None or not schedule.enabled:
        return False
    [clock] = yield from ask("slots/now")
    now = rows.moment(clock["now"])
    at = schedule.next_run_at
    if at is not None and (yield from ask("schedules/job_ended", id=schedule.slot_job_id)):
        yield from _go_on(schedule, at, now, make_job)
        return True
    if schedule.zone_data == zone_data:
        return False
    last = yield from last_slot(schedule_id)
    due = at is not None and at <= now
    after = replace(schedule, next_run_at=at if due else recomputed(schedule, last, now), zone_data=zone_data)
    yield from put(schedule, after, make_job)
    return True


def _go_on(schedule: Schedule, at: datetime, now: datetime, make_job: MakeJob) -> Script[None]:
    """The job of the slot has ended or is gone. A slot that has not begun gets another; one that has, ends, and the chain
    goes on behind it."""
    found = yield from ask("slots/get", id=slot_id(schedule.id, at))
    slot = slot_from(found[0]) if found else None
    if slot is None or slot.status == "pending":
        job = make_job(schedule, at, "cron")
        yield from ask(
            "schedules/write",
            schedule=schedule_document(replace(schedule, slot_job_id=job.id)),
            expected_next_run_at=instant(at),
        )
        yield from submit_keyed([job])
    elif slot.open:
        yield from close(schedule, slot, "error", "slot_lost", LOST, now, make_job)
    else:
        yield from move_on(schedule, at, slot.started_at or now, now, make_job)


def last_slot(schedule_id: ScheduleId) -> Script[Slot | None]:
    found = yield from ask("slots/last_begun", schedule_id=schedule_id)
    return slot_from(found[0]) if found else None


LOST = "The job that looked after this slot ended before its run did. To see why: cortex jobs list --agent cortex.slot"
