"""Agents of many steps: what is recorded of them is in their row and in segments, and all that reads it reads both."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import structlog

from cortex_plane import Backoff, Context, JobFailed, JobStatus, RetryPolicy
from cortex_plane.durable.load import checked_blob
from cortex_plane.durable.segments import SEAL_ABOVE_BYTES
from cortex_plane.jobs.events import StepRecorded
from cortex_plane.jobs.model import JobId
from cortex_plane.testing import TestPlane
from cortex_plane.worker.services import StoreClock
from tests.contract.schedule_scene import settle, slots
from tests.end_to_end.inspection import query

pytestmark = pytest.mark.anyio

STEPS = 60


async def nothing() -> None:
    pass


async def walk(plane: TestPlane, crash_after: str | None = None) -> Any:
    """A job long enough to be sealed several times, dead after one of its steps if wanted."""
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


async def in_row(url: str, job_id: str) -> Any:
    ((document,),) = await query(url, f"select checkpoint from cortex.job where id = '{job_id}'")
    return json.loads(document) if isinstance(document, str) else document


async def in_view(url: str, job_id: str) -> Any:
    ((document,),) = await query(url, f"select checkpoint from cortex.job_checkpoint where job_id = '{job_id}'")
    return json.loads(document) if isinstance(document, str) else document


def without_crc(blob: Any) -> Any:
    return {name: value for name, value in blob.items() if name != "crc32"}


async def test_the_row_of_a_long_agent_stays_small_and_says_where_it_is(plane: TestPlane, database_url: str) -> None:
    job, done = await walk(plane, "step 45")

    document = await in_row(database_url, job.id)

    assert len(json.dumps(document)) <= SEAL_ABOVE_BYTES + 500
    assert (document["step_index"], document["step_id"]) == (46, "step 45")
    engine = document["memory_context"]["working_data"]["$cortex"]
    assert engine["encoding"] == "json"
    assert engine["sealed"]["steps"] + len(engine["steps"]) == 46
    assert engine["sealed"]["logged"] + len(document["execution_log"]) == 47
    ((segments,),) = await query(database_url, "select max(seq) from cortex.job_blob")
    assert engine["sealed"]["last"] == segments > 1
    blob = await plane.checkpoints.get(job.id)
    assert [step["step_index"] for step in blob["execution_log"]] == list(range(47))
    assert [step["step_id"] for step in blob["execution_log"][1:]] == done


async def test_the_view_shows_the_whole_record(plane: TestPlane, database_url: str) -> None:
    """Steps, tools, a failure that was lived with, and one that was tried again; and a job that was never sealed."""
    tries = []

    async def fail_once() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no")
        return "well"

    @plane.agent("mixed", max_retries=1)
    async def mixed(ctx: Context) -> None:
        try:
            await ctx.step("try", fail_once)
        except Exception:
            for number in range(30):
                await ctx.step(f"step {number}", nothing)
            raise
        for number in range(30):
            await ctx.tool(f"tool {number}", nothing)

    job = await mixed.submit()
    await plane.work()
    await plane.clock.advance(hours=1)
    await plane.work()
    assert await job.status() is JobStatus.COMPLETED
    short = await plane.agent("short")(lone).submit()
    await plane.work()

    blob, shown = await plane.checkpoints.get(job.id), await in_view(database_url, job.id)
    assert len(blob["active_tools"]) == 30
    assert len(blob["memory_context"]["working_data"]["$cortex"]["steps"]) == 61
    assert without_crc(shown) == without_crc(blob)
    assert await in_view(database_url, short.id) == await in_row(database_url, short.id)


async def lone(ctx: Context) -> None:
    await ctx.step("one", nothing)


@pytest.mark.parametrize("number", [0, 10, 11, 12, 13, 14, 25, 26, 27, 28, STEPS - 1])
async def test_a_job_goes_on_wherever_its_entries_are(plane: TestPlane, number: int) -> None:
    job, done = await walk(plane, f"step {number}")
    assert len(done) == number + 1

    await plane.work()

    assert await job.result(timeout=5) == STEPS
    assert done == [f"step {number}" for number in range(STEPS)]
    assert [finding.problem async for finding in plane.checkpoints.verify()] == []
    assert (await plane.checkpoints.get(job.id))["step_index"] == STEPS


@pytest.mark.parametrize("number", [3, 14, 40, 45])
async def test_a_replay_and_a_fork_see_everything(plane: TestPlane, database_url: str, number: int) -> None:
    job, done = await walk(plane, "step 45")
    replay = await plane.checkpoints.replay(job.id)
    assert (replay.verdict, replay.answered) == ("ongoing", 46)
    fork = await plane.checkpoints.fork(job.id, f"step {number}")
    assert len(json.dumps(await in_row(database_url, fork.id))) <= 2 * SEAL_ABOVE_BYTES
    assert (await plane.checkpoints.get(fork.id))["step_index"] == number
    assert [finding.problem async for finding in plane.checkpoints.verify()] == [None, None]
    await plane.work()

    assert await fork.result(timeout=5) > 0
    assert all(done.count(f"step {before}") == 1 for before in range(number))
    assert all(done.count(f"step {after}") == 2 for after in range(number, STEPS))


async def test_a_failed_job_is_resumed_with_its_segments(plane: TestPlane, database_url: str) -> None:
    done: list[int] = []
    broken = [True]

    @plane.agent("walker", max_retries=0)
    async def walker(ctx: Context) -> int:
        for number in range(STEPS):
            await ctx.step("step", work, number)
        return len(done)

    async def work(number: int) -> int:
        if number == 45 and broken:
            raise ValueError("broken")
        done.append(number)
        return number

    job = await walker.submit()
    await plane.work()
    document = await in_row(database_url, job.id)
    assert (document["status"], document["step_index"]) == ("failed", 46), "the failed step is in the log"
    assert document["execution_log"][-1]["result_summary"] == "failed"
    broken.clear()
    resumed = await plane.jobs.resume(job.id)
    await plane.work()

    assert await resumed.result(timeout=5) == STEPS
    assert done == list(range(STEPS))
    assert (await in_row(database_url, resumed.id))["status"] == "completed"
    assert (await in_view(database_url, job.id))["status"] == "failed"


DAMAGES = {
    "segment_missing": "delete from cortex.job_blob where seq = 2",
    "segment_changed": "update cortex.job_blob set content = replace(content, 'step', 'stop') where seq = 2",
}


@pytest.mark.parametrize("kind", ["segment_missing", "segment_changed"])
async def test_segments_that_were_tampered_with_fail_the_job_by_name(plane: TestPlane, database_url: str, kind: str) -> None:
    job, done = await walk(plane, "step 45")
    for trigger in ("blob_no_update", "blob_no_delete"):
        on = "" if database_url.startswith("sqlite") else " on cortex.job_blob"
        await query(database_url, f"drop trigger cortex.{trigger}" if not on else f"drop trigger {trigger}{on}")
    await query(database_url, DAMAGES[kind])
    before = await in_row(database_url, job.id)
    [finding] = [finding async for finding in plane.checkpoints.verify()]
    assert finding.kind == kind

    await plane.work()

    with pytest.raises(JobFailed, match="Checkpoint corruption detected: segment 2 "):
        await job.result(timeout=5)
    assert len(done) == 46
    assert (await plane.jobs.history(job.id))[-1].new_status is JobStatus.FAILED
    assert await in_row(database_url, job.id) == before


@pytest.mark.parametrize("steps", range(8, 16))
async def test_the_last_words_of_a_job_say_that_it_is_completed(plane: TestPlane, database_url: str, steps: int) -> None:
    @plane.agent("writer")
    async def writer(ctx: Context) -> None:
        for number in range(steps):
            await ctx.step(f"step {number}", nothing)
        ctx.memory.data["essay"] = "x" * 1200
        ctx.now()  # Noted with the next checkpoint.

    job = await writer.submit()
    await plane.work()

    assert (await job.status(), (await in_row(database_url, job.id))["status"]) == (JobStatus.COMPLETED, "completed")
    assert (await plane.checkpoints.get(job.id))["status"] == "completed"


async def test_everything_that_reads_checkpoints_reads_all_of_it(plane: TestPlane) -> None:
    job, _ = await walk(plane, "step 45")

    inside = await plane.jobs.details(await plane.jobs.get(job.id))
    assert [step["step_id"] for step in inside.steps] == [f"step {number}" for number in range(46)]
    stream = plane.jobs.follow(JobId(job.id))
    told = [(await anext(stream)).news for _ in range(48)]
    assert [one.name for one in told if isinstance(one, StepRecorded)] == [f"step {number}" for number in range(46)]


async def test_segments_go_with_their_job(plane: TestPlane, database_url: str) -> None:
    job, _ = await walk(plane)
    ((before,),) = await query(database_url, "select count(*) from cortex.job_blob")
    await query(database_url, f"delete from cortex.job where id = '{job.id}'")

    ((after,),) = await query(database_url, "select count(*) from cortex.job_blob")
    assert before > 1
    assert after == 0


async def test_tokens_are_billed_once_wherever_entries_are_sealed(plane: TestPlane) -> None:
    """Every step of a long agent uses some, and a crash loses and repeats none."""
    await plane.billing.add("research")

    @plane.agent("report")
    async def report(ctx: Context) -> None:
        for number in range(40):
            await ctx.step(f"step {number}", use, ctx)

    async def use(ctx: Context) -> None:
        ctx.usage(prompt_tokens=10, completion_tokens=2, cents=1)

    await plane.schedules.add("nightly", "agent:report", "0 * * * *", billing_account="research")
    await plane.clock.advance(hours=1)
    plane.crash_after("step 35")
    await settle(plane)
    await settle(plane)

    assert plane.crashes == 1
    [slot] = await slots(plane, "nightly")
    blob = await plane.checkpoints.get(slot.run_id or "")
    assert blob["memory_context"]["token_usage"] == {"prompt_tokens": 400, "completion_tokens": 80}
    used = Counter[str]()
    for one in await plane.billing.receipts(slot.run_id or ""):
        used[one.unit] += one.quantity
    assert used == {"cents": 40, "prompt_tokens": 400, "completion_tokens": 80}


# -- many ------------------------------------------------------------------------------------------


async def test_thousands_of_steps_cost_their_row_nothing(plane: TestPlane, database_url: str) -> None:
    """More than a document of 1 MiB would hold. Dead in the middle, it goes on from there."""
    steps, crash_at = 5_000, 3_000
    done: list[int] = []

    @plane.agent("long")
    async def long(ctx: Context) -> int:
        for number in range(steps):
            await ctx.step("step", work, number)
            if number == crash_at and len(done) == crash_at + 1:
                plane.crash_after("step")
        return len(done)

    async def work(number: int) -> int:
        done.append(number)
        return number

    job = await long.submit()
    await plane.work()
    await plane.work()

    assert await job.result(timeout=30) == steps
    assert done == list(range(steps))
    assert len(json.dumps(await in_row(database_url, job.id))) < SEAL_ABOVE_BYTES + 500
    stored = await plane.store.checkpoints.load(job.id)
    assert stored is not None
    assert checked_blob(stored)["step_index"] == steps


async def test_a_long_replay_lets_other_work_go_on(plane: TestPlane) -> None:
    """Recorded calls are answered without waiting for anything."""
    steps, turns = 500, Counter[str]()
    seen: list[int] = []

    @plane.agent("long")
    async def long(ctx: Context) -> None:
        for number in range(steps):
            await ctx.step("step", nothing)
            if ctx.attempt == 2 and number in (0, steps - 1):
                seen.append(turns["loop"])

    async def turning() -> None:
        while True:
            turns["loop"] += 1
            await asyncio.sleep(0)

    job = await long.submit()
    plane.crash_after("step", steps)
    await plane.work()
    other = asyncio.ensure_future(turning())
    await plane.work()
    other.cancel()

    assert await job.status() is JobStatus.COMPLETED
    assert seen[1] - seen[0] >= 4


async def test_the_database_is_asked_about_the_last_sleep_only(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []
    workers = plane.store.workers
    now = workers.now
    sleeps = 20

    @plane.agent("poller")
    async def poller(ctx: Context) -> None:
        for _ in range(sleeps):
            await ctx.sleep(60)

    async def counted() -> Any:
        asked.append(None)
        return await now()

    async def no_measurement(self: StoreClock) -> None:
        """The worker compares clocks once in a while; only what the handler asks is counted here."""

    job = await poller.submit()
    monkeypatch.setattr(StoreClock, "measure", no_measurement)
    monkeypatch.setattr(workers, "now", counted)
    for _ in range(sleeps):
        await plane.work()
        await plane.clock.advance(seconds=61)
    await plane.work()

    assert await job.status() is JobStatus.COMPLETED
    assert sleeps <= len(asked) <= 3 * (sleeps + 1)  # Its worker, the sleep that ended, the next: not all sleeps before them.


async def test_a_run_holds_no_large_results_that_it_will_not_ask_for_again(plane: TestPlane) -> None:
    """A step that is tried again asks again for what was recorded inside of it."""
    held: list[int] = []
    fetched: list[int] = []

    async def fetch(number: int) -> str:
        fetched.append(number)
        return f"{number}" * 2_000

    @plane.agent("reader")
    async def reader(ctx: Context) -> int:
        async def page() -> int:
            text = await ctx.step("fetch", fetch, 7)
            if len(fetched) == 21 and not held:
                held.append(_held(ctx))
                raise ValueError("again")
            return len(text)

        for number in range(10):
            await ctx.step("read", fetch, number)
            await ctx.tool("look", fetch, number)
        return await ctx.step("page", retry=RetryPolicy(max_retries=1, backoff=Backoff(base_seconds=0.001)))(page)

    def _held(ctx: Context) -> int:
        assert ctx.recorder is not None
        return sum(len(text) for text in ctx.recorder.journal.blobs.values() if text is not None)

    job = await reader.submit()
    await plane.work()

    assert await job.result(timeout=5) == 2_000
    assert len(fetched) == 21
    assert held == [2_002]


async def test_a_parent_calls_many_children_one_after_the_other(plane: TestPlane) -> None:
    children = 100

    @plane.agent("child")
    async def child(ctx: Context, number: int) -> int:
        return number

    @plane.agent("parent")
    async def parent(ctx: Context) -> int:
        return sum([await ctx.call(child, number=number) for number in range(children)])

    job = await parent.submit()
    for _ in range(children + 1):
        await plane.work()
        if (await job.status()).is_terminal:
            break

    assert await job.result(timeout=5) == sum(range(children))


async def test_a_large_checkpoint_is_warned_of_once_in_a_run(plane: TestPlane) -> None:
    plane.settings = replace(plane.settings, checkpoint_warn_bytes=2_000)

    @plane.agent("hoarder")
    async def hoarder(ctx: Context) -> None:
        ctx.memory.add_fact("x" * 3_000)
        for _ in range(20):
            await ctx.step("step", nothing)

    job = await hoarder.submit()
    with structlog.testing.capture_logs() as logged:
        await plane.work()

    assert await job.status() is JobStatus.COMPLETED
    assert [line["event"] for line in logged].count("checkpoint_is_large") == 1
