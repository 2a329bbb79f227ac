"""Stores schedules that are due at once, as the product stores each of them: its grant, its row, and the job of its next slot."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.ticks.copies import CRON
from cortex_plane import Plane
from cortex_plane.grants.model import GrantId, NewGrant
from cortex_plane.grants.service import billing_account
from cortex_plane.grants.store import add_grant
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from cortex_plane.jobs.store import submit_keyed
from cortex_plane.schedules.model import Schedule, ScheduleId, ScheduleTerms
from cortex_plane.schedules.rows import MakeJob, schedule_document
from cortex_plane.schedules.slots import standing_at
from cortex_plane.schedules.terms import slot_jobs
from cortex_plane.storage.transactions import Transaction, query

TERMS = ScheduleTerms("agent:noop", CRON)


async def add_due(plane: Plane, due: int) -> None:
    account = await billing_account(plane.store, new_id, DEFAULT_TENANT_ID, "default")
    make_job = await slot_jobs(plane.store, plane.directory, new_id)
    database: Any = plane.store.database.session
    at = datetime.now(UTC) - timedelta(seconds=5)
    batch = [_schedule(at) for _ in range(due)]
    await database.transact(lambda: _store(batch, account.id, make_job))


def _schedule(at: datetime) -> Schedule:
    schedule_id = new_id()
    made = Schedule(ScheduleId(schedule_id), DEFAULT_TENANT_ID, schedule_id, GrantId(new_id()), TERMS)
    return standing_at(made, at)


def _store(batch: list[Schedule], account_id: Any, make_job: MakeJob) -> Transaction[None]:
    jobs = []
    for schedule in batch:
        assert schedule.next_run_at is not None
        yield from add_grant(NewGrant(schedule.grant_id, schedule.tenant_id, account_id, ("agent:run:noop",)))
        job = make_job(schedule, schedule.next_run_at, "cron")
        yield from query("schedules/add", schedule=schedule_document(replace(schedule, slot_job_id=job.id)))
        jobs.append(job)
    yield from submit_keyed(jobs)
