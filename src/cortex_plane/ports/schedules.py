"""Schedules and their slots, as the database keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.grants import NewGrant
from cortex_plane.core.jobs import JobId, NewJob, TenantId
from cortex_plane.core.schedules import Schedule, ScheduleId, Slot, SlotId, SlotOrigin, SlotStatus
from cortex_plane.core.slots import Begun

MakeJob = Callable[[Schedule, datetime, SlotOrigin], NewJob]
"""The job of a slot: of a schedule, for an instant."""
Change = Callable[[Schedule, Slot | None, datetime], Schedule]
"""A pure change of a schedule, which is given its last slot and the time."""


class Schedules(Protocol):
    async def add(self, schedule: Schedule, grant: NewGrant | None, make_job: MakeJob, entries: Sequence[AuditEntry]) -> None:
        """The grant, the schedule and the job of its first slot, or nothing. Raises ScheduleExists."""

    async def get(self, schedule_id: ScheduleId) -> Schedule | None: ...

    async def find(self, tenant_id: TenantId, name: str) -> Schedule | None: ...

    async def change(
        self,
        schedule_id: ScheduleId,
        change: Callable[[Schedule, Slot | None, datetime], Schedule],
        make_job: MakeJob,
        entry: AuditEntry,
    ) -> bool:
        """Applies a pure change, which is given the last slot and the time. A slot that the chain no longer stands at is taken
        out of the queue, a new one put in. False when nothing changed; then nothing is recorded."""

    async def remove(self, schedule_id: ScheduleId, entry: AuditEntry) -> bool:
        """With its slots. What waits is cancelled, and so is what looks after a run; the run itself goes on."""

    async def take_turn(self, rest_seconds: float) -> bool:
        """Of many who would look through the schedules, one may. False also when there are none."""

    async def broken(self, zone_data: str, after: ScheduleId | None, limit: int) -> list[ScheduleId]:
        """Those after one of them, by id, whose chain has no job that goes on, or whose slot was reckoned by other time-zone
        data."""

    async def mend(self, schedule_id: ScheduleId, zone_data: str, make_job: MakeJob) -> bool:
        """Makes the chain go on. False when it was whole."""

    async def list(self, tenant_id: TenantId | None = None) -> list[Schedule]:
        """By name."""


class Slots(Protocol):
    async def begin(self, schedule_id: ScheduleId, at: datetime, origin: SlotOrigin, job_id: JobId, make_job: MakeJob) -> Begun:
        """Begins a slot once, or leaves it out; where that moves the chain on, the next job is submitted with it."""

    async def note_run(self, slot_id: SlotId, run_id: JobId, trace_id: str) -> bool:
        """What the slot has started. False when it has ended meanwhile."""

    async def end(
        self, slot_id: SlotId, status: SlotStatus, error_code: str | None, error_message: str | None, make_job: MakeJob
    ) -> bool:
        """Ends it once, and moves the chain on where that waited. False when it had ended."""

    async def ask_for(
        self, schedule_id: ScheduleId, moments: Sequence[datetime], origin: SlotOrigin, make_job: MakeJob
    ) -> list[Slot]:
        """Slots that somebody wants, with their jobs; those that have run, run or wait already are passed over."""

    async def stuck(self, after: SlotId | None, limit: int) -> list[SlotId]:
        """Those after one of them, by id, that have not ended though the job that looks after them has."""

    async def get(self, slot_id: SlotId) -> Slot | None: ...

    async def list(self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 50) -> list[Slot]:
        """Newest first."""
