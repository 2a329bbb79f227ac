"""Stores schedules by the thousand, as the product stores each of them: its grant, its row, and the job of its next slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cortex_plane import Context, Plane
from cortex_plane.adapters.storage.grants import add_grant
from cortex_plane.adapters.storage.keys import submit_keyed
from cortex_plane.adapters.storage.schedule_rows import schedule_document
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.adapters.system import new_id
from cortex_plane.core.grants import GrantId, NewGrant
from cortex_plane.core.jobs import DEFAULT_TENANT_ID
from cortex_plane.core.schedules import Schedule, ScheduleId, ScheduleTerms
from cortex_plane.core.slots import standing_at
from cortex_plane.operations.add_grant import billing_account
from cortex_plane.operations.slot_jobs import slot_jobs
from cortex_plane.ports.schedules import MakeJob

AT_ONCE = 1_000
TERMS = ScheduleTerms("agent:noop", "0 0 1 1 *")


async def fill(plane: Plane, schedules: int, due: int, advance: Callable[[int], object]) -> None:
    """So many schedules, of which so many are due. `advance` is told how many were stored."""

    @plane.agent("noop")
    async def noop(ctx: Context) -> None: ...

    opened = await plane._open_here()
    account = await billing_account(opened.store, new_id, DEFAULT_TENANT_ID, "default")
    make_job = await slot_jobs(opened.store, opened.directory, new_id)
    database: Any = opened.store._database  # type: ignore[attr-defined]
    for first in range(0, schedules, AT_ONCE):
        now = datetime.now(UTC)
        batch = [  # Those that are due come last: storing the others takes longer than a slot may be late.
            _schedule(now + (timedelta(days=300) if number < schedules - due else timedelta(seconds=-5)))
            for number in range(first, min(first + AT_ONCE, schedules))
        ]
        await database.transact(lambda batch=batch: _store(batch, account.id, make_job))
        advance(len(batch))


def _schedule(at: datetime) -> Schedule:
    schedule_id = new_id()
    made = Schedule(ScheduleId(schedule_id), DEFAULT_TENANT_ID, schedule_id, GrantId(new_id()), TERMS)
    return standing_at(made, at)


def _store(batch: list[Schedule], account_id: Any, make_job: MakeJob) -> Script[None]:
    jobs = []
    for schedule in batch:
        assert schedule.next_run_at is not None
        yield from add_grant(NewGrant(schedule.grant_id, schedule.tenant_id, account_id, ("agent:run:noop",)))
        job = make_job(schedule, schedule.next_run_at, "cron")
        yield from ask("schedules/add", schedule=schedule_document(replace(schedule, slot_job_id=job.id)))
        jobs.append(job)
    yield from submit_keyed(jobs)
