"""Sleeps, branches, children, time and chance: the same in every run of a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from cortex_plane import Context, JobFailed, JobStatus, RunStatus, StepFailed, Submission
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def test_a_sleeping_job_holds_no_worker_and_goes_on_when_it_is_time(plane: TestPlane) -> None:
    calls, note = _notes()

    @plane.agent("sleeper")
    async def sleeper(ctx: Context) -> str:
        await ctx.step("before", note, "before")
        await ctx.sleep(timedelta(days=3))
        return await ctx.step("after", note, "after")

    job = await sleeper.submit()
    await plane.work()
    assert await job.status() is JobStatus.RETRY
    await plane.clock.advance(days=2)
    await plane.work()
    assert calls == ["before"]
    await plane.clock.advance(days=1, seconds=1)
    await plane.work()

    assert await job.result(timeout=5) == "after"
    assert calls == ["before", "after"]
    assert [run.status for run in await plane.jobs.runs(job.id)] == [RunStatus.SLEEPING, RunStatus.COMPLETED]


async def test_a_sleep_spends_no_retry_and_its_end_does_not_move(plane: TestPlane) -> None:
    @plane.agent("sleeper", max_retries=0)
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep(3600)
        await ctx.step("awake", _nothing)
        await ctx.sleep_until(plane.clock.moment())

    job = await sleeper.submit()
    await plane.work()
    await plane.clock.advance(minutes=59)
    await plane.rescue()
    await plane.work()
    assert (await plane.jobs.get(job.id)).next_retry_at is not None
    await plane.clock.advance(minutes=2)
    await plane.work()

    await job.result(timeout=5)
    assert (await plane.jobs.get(job.id)).retry_count == 0


async def test_a_handler_that_catches_everything_is_left_all_the_same(plane: TestPlane) -> None:
    @plane.agent("greedy")
    async def greedy(ctx: Context) -> str:
        try:
            await ctx.sleep(60)
        except BaseException:
            return "caught"
        return "slept"

    job = await greedy.submit()
    await plane.work()
    assert await job.status() is JobStatus.RETRY
    await plane.clock.advance(minutes=2)
    await plane.work()

    assert await job.result(timeout=5) == "slept"


async def test_branches_have_steps_of_their_own(plane: TestPlane) -> None:
    fetched: list[str] = []

    async def fetch(what: str) -> str:
        fetched.append(what)
        return what

    async def two(ctx: Context) -> str:
        first = await ctx.step("warm", _nothing_but, "x")
        return first + await ctx.step("fetch", fetch, "a")

    @plane.agent("branches")
    async def branches(ctx: Context) -> list[Any]:
        found = await ctx.gather(two(ctx), ctx.step("fetch", fetch, "b"))
        return [*found, await ctx.step("fetch", fetch, "c")]

    job = await branches.submit()
    plane.crash_after("fetch", 2)
    await plane.work()
    await plane.work()

    assert await job.result(timeout=5) == ["xa", "b", "c"]
    assert sorted(fetched) == ["a", "b", "c"]


@pytest.mark.parametrize("what", ["sleep", "call"])
async def test_a_job_cannot_wait_in_one_branch_only(plane: TestPlane, what: str) -> None:
    async def wait(ctx: Context) -> None:
        await (ctx.sleep(10) if what == "sleep" else ctx.call("waits"))

    @plane.agent("waits")
    async def waits(ctx: Context) -> None:
        await ctx.gather(wait(ctx))

    job = await waits.submit()
    await plane.work()

    with pytest.raises(JobFailed, match=r"cannot be used inside ctx\.gather"):
        await job.result(timeout=5)


async def test_the_first_failure_of_a_branch_is_raised_when_all_have_ended(plane: TestPlane) -> None:
    async def fail() -> None:
        raise ValueError("no")

    @plane.agent("branches")
    async def branches(ctx: Context) -> str:
        with pytest.raises(StepFailed, match="no"):
            await ctx.gather(ctx.step("fail", fail), ctx.step("ok", _nothing))
        both = await ctx.gather(ctx.step("fail", fail), ctx.step("ok", _nothing_but, "ok"), return_exceptions=True)
        return f"{type(both[0]).__name__} {both[1]}"

    job = await branches.submit()
    await plane.work()

    assert await job.result(timeout=5) == "StepFailed ok"


async def test_time_and_chance_are_the_same_in_every_run(plane: TestPlane) -> None:
    seen: list[Any] = []

    @plane.agent("dice")
    async def dice(ctx: Context) -> None:
        found = (ctx.now(), ctx.random(), ctx.random(), ctx.uuid(), ctx.uuid())
        seen.append(found)
        await ctx.step("first", _nothing)
        await ctx.step("second", _nothing)

    await dice.submit()
    await dice.submit()
    plane.crash_after("first")
    await plane.work(concurrency=1)
    await plane.clock.advance(hours=1)
    await plane.work(concurrency=1)

    again = [found for found in seen if seen.count(found) == 2]
    assert len(seen) == 3
    assert len(again) == 2
    assert len({value for found in seen for value in found[1:]}) == 8


async def test_a_child_is_called_once_and_its_result_is_kept(plane: TestPlane) -> None:
    calls: list[str] = []

    @plane.agent("child")
    async def child(ctx: Context, name: str) -> str:
        calls.append(name)
        return f"hello {name}"

    @plane.agent("parent")
    async def parent(ctx: Context) -> list[str]:
        first = await ctx.call(child, "a")
        return [first, await ctx.call("child", name="b"), await ctx.call(Submission("child", {"name": "c"}))]

    job = await parent.submit()
    await plane.work()

    assert await job.result(timeout=5) == ["hello a", "hello b", "hello c"]
    assert calls == ["a", "b", "c"]
    children = [found for found in await plane.jobs.list() if found.job_type == "child"]
    assert len(children) == 3
    assert {(await plane.jobs.get(found.id)).parent_id for found in children} == {job.id}


async def test_a_child_that_fails_fails_the_call(plane: TestPlane) -> None:
    @plane.agent("child", max_retries=0)
    async def child(ctx: Context) -> None:
        raise ValueError("the child's fault")

    @plane.agent("parent")
    async def parent(ctx: Context) -> str:
        try:
            await ctx.call(child)
        except StepFailed as failure:
            return str(failure)
        return "?"

    job = await parent.submit()
    await plane.work()

    assert "the child's fault" in await job.result(timeout=5)


async def test_children_end_with_their_parent_where_asked(plane: TestPlane) -> None:
    @plane.agent("child", queue="nobody")
    async def child(ctx: Context) -> None: ...

    @plane.agent("parent")
    async def parent(ctx: Context, together: bool) -> None:
        await ctx.call(child.options(cancel_with_parent=together))

    jobs = [await parent.submit(together=together) for together in (True, False)]
    await plane.work(queues=["default"])
    for job in jobs:
        await job.cancel()
    await plane.work(queues=["default"])

    states = {
        (await plane.jobs.get(found.id)).parent_id: found.status for found in await plane.jobs.list() if found.job_type == "child"
    }
    assert states == {jobs[0].id: JobStatus.CANCELLED, jobs[1].id: JobStatus.PENDING}


async def test_memory_is_as_it_was_at_each_point(plane: TestPlane) -> None:
    seen: list[Any] = []

    def look(ctx: Context) -> Any:
        return [list(ctx.memory.facts), ctx.memory.summary, dict(ctx.memory.data)]

    async def learn(ctx: Context) -> None:
        ctx.memory.add_fact("inside the step")
        ctx.memory.data["n"] = 1

    @plane.agent("learner")
    async def learner(ctx: Context) -> None:
        seen.append(look(ctx))
        ctx.memory.add_fact("before")
        await ctx.step("learn", learn, ctx)
        seen.append(look(ctx))
        ctx.memory.summary = "so far"
        ctx.memory.data["large"] = "x" * 5000
        await ctx.step("more", _nothing)
        seen.append([part if part != {"large": "x" * 5000, "n": 1} else "large" for part in look(ctx)])

    await learner.submit()
    plane.crash_after("more")
    await plane.work()
    first, seen[:] = list(seen), []
    await plane.work()

    assert seen[: len(first)] == first
    assert seen == [
        [[], None, {}],
        [["before", "inside the step"], None, {"n": 1}],
        [["before", "inside the step"], "so far", "large"],
    ]


async def test_tokens_and_cents_are_counted_once(plane: TestPlane) -> None:
    async def ask() -> dict[str, Any]:
        return {"text": "hi", "usage": {"input_tokens": 10, "output_tokens": 3}}

    async def pay(ctx: Context) -> None:
        ctx.cost(7)

    @plane.agent("model")
    async def model(ctx: Context) -> None:
        await ctx.llm("ask", ask)
        ctx.usage(prompt_tokens=1, cents=2)
        await ctx.step("pay", pay, ctx)
        ctx.cost(1)

    job = await model.submit()
    plane.crash_after("ask")
    plane.crash_after("pay")
    for _ in range(3):
        await plane.work()

    await job.result(timeout=5)
    assert plane.crashes == 2
    assert (await plane.jobs.get(job.id)).cost_cents == 10
    document = (await plane.store.checkpoints.load(job.id)).document  # type: ignore[union-attr]
    assert json.loads(document)["memory_context"]["token_usage"] == {"completion_tokens": 3, "prompt_tokens": 11}


async def test_every_step_of_a_forced_replay_is_answered_from_the_record(plane: TestPlane) -> None:
    calls, note = _notes()

    @plane.agent("ten")
    async def ten(ctx: Context) -> int:
        for number in range(10):
            await ctx.step("step", note, str(number))
        return len(calls)

    plane.force_replay()
    job = await ten.submit()
    await plane.work()

    assert await job.result(timeout=5) == 10
    assert len(await plane.jobs.runs(job.id)) == 11


def _notes() -> tuple[list[str], Callable[[str], Coroutine[Any, Any, str]]]:
    calls: list[str] = []

    async def note(what: str) -> str:
        calls.append(what)
        return what

    return calls, note


async def _nothing() -> None:
    pass


async def _nothing_but(value: str) -> str:
    return value
