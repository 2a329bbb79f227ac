"""A job that failed goes on where it stopped: recorded steps answer, the one that failed runs."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane import CheckpointCorrupted, Context, JobFailed, JobStatus, RetryPolicy, StepFailed
from cortex_plane.errors import NothingToResume, StillRunning
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.retry import Backoff
from cortex_plane.testing import TestPlane
from tests.durable.approval_scene import People
from tests.end_to_end.inspection import query

pytestmark = pytest.mark.anyio

ONCE = RetryPolicy(max_retries=0)
LARGE = "x" * 5000


class World:
    """What the agents do, and whether it works."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.broken: set[str] = set()

    async def do(self, name: str) -> str:
        self.calls.append(name)
        if name in self.broken:
            raise ValueError(f"{name} is broken")
        return f"{name} {LARGE}"

    def mend(self, *broken: str) -> None:
        self.broken = set(broken)
        self.calls.clear()


@pytest.fixture
def world() -> World:
    return World()


def shop(plane: TestPlane, world: World, retry: RetryPolicy = ONCE) -> Any:
    @plane.agent("shop", retry=retry)
    async def shop(ctx: Context) -> list[str]:
        paid = await ctx.tool("pay", world.do, "pay")
        mailed = await ctx.step("mail", world.do, "mail")
        return [paid[:4], mailed[:5], await ctx.step("end", world.do, "end")]

    return shop


async def failed(plane: TestPlane, agent: Any, **options: Any) -> JobHandle[Any]:
    job: JobHandle[Any] = await agent.submit(**options)
    await plane.work()
    assert await job.status() is JobStatus.FAILED
    return job


async def test_recorded_steps_answer_and_the_failed_one_runs(plane: TestPlane, world: World) -> None:
    agent = shop(plane, world)
    world.broken = {"mail"}
    job = await failed(plane, agent)
    world.mend()

    resumed = await job.resume()
    await plane.work()

    assert (await resumed.result(timeout=5))[:2] == ["pay ", "mail "]
    assert world.calls == ["mail", "end"]
    assert (await resumed.job()).retry_of == job.id
    assert await job.status() is JobStatus.FAILED


async def test_it_can_be_resumed_again_and_always_at_the_end_of_its_chain(plane: TestPlane, world: World) -> None:
    agent = shop(plane, world)
    world.broken = {"mail"}
    job = await failed(plane, agent)
    second = await job.resume()
    with pytest.raises(StillRunning, match=second.id):
        await job.resume()
    with pytest.raises(StillRunning, match=second.id):
        await job.retry()
    await plane.work()
    world.mend()

    third = await job.resume()
    await plane.work()

    assert (await third.job()).retry_of == second.id
    assert await third.status() is JobStatus.COMPLETED
    assert world.calls == ["mail", "end"]


async def test_a_job_that_recorded_nothing_begins_anew(plane: TestPlane, world: World) -> None:
    agent = shop(plane, world)
    world.broken = {"pay"}
    await (await failed(plane, agent)).resume()
    world.mend()
    await plane.work()

    assert world.calls == ["pay", "mail", "end"]


async def test_a_job_that_was_cancelled_by_mistake_goes_on(plane: TestPlane, world: World) -> None:
    @plane.agent("slow")
    async def slow(ctx: Context) -> str:
        await ctx.step("first", world.do, "first")
        await ctx.sleep(60)
        return await ctx.step("second", world.do, "second")

    job = await slow.submit()
    await plane.work()
    await job.cancel()

    resumed = await job.resume()
    await plane.clock.advance(seconds=61)
    await plane.work()

    assert await resumed.status() is JobStatus.COMPLETED
    assert world.calls == ["first", "second"]


async def test_what_is_done_cannot_be_resumed(plane: TestPlane, world: World) -> None:
    job = await shop(plane, world).submit()
    await plane.work()

    with pytest.raises(NothingToResume, match=f"cortex jobs retry {job.id}"):
        await job.resume()
    assert len(await plane.jobs.list()) == 1


async def test_a_damaged_checkpoint_is_not_resumed_from(plane: TestPlane, world: World, database_url: str) -> None:
    agent = shop(plane, world)
    world.broken = {"mail"}
    job = await failed(plane, agent)
    await query(database_url, "update cortex.job set checkpoint = '{\"no\": 1}'")

    with pytest.raises(CheckpointCorrupted, match=f"cortex jobs retry {job.id}"):
        await job.resume()
    assert len(await plane.jobs.list()) == 1


async def test_a_linked_retry_of_policy_chain_resumes_too(plane: TestPlane, world: World) -> None:
    agent = shop(plane, world, RetryPolicy("chain", 2, Backoff(jitter=False)))
    world.broken = {"mail"}
    job = await failed(plane, agent)
    world.mend()
    await plane.clock.advance(seconds=10)
    await plane.work()

    successor = (await job.job()).retried_as
    assert successor is not None
    assert await plane.job(successor).status() is JobStatus.COMPLETED
    assert world.calls == ["mail", "end"]


async def test_after_a_crash_that_fails_the_job_its_successor_resumes(plane: TestPlane, world: World) -> None:
    @plane.agent("careful", on_crash="fail", retry=RetryPolicy(max_retries=1, backoff=Backoff(0)))
    async def careful(ctx: Context) -> None:
        for name in ("first", "second"):
            await ctx.step(name, world.do, name)

    job = await careful.submit()
    plane.crash_after("first")
    await plane.work()
    await plane.work()

    successor = (await job.job()).retried_as
    assert successor is not None
    assert await job.status() is JobStatus.FAILED
    assert await plane.job(successor).status() is JobStatus.COMPLETED
    assert world.calls == ["first", "second"]


async def test_time_limit_policy_and_session_are_carried(plane: TestPlane, world: World, database_url: str) -> None:
    agent = shop(plane, world)
    world.broken = {"mail"}
    job = await failed(plane, agent.options(run_timeout=30, retry=RetryPolicy(max_retries=0), priority=3))
    resumed = await job.resume()

    rows = await query(
        database_url, "select timeout_seconds, priority, retry_policy is not null from cortex.job order by created_at, id"
    )
    assert (await resumed.job()).retry_of == job.id
    assert [tuple(row) for row in rows] == [(30, 3, True)] * 2


# -- children ------------------------------------------------------------------------------------


def family(plane: TestPlane, world: World, retry: RetryPolicy = ONCE) -> Any:
    @plane.agent("child", retry=ONCE)
    async def child(ctx: Context) -> str:
        await ctx.step("prepare", world.do, "prepare")
        return (await ctx.step("deliver", world.do, "deliver"))[:7]

    @plane.agent("parent", retry=retry)
    async def parent(ctx: Context) -> str:
        await ctx.step("order", world.do, "order")
        return await ctx.call(child)

    return parent


async def test_a_child_that_failed_is_resumed_and_not_submitted_again(plane: TestPlane, world: World) -> None:
    agent = family(plane, world)
    world.broken = {"deliver"}
    job = await failed(plane, agent)
    [child] = [one for one in await plane.jobs.list() if one.job_type == "child"]
    world.mend()

    resumed = await job.resume()
    await plane.work()

    assert await resumed.result(timeout=5) == "deliver"
    assert world.calls == ["deliver"]
    chain = await plane.jobs.chain(child.id)
    assert [one.status for one in chain] == [JobStatus.FAILED, JobStatus.COMPLETED]
    assert (await plane.jobs.get(chain[-1].id)).parent_id == resumed.id
    assert len(await plane.jobs.list()) == 4


async def test_a_child_that_fails_again_fails_the_parent_again(plane: TestPlane, world: World) -> None:
    agent = family(plane, world)
    world.broken = {"deliver"}
    job = await failed(plane, agent)
    world.mend("deliver")

    resumed = await job.resume()
    await plane.work()

    with pytest.raises(JobFailed, match="deliver is broken"):
        await resumed.result(timeout=5)
    assert world.calls == ["deliver"]


async def test_a_retry_in_place_resumes_the_child_too(plane: TestPlane, world: World) -> None:
    agent = family(plane, world, RetryPolicy(max_retries=1, backoff=Backoff(10, jitter=False)))
    world.broken = {"deliver"}
    job = await agent.submit()
    await plane.work()
    assert await job.status() is JobStatus.RETRY
    world.mend()
    await plane.clock.advance(seconds=11)
    await plane.work()

    assert await job.result(timeout=5) == "deliver"
    assert world.calls == ["deliver"]


async def test_a_handler_that_survives_the_failure_of_a_child_does_not_call_it_again(plane: TestPlane, world: World) -> None:
    @plane.agent("child", retry=ONCE)
    async def child(ctx: Context) -> str:
        return await ctx.step("deliver", world.do, "deliver")

    @plane.agent("parent", retry=ONCE)
    async def parent(ctx: Context) -> str:
        try:
            return await ctx.call(child)
        except StepFailed:
            await ctx.step("apologise", world.do, "apologise")
            return (await ctx.step("refund", world.do, "refund"))[:6]

    world.broken = {"deliver", "refund"}
    job = await failed(plane, parent)
    world.mend("deliver")
    resumed = await job.resume()
    await plane.work()

    assert await resumed.result(timeout=5) == "refund"
    assert world.calls == ["refund"]


async def test_a_child_that_is_still_at_work_goes_over_to_the_job_that_continues(plane: TestPlane, world: World) -> None:
    @plane.agent("child", retry=ONCE)
    async def child(ctx: Context) -> str:
        await ctx.sleep(100)
        return "done"

    @plane.agent("parent", retry=ONCE)
    async def parent(ctx: Context) -> str:
        return await ctx.call(child)

    job = await parent.submit()
    await plane.work()
    await job.cancel()
    resumed = await job.resume()
    await plane.work()
    await plane.clock.advance(seconds=101)
    await plane.work()

    assert await resumed.result(timeout=5) == "done"
    assert len([one for one in await plane.jobs.list() if one.job_type == "child"]) == 1


async def test_children_that_were_cancelled_with_their_parent_are_resumed_with_it(plane: TestPlane, world: World) -> None:
    @plane.agent("child", retry=ONCE)
    async def child(ctx: Context) -> str:
        await ctx.step("prepare", world.do, "prepare")
        await ctx.sleep(100)
        return "done"

    @plane.agent("parent", retry=ONCE)
    async def parent(ctx: Context) -> str:
        return await ctx.call(child.options(cancel_with_parent=True))

    job = await parent.submit()
    await plane.work()
    await job.cancel()
    await plane.work()
    assert {one.status for one in await plane.jobs.list() if one.job_type in ("child", "parent")} == {JobStatus.CANCELLED}

    resumed = await job.resume()
    await plane.work()
    await plane.clock.advance(seconds=101)
    await plane.work()

    assert await resumed.result(timeout=5) == "done"
    assert world.calls == ["prepare"]


# -- approvals -----------------------------------------------------------------------------------


def gated(plane: TestPlane, world: World, **gate: Any) -> Any:
    @plane.agent("gated", retry=ONCE)
    async def gated(ctx: Context) -> str | None:
        await ctx.step("build", world.do, "build")
        decision = await ctx.approval("Deploy it", ttl=60, **gate)
        await ctx.step("deploy", world.do, "deploy")
        return decision.decided_by

    return gated


@pytest.mark.parametrize("on_denial", ["fail", "raise"])
async def test_an_approval_that_was_denied_is_asked_for_again(
    plane: TestPlane, people: People, world: World, on_denial: str
) -> None:
    job = await gated(plane, world, on_denial=on_denial).submit()
    await plane.work()
    await people.deny(job, "alice", "not today")
    await plane.work()
    assert await job.status() is JobStatus.FAILED

    resumed = await job.resume()
    await plane.work()
    assert await resumed.status() is JobStatus.WAITING_FOR_APPROVAL
    await people.approve(resumed, "alice")
    await plane.work()

    assert await resumed.result(timeout=5) == "alice"
    assert world.calls == ["build", "deploy"]


async def test_an_approval_that_expired_is_asked_for_again(plane: TestPlane, people: People, world: World) -> None:
    job = await gated(plane, world).submit()
    await plane.work()
    await plane.clock.advance(seconds=61)
    await plane.store.approvals.expire(10)
    assert await job.status() is JobStatus.FAILED

    resumed = await job.resume()
    await plane.work()
    await people.approve(resumed, "alice")
    await plane.work()

    assert await resumed.status() is JobStatus.COMPLETED


async def test_what_was_approved_stays_approved(plane: TestPlane, people: People, world: World) -> None:
    job = await gated(plane, world).submit()
    await plane.work()
    await people.approve(job, "alice")
    world.broken = {"deploy"}
    await plane.work()
    assert await job.status() is JobStatus.FAILED
    world.mend()

    resumed = await job.resume()
    await plane.work()

    assert await resumed.result(timeout=5) == "alice"
    assert world.calls == ["deploy"]
