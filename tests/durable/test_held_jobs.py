"""Code that does not fit the record of a job: the job is held, not destroyed, and goes on with code that fits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import asyncpg
import pytest

from cortex_plane import Context, JobFailed, JobStatus, Plane
from cortex_plane.audit.model import AuditEntry
from cortex_plane.durable.resume import MOST_HANDED_BACK
from cortex_plane.durable.scopes import is_beyond
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.states import RunStatus, WaitReason
from cortex_plane.testing import TestPlane
from cortex_plane.worker import execution
from tests.durable.test_versions import Calls
from tests.runtime.helpers import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

Agent = Any


class Shop:
    """An agent that pays and delivers, in three versions."""

    def __init__(self, plane: TestPlane) -> None:
        self.plane, self.effects = plane, Calls()

    def deploy(self, handler: Callable[..., Any], **options: Any) -> Agent:
        self.plane.agents.clear()
        return self.plane.agent("shop", **options)(handler)

    def old(self, **options: Any) -> Agent:
        async def shop(ctx: Context) -> str:
            await ctx.tool("pay", self.effects.step("pay"))
            await ctx.sleep(60)
            await ctx.tool("deliver", self.effects.step("deliver"))
            return "old"

        return self.deploy(shop, **options)

    def new(self, **options: Any) -> Agent:
        """With a tool before one that may be recorded."""

        async def shop(ctx: Context) -> str:
            await ctx.tool("scan", self.effects.step("scan"))
            await ctx.tool("pay", self.effects.step("pay"))
            await ctx.sleep(60)
            await ctx.tool("deliver", self.effects.step("deliver"))
            return "new"

        return self.deploy(shop, **options)

    def patched(self, **options: Any) -> Agent:
        async def shop(ctx: Context) -> str:
            if ctx.patched("add-scan"):
                await ctx.tool("scan", self.effects.step("scan"))
            await ctx.tool("pay", self.effects.step("pay"))
            await ctx.sleep(60)
            await ctx.tool("deliver", self.effects.step("deliver"))
            return "patched"

        return self.deploy(shop, **options)

    async def begun(self, count: int = 1, **options: Any) -> list[JobHandle[str]]:
        """Jobs that have paid, and sleep."""
        agent = self.old(**options)
        jobs = [await agent.submit() for _ in range(count)]
        await self.plane.work()
        assert self.effects == ["pay"] * count
        await self.plane.clock.advance(seconds=61)
        return jobs

    async def states(self, jobs: Iterable[JobHandle[Any]]) -> set[tuple[JobStatus, WaitReason | None, int]]:
        found = [await self.plane.jobs.get(job.id) for job in jobs]
        return {(job.status, job.wait_reason, job.retry_count) for job in found}


RELEASED = AuditEntry("JOB_RELEASED", "job", "a job")
HELD = (JobStatus.RETRY, WaitReason.CODE_CHANGED, 0)


@pytest.fixture
def shop(plane: TestPlane) -> Shop:
    return Shop(plane)


async def test_jobs_in_flight_are_held_by_a_deployment_that_does_not_fit_and_go_on_after_a_rollback(
    plane: TestPlane, shop: Shop
) -> None:
    jobs = await shop.begun(50)

    shop.new()
    await plane.work()
    assert await shop.states(jobs) == {HELD}
    shop.old()
    await plane.work()

    assert {await job.result(timeout=5) for job in jobs} == {"old"}
    assert sorted(shop.effects) == ["deliver"] * 50 + ["pay"] * 50


async def test_jobs_that_are_held_go_on_with_the_change_under_patched(plane: TestPlane, shop: Shop) -> None:
    jobs = await shop.begun(50)
    shop.new()
    await plane.work()

    fresh = await shop.patched().submit()
    await plane.work()
    await plane.clock.advance(seconds=61)
    await plane.work()

    assert {await job.result(timeout=5) for job in jobs} == {"patched"}
    assert await fresh.result(timeout=5) == "patched"
    assert sorted(shop.effects) == ["deliver"] * 51 + ["pay"] * 51 + ["scan"]


async def test_a_held_job_says_where_it_differs_and_is_not_tried_again_by_the_same_code(plane: TestPlane, shop: Shop) -> None:
    (job,) = await shop.begun()
    shop.new()

    await plane.work()
    await plane.work()

    found = await plane.jobs.get(job.id)
    assert (found.error["type"], found.error["step"]) == ("CodeChanged", "scan")
    assert 'calls tool "scan", which is not recorded, before tool "pay"' in found.error["message"]
    runs = await plane.jobs.runs(job.id)
    assert [run.status for run in runs] == [RunStatus.SLEEPING, RunStatus.INTERRUPTED]
    last = (await plane.jobs.history(job.id))[-1]
    assert (last.cause, last.metadata["step"], last.metadata["code"]) == ("hold", "scan", found.error["code"])
    (reason, *_) = await plane.jobs.why(job.id)
    assert reason.code == "code_changed"
    assert 'tool "scan"' in reason.message
    assert f"cortex jobs release {job.id}" in reason.message


async def test_the_same_code_tries_again_after_an_hour(plane: TestPlane, shop: Shop) -> None:
    (job,) = await shop.begun()
    shop.new()
    await plane.work()

    await plane.clock.advance(minutes=61)
    await plane.work()

    assert len(await plane.jobs.runs(job.id)) == 3
    assert await shop.states([job]) == {HELD}
    assert (await plane.jobs.history(job.id))[-1].metadata["again"] is True


async def test_an_operator_releases_a_held_job_for_any_code(plane: TestPlane, shop: Shop) -> None:
    (job,) = await shop.begun()
    shop.new()
    await plane.work()

    await plane.jobs.release(job.id, actor="ops")
    await plane.work()

    assert len(await plane.jobs.runs(job.id)) == 3
    assert await shop.states([job]) == {HELD}
    assert "JOB_RELEASED" in [record.entry.action for record in await plane.store.audit.list(job.id)]


async def test_a_worker_whose_code_did_not_fit_hands_back_what_is_offered_to_others(plane: TestPlane, shop: Shop) -> None:
    """A fleet with two versions: the worker with the old code looks, and the one with the new code claims first."""
    (job,) = await shop.begun()
    shop.new()
    await plane.work()
    store = plane.store

    assert await store.holds.offer({"shop": "other code"}, 10) == 1
    assert await store.holds.offer({"shop": "other code"}, 10) == 0
    delays = []
    for _ in range(3):
        await plane.work()
        found = await plane.jobs.get(job.id)
        assert found.next_retry_at is not None
        delays.append(round((found.next_retry_at - found.updated_at).total_seconds()))
        await plane.clock.advance(seconds=delays[-1] + 1)

    assert delays == [2, 4, 8]
    last = (await plane.jobs.history(job.id))[-1]
    assert last.metadata["handed_back"] is True
    assert (await plane.jobs.get(job.id)).error["step"] == "scan"
    shop.old()
    await plane.work()
    assert await job.result(timeout=5) == "old"
    assert shop.effects == ["pay", "deliver"]


async def test_a_worker_that_hands_back_gives_way_to_one_whose_code_fits(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handing back is faster than working: without giving way, the worker whose code does not fit claims them all again."""
    monkeypatch.setattr(execution, "HAND_BACK_SECONDS", 0.5)
    old, new, clerk, count = Plane(database_url), Plane(database_url), Plane(database_url), 30

    async def stamp(ctx: Context) -> None: ...

    async def before(ctx: Context) -> str:
        await ctx.tool("pay", asyncio.sleep, 0)
        await ctx.call("stamp")  # Only the clerk has this agent, so that all jobs wait here, however slow the machine is.
        await ctx.tool("deliver", asyncio.sleep, 0.05)
        return "done"

    async def after(ctx: Context) -> None:
        await ctx.tool("scan", asyncio.sleep, 0)
        await ctx.tool("pay", asyncio.sleep, 0)

    agent = old.agent("shop")(before)
    new.agent("shop")(after)
    clerk.agent("stamp")(stamp)
    async with clerk, old, new:
        jobs = [await agent.submit() for _ in range(count)]
        await old.run_worker(until_idle=True)
        await clerk.run_worker(until_idle=True)
        await new.run_worker(until_idle=True)
        assert {(await old.jobs.get(job.id)).wait_reason for job in jobs} == {WaitReason.CODE_CHANGED}
        workers = [asyncio.ensure_future(plane.run_worker(concurrency=5)) for plane in (new, old)]
        done = [await job.result(timeout=PATIENCE_SECONDS) for job in jobs]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

        assert done == ["done"] * count
        handed_back = [
            sum(1 for line in await old.jobs.history(job.id) if (line.metadata or {}).get("handed_back")) for job in jobs
        ]
        assert sum(handed_back) <= 2 * count


async def test_what_nobody_else_takes_is_tried_again(plane: TestPlane, shop: Shop) -> None:
    (job,) = await shop.begun()
    shop.new()
    await plane.work()
    await plane.store.holds.offer({"shop": "code of a worker that died"}, 10)

    for _ in range(MOST_HANDED_BACK + 1):
        await plane.work()
        await plane.clock.advance(minutes=61)

    metadata = [line.metadata for line in await plane.jobs.history(job.id) if line.cause == "hold"]
    assert [bool(one.get("handed_back")) for one in metadata] == [False, *[True] * MOST_HANDED_BACK, False]


async def test_with_fail_the_job_fails(plane: TestPlane, shop: Shop) -> None:
    (job,) = await shop.begun(on_code_change="fail")
    shop.new(on_code_change="fail")

    await plane.work()

    with pytest.raises(JobFailed, match='calls tool "scan"'):
        await job.result(timeout=5)


async def test_data_of_a_newer_version_of_the_agent_waits_for_that_version(plane: TestPlane, shop: Shop) -> None:
    agent = shop.old()
    agent.state_migration(1)(lambda data: data)
    job = await agent.submit()
    await plane.work()
    await plane.clock.advance(seconds=61)

    shop.old()
    await plane.work()
    assert await shop.states([job]) == {HELD}
    assert "The agent's data is of version 2" in (await plane.jobs.get(job.id)).error["message"]
    shop.old().state_migration(1)(lambda data: data)
    await plane.work()

    assert await job.result(timeout=5) == "old"


async def test_a_job_that_was_begun_is_held_when_the_code_takes_other_arguments(plane: TestPlane, shop: Shop) -> None:
    async def older(ctx: Context, amount: int) -> str:
        await ctx.tool("pay", shop.effects.step("pay"))
        await ctx.sleep(60)
        return "old"

    async def newer(ctx: Context, amount: int, currency: str) -> str:
        await ctx.tool("pay", shop.effects.step("pay"))
        await ctx.sleep(60)
        return "new"

    job = await shop.deploy(older).submit(amount=1)
    await plane.work()
    await plane.clock.advance(seconds=61)
    shop.deploy(newer)
    await plane.work()

    assert await shop.states([job]) == {HELD}
    found = await plane.jobs.get(job.id)
    assert (found.error["type"], found.error["step"]) == ("CodeChanged", "start")
    assert 'The argument "currency" is missing.' in found.error["message"]
    shop.deploy(older)
    await plane.work()
    assert await job.result(timeout=5) == "old"
    assert shop.effects == ["pay"]


async def test_with_fail_a_job_whose_arguments_do_not_fit_any_more_fails(plane: TestPlane, shop: Shop) -> None:
    async def older(ctx: Context, amount: int) -> None:
        await ctx.sleep(60)

    async def newer(ctx: Context, amount: str) -> None:
        await ctx.sleep(60)

    job = await shop.deploy(older).submit(amount=1)
    await plane.work()
    await plane.clock.advance(seconds=61)
    shop.deploy(newer, on_code_change="fail")
    await plane.work()

    with pytest.raises(JobFailed, match=r"payload\.amount must be text"):
        await job.result(timeout=5)


async def test_a_held_job_can_be_cancelled(plane: TestPlane, shop: Shop) -> None:
    (job,) = await shop.begun()
    shop.new()
    await plane.work()

    await job.cancel()
    shop.old()
    await plane.work()

    assert await job.status() is JobStatus.CANCELLED
    assert shop.effects == ["pay"]


# -- ctx.patched ---------------------------------------------------------------------------------


async def test_patched_gives_one_answer_for_each_job(plane: TestPlane, shop: Shop) -> None:
    """True for a job that began before the change and has not come to it; and it stays so when more is recorded."""
    answers: list[bool] = []

    async def before(ctx: Context) -> None:
        await ctx.step("first", shop.effects.step("first"))
        await ctx.sleep(60)

    async def after(ctx: Context) -> None:
        await ctx.step("first", shop.effects.step("first"))
        await ctx.sleep(60)
        answers.append(ctx.patched("second"))
        await ctx.step("second", shop.effects.step("second"))
        await ctx.sleep(60)
        answers.append(ctx.patched("second"))
        await ctx.step("third", shop.effects.step("third"))

    job = await shop.deploy(before).submit()
    await plane.work()
    shop.deploy(after)
    for _ in range(3):
        await plane.clock.advance(seconds=61)
        await plane.work()

    assert await job.result(timeout=5) is None
    assert answers == [True, True, True]
    assert shop.effects == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("recorded", "place", "beyond"),
    [
        ("pay#1", "", True),
        ("gather#1[0]/fetch#1", "", True),
        ("gather#1[0]/fetch#1", "gather#1[0]/", True),
        ("gather#1[1]/fetch#1", "gather#1[0]/", False),
        ("gather#1[10]/fetch#1", "gather#1[1]/", False),
        ("gather#2[1]/fetch#1", "gather#1[0]/", True),
        ("after#1", "gather#1[0]/", True),
        ("gather#1[0]/gather#1[1]/fetch#1", "gather#1[0]/gather#1[0]/", False),
        ("gather#1[0]/after#1", "gather#1[0]/gather#1[0]/", True),
        ("$budget#1", "", False),
        ("$now#1", "", True),
    ],
)
def test_what_a_sibling_branch_has_recorded_says_nothing_about_this_one(recorded: str, place: str, beyond: bool) -> None:
    assert is_beyond(recorded, place) is beyond


async def test_patched_refuses_a_name_that_is_none(plane: TestPlane, shop: Shop) -> None:
    async def agent(ctx: Context) -> None:
        ctx.patched("a#b")

    job = await shop.deploy(agent, max_retries=0).submit()
    await plane.work()

    with pytest.raises(JobFailed, match="must not contain"):
        await job.result(timeout=5)


async def test_every_job_of_the_fleet_is_released_once(plane: TestPlane, shop: Shop) -> None:
    """Holds of jobs that have ended are forgotten by whoever looks."""
    jobs = await shop.begun(3)
    shop.new()
    await plane.work()
    await jobs[0].cancel()
    store = plane.store

    assert await store.holds.offer({"shop": "x"}, 10) == 3
    assert await store.holds.offer({"shop": "y"}, 10) == 2
    assert not await store.holds.release(JobId(jobs[0].id), RELEASED)


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_held_job_whose_place_is_locked_is_offered_later(plane: TestPlane, shop: Shop) -> None:
    (job,) = await shop.begun()
    shop.new()
    await plane.work()
    store = plane.store
    connection = await asyncpg.connect(plane.settings.database_url)
    try:
        async with connection.transaction():
            await connection.execute("select from cortex.queue_entry where job_id = $1 for update", job.id)
            assert await store.holds.offer({"shop": "x"}, 10) == 0
    finally:
        await connection.close()

    assert await store.holds.offer({"shop": "x"}, 10) == 1
