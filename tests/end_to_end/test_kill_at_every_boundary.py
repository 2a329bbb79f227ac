"""A worker may be killed at any instant: every job still ends once, and the database never tells two stories.

The instants are the boundaries of its writes: before a statement, inside its transaction, after the commit and before
the answer, after the answer. Between two boundaries the database cannot tell where the worker died.
"""

from __future__ import annotations

import pytest

from cortex_plane import Plane, Submission
from tests.end_to_end.fleet import Fleet
from tests.end_to_end.inspection import broken_rules, query

pytestmark = pytest.mark.anyio

MOMENTS = ["before", "uncommitted", "committed", "answered"]
BOUNDARIES = [
    ("workers/register", "committed", 1),
    *(("queue/claim", moment, 1) for moment in MOMENTS),
    ("queue/claim", "committed", 2),
    ("handler", "started", 1),
    ("handler", "started", 4),
    *(("runs/finish", moment, count) for moment in MOMENTS for count in (1, 2)),
]
RESCUES = [
    ("workers/give_up", "uncommitted", 1),  # Its process is gone: nobody waits for its lease.
    ("workers/give_up", "committed", 1),
    ("runs/finish", "uncommitted", 1),
    ("runs/finish", "committed", 1),
    ("workers/close_lost", "uncommitted", 1),
]


async def submit_a_mixture(plane: Plane) -> None:
    await plane.submit_many([Submission(agent) for agent in ("steady", "flaky", "once", "steady", "once", "flaky")])


async def assert_every_job_ended_once(fleet: Fleet) -> None:
    assert await broken_rules(fleet.url) == {}

    jobs = {str(row[0]): row[1:] for row in await query(fleet.url, "select id, job_type, status, retry_of from cortex.job")}
    starts = fleet.starts_of_jobs()
    assert len([job for job, (_, _, retry_of) in jobs.items() if retry_of is None]) == 6
    for job_id, (job_type, status, _) in jobs.items():
        runs = await query(fleet.url, f"select status, error from cortex.job_run where job_id = '{job_id}' order by attempt")
        if job_type == "once":
            # Spec 5.3: such a job is never executed twice. Its successor does the work instead.
            assert starts[job_id] <= 1
            assert runs in ([("COMPLETED", None)], [("FAILED", "Scheduler crash recovery")])
        else:
            assert status == "COMPLETED"
            assert runs[-1] == ("COMPLETED", None)
            assert set(runs[:-1]) <= {("FAILED", "worker lost"), ("FAILED", "the first time")}
            assert [error for _, error in runs].count("the first time") <= 1
        assert starts[job_id] <= len(runs)  # A run may be lost before its handler starts, but none starts without a run.
    ends = await query(
        fleet.url,
        "select j.status from cortex.job j where not exists (select 1 from cortex.job n where n.retry_of = j.id)",
    )
    assert ends == [("COMPLETED",)] * 6


@pytest.mark.parametrize(("statement", "moment", "count"), BOUNDARIES)
async def test_a_worker_killed_there_loses_nothing_and_doubles_nothing(
    fleet: Fleet, statement: str, moment: str, count: int
) -> None:
    async with fleet.plane() as plane:
        await submit_a_mixture(plane)
        await fleet.dies(fleet.start(die=[statement, moment, count]))
        assert await broken_rules(fleet.url) == {}

        await fleet.finish_everything(plane)

    await assert_every_job_ended_once(fleet)


@pytest.mark.parametrize(("statement", "moment", "count"), RESCUES)
async def test_a_rescuer_killed_there_is_followed_by_another(fleet: Fleet, statement: str, moment: str, count: int) -> None:
    async with fleet.plane() as plane:
        await submit_a_mixture(plane)
        await fleet.dies(fleet.start(die=["queue/claim", "answered", 1], concurrency=6))
        await fleet.dies(fleet.start(die=[statement, moment, count], concurrency=6))
        assert await broken_rules(fleet.url) == {}

        await fleet.finish_everything(plane)

    await assert_every_job_ended_once(fleet)
