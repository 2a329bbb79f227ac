"""Agents of many steps: what is recorded of them is in two parts of their row, and everything that reads it reads both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cortex_plane import Context, JobFailed, JobStatus
from cortex_plane.core.events import StepRecorded
from cortex_plane.core.jobs import JobId
from cortex_plane.runtime.durable import additions
from cortex_plane.testing import TestPlane
from tests.end_to_end.inspection import query

pytestmark = pytest.mark.anyio

STEPS = 60


@pytest.fixture
def at_once() -> Iterator[None]:
    """However short a checkpoint is, it is added to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additions, "WHOLE_BELOW_BYTES", 0)
        yield


async def nothing() -> None:
    pass


async def walk(plane: TestPlane, crash_after: str | None = None) -> Any:
    """A job long enough to be added to, dead after one of its steps if wanted."""
    done: list[str] = []
    plane.agents.clear()

    @plane.agent("walker")
    async def walker(ctx: Context) -> int:
        for number in range(STEPS):
            name = f"step {number}"

            async def work(name: str = name) -> str:
                done.append(name)
                return name

            await ctx.step(name, work)
        return len(done)

    job = await walker.submit()
    if crash_after is not None:
        plane.crash_after(crash_after)
    await plane.work()
    return job, done


async def columns(url: str, job_id: str) -> tuple[Any, Any]:
    ((whole, added),) = await query(url, f"select checkpoint, checkpoint_added from cortex.job where id = '{job_id}'")
    return tuple(json.loads(part) if isinstance(part, str) else part for part in (whole, added))


async def test_a_long_checkpoint_is_not_written_anew_at_every_step(plane: TestPlane, database_url: str) -> None:
    job, done = await walk(plane, "step 45")

    whole, added = await columns(database_url, job.id)

    assert 10 < whole["step_index"] < 46 == added["step_index"]
    assert [step["step_index"] for step in added["execution_log"]] == list(range(added["log_from"], 47))
    blob = await plane.checkpoints.get(job.id)
    assert [step["step_index"] for step in blob["execution_log"]] == list(range(47))
    assert [step["step_id"] for step in blob["execution_log"][1:]] == done


@pytest.mark.parametrize("number", [0, 17, 18, 19, 20, 29, 30, 31, 32, STEPS - 1])
async def test_a_job_goes_on_from_both_parts(plane: TestPlane, number: int) -> None:
    job, done = await walk(plane, f"step {number}")
    assert len(done) == number + 1

    await plane.work()

    assert await job.result(timeout=5) == STEPS
    assert done == [f"step {number}" for number in range(STEPS)]
    assert [finding.problem async for finding in plane.checkpoints.verify()] == []
    assert (await plane.checkpoints.get(job.id))["step_index"] == STEPS


async def test_a_replay_and_a_fork_see_both_parts(plane: TestPlane) -> None:
    job, done = await walk(plane, "step 45")
    replay = await plane.checkpoints.replay(job.id)
    assert (replay.verdict, replay.answered) == ("ongoing", 46)
    fork = await plane.checkpoints.fork(job.id, "step 40")
    await plane.work()

    assert await fork.result(timeout=5) > 0
    assert done.count("step 39") == 1
    assert done.count("step 40") == 2


@pytest.mark.parametrize(
    "damage",
    [
        "checkpoint_added = null",
        """checkpoint_added = '{"step_index":1}'""",
        "checkpoint = checkpoint_added",
        "checkpoint_added = checkpoint",
    ],
)
async def test_parts_that_do_not_belong_together_fail_the_job_and_are_kept(
    plane: TestPlane, database_url: str, damage: str
) -> None:
    job, done = await walk(plane, "step 45")
    await query(database_url, f"update cortex.job set {damage} where id = '{job.id}'")
    before = await columns(database_url, job.id)
    [finding] = [finding async for finding in plane.checkpoints.verify()]
    assert finding.problem is not None

    await plane.work()

    with pytest.raises(JobFailed, match="Checkpoint corruption detected: "):
        await job.result(timeout=5)
    assert len(done) == 46
    assert (await plane.history(job.id))[-1].new_status is JobStatus.FAILED
    assert await columns(database_url, job.id) == before


async def test_a_job_that_has_ended_well_has_its_whole_record_in_one(plane: TestPlane, database_url: str, at_once: None) -> None:
    """While it sleeps it may have two parts, however short they are; the last words are written whole."""

    @plane.agent("sleeper")
    async def sleeper(ctx: Context) -> str:
        for number in range(3):
            await ctx.step(f"step {number}", nothing)
        await ctx.sleep(60)
        return "done"

    job = await sleeper.submit()
    await plane.work()
    whole, added = await columns(database_url, job.id)
    assert (whole["step_index"], added["step_index"]) == (1, 3)

    await plane.clock.advance(seconds=61)
    await plane.work()

    assert await job.result(timeout=5) == "done"
    whole, added = await columns(database_url, job.id)
    assert (whole["step_index"], whole["status"], added) == (3, "completed", None)


@pytest.mark.parametrize("steps", range(20, 32))
async def test_so_has_one_whose_last_words_bring_a_large_result(plane: TestPlane, database_url: str, steps: int) -> None:
    @plane.agent("writer")
    async def writer(ctx: Context) -> None:
        for number in range(steps):
            await ctx.step(f"step {number}", nothing)
        ctx.memory.data["essay"] = "x" * 1200
        ctx.now()  # Noted with the next checkpoint.

    job = await writer.submit()
    await plane.work()

    whole, added = await columns(database_url, job.id)
    assert (await job.status(), whole["status"], added) == (JobStatus.COMPLETED, "completed", None)
    assert (await plane.checkpoints.get(job.id))["status"] == "completed"


async def test_everything_that_reads_checkpoints_reads_both_parts(plane: TestPlane) -> None:
    job, _ = await walk(plane, "step 45")

    inside = await plane.inside(await plane.get(job.id))
    assert [step["step_id"] for step in inside.steps] == [f"step {number}" for number in range(46)]
    stream = plane.follow(JobId(job.id))
    told = [(await anext(stream)).news for _ in range(48)]
    assert [one.name for one in told if isinstance(one, StepRecorded)] == [f"step {number}" for number in range(46)]
