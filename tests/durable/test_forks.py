"""Forks: a new job takes the recorded prefix of an old one as it is, and repeats nothing of it."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane import Context, InvalidInput, JobStatus, StepFailed
from cortex_plane.agents.agent import Agent
from cortex_plane.durable.fork import steps_of
from cortex_plane.testing import TestPlane
from tests.durable.test_versions import Calls

pytestmark = pytest.mark.anyio

LARGE = "x" * 5000


async def finished(plane: TestPlane, agent: Agent[..., Any]) -> str:
    job = await agent.submit()
    await plane.work()
    await job.result(timeout=5)
    return str(job.id)


async def test_what_comes_before_is_answered_and_what_comes_after_runs_anew(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("abc")
    async def abc(ctx: Context) -> list[str]:
        return [await ctx.step(name, calls.step(name)) for name in ("a", "b", "c")]

    origin = await finished(plane, abc)
    before = (await plane.jobs.get(origin)).updated_at
    fork = await plane.checkpoints.fork(origin, "b", created_by="ada")
    assert steps_of(await plane.checkpoints.get(fork.id)) == ["a#1"]
    await plane.work()

    assert await fork.result(timeout=5) == ["a", "b", "c"]
    assert calls == ["a", "b", "c", "b", "c"]
    assert (await fork.job()).created_by == "ada"
    assert (await plane.jobs.get(origin)).updated_at == before


async def test_a_fork_from_the_first_step_takes_nothing_over(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("ab")
    async def ab(ctx: Context) -> list[str]:
        return [await ctx.step(name, calls.step(name)) for name in ("a", "b")]

    fork = await plane.checkpoints.fork(await finished(plane, ab), "a")
    assert steps_of(await plane.checkpoints.get(fork.id)) == []
    await plane.work()

    assert await fork.result(timeout=5) == ["a", "b"]
    assert calls == ["a", "b", "a", "b"]


async def test_time_and_chance_before_the_step_are_those_of_the_original(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("dice")
    async def dice(ctx: Context) -> list[Any]:
        found: list[Any] = [ctx.now().isoformat(), ctx.random(), str(ctx.uuid())]
        await ctx.step("first", calls.step("first"))
        await ctx.step("second", calls.step("second"))
        return [*found, ctx.now().isoformat()]

    origin = await finished(plane, dice)
    await plane.clock.advance(hours=1)
    fork = await plane.checkpoints.fork(origin, "second")
    await plane.work()

    old, new = (await plane.jobs.get(origin)).output, await fork.result(timeout=5)
    assert new[:3] == old[:3]
    assert new[3] != old[3]


async def test_memory_tokens_and_log_are_as_they_were_before_the_step(plane: TestPlane) -> None:
    async def learn(ctx: Context, fact: str) -> None:
        ctx.memory.add_fact(fact)
        ctx.memory.data[fact] = LARGE
        ctx.memory.summary = f"knows {fact}"
        ctx.usage(prompt_tokens=10, completion_tokens=1, cents=2)

    async def call() -> str:
        return "called"

    @plane.agent("learner")
    async def learner(ctx: Context) -> None:
        await ctx.step("one", learn, ctx, "one")
        ctx.usage(prompt_tokens=5, cents=1)
        await ctx.tool("call", call)
        await ctx.step("two", learn, ctx, "two")

    origin = await finished(plane, learner)
    fork = await plane.checkpoints.fork(origin, "two")

    blob = await plane.checkpoints.get(fork.id)
    memory = blob["memory_context"]
    assert memory["accumulated_facts"] == ["one"]
    assert memory["conversation_summary"] == "knows one"
    assert {key for key in memory["working_data"] if key != "$cortex"} == {"one"}
    assert memory["token_usage"] == {"prompt_tokens": 15, "completion_tokens": 1}
    assert [step["step_id"] for step in blob["execution_log"]] == ["start", "one", "call"]
    await plane.work()
    assert (await fork.job()).cost_cents == 2
    after = (await plane.checkpoints.get(fork.id))["memory_context"]
    assert after["accumulated_facts"] == ["one", "two"]
    assert after["token_usage"] == {"prompt_tokens": 25, "completion_tokens": 2}


async def test_large_results_come_along_even_when_the_original_is_gone(plane: TestPlane, database_url: str) -> None:
    from tests.end_to_end.inspection import query

    calls = Calls()

    async def large() -> str:
        calls.append("large")
        return LARGE

    @plane.agent("large")
    async def agent(ctx: Context) -> int:
        text: str = await ctx.step("large", large)
        await ctx.step("after", calls.step("after"))
        return len(text)

    origin = await finished(plane, agent)
    fork = await plane.checkpoints.fork(origin, "after")
    await query(database_url, f"delete from cortex.job where id = '{origin}'")
    await plane.work()

    assert await fork.result(timeout=5) == len(LARGE)
    assert calls == ["large", "after", "after"]


async def test_a_fork_can_be_forked_and_a_loop_cut_at_any_turn(plane: TestPlane) -> None:
    calls: list[int] = []

    async def turn(number: int) -> int:
        calls.append(number)
        return number

    @plane.agent("loop")
    async def loop(ctx: Context) -> list[int]:
        return [await ctx.step("turn", turn, number) for number in range(4)]

    origin = await finished(plane, loop)
    first = await plane.checkpoints.fork(origin, "turn#3")
    second = await plane.checkpoints.fork(first.id, "turn#2")
    await plane.work()

    assert await second.result(timeout=5) == [0, 1, 2, 3]
    assert sorted(calls) == sorted([0, 1, 2, 3, 2, 3, 1, 2, 3])
    assert steps_of(await plane.checkpoints.get(second.id)) == ["turn#1", "turn#2", "turn#3", "turn#4"]


async def test_a_tool_that_is_cut_at_is_called_anew_with_all_that_happens_inside(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("nested")
    async def nested(ctx: Context) -> None:
        async def deploy() -> str:
            return str(await ctx.step("check", calls.step("check")))

        await ctx.step("build", calls.step("build"))
        await ctx.tool("deploy", deploy)

    origin = await finished(plane, nested)
    fork = await plane.checkpoints.fork(origin, "deploy")
    await plane.work()

    await fork.result(timeout=5)
    assert calls == ["build", "check", "check"]


async def test_a_child_that_failed_before_the_step_is_not_called_again(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("child", max_retries=0)
    async def child(ctx: Context) -> None:
        calls.append("child")
        raise ValueError("no")

    @plane.agent("parent")
    async def parent(ctx: Context) -> str:
        try:
            await ctx.call(child)
        except StepFailed:
            await ctx.step("instead", calls.step("instead"))
        return await ctx.step("after", calls.step("after"))

    origin = await finished(plane, parent)
    fork = await plane.checkpoints.fork(origin, "after")
    await plane.work()

    assert await fork.result(timeout=5) == "after"
    assert calls == ["child", "instead", "after", "after"]


async def test_a_sleep_before_the_step_is_not_slept_again(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("sleeper")
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep(3600)
        await ctx.step("awake", calls.step("awake"))

    job = await sleeper.submit()
    await plane.work()
    await plane.clock.advance(hours=2)
    await plane.work()
    fork = await plane.checkpoints.fork(job.id, "awake")
    await plane.work()

    assert await fork.status() is JobStatus.COMPLETED
    assert calls == ["awake", "awake"]


async def test_a_name_with_a_slash_is_a_step_like_any_other(plane: TestPlane) -> None:
    calls = Calls()

    @plane.agent("paths")
    async def paths(ctx: Context) -> None:
        await ctx.step("get/users", calls.step("get/users"))
        await ctx.step("get/orders", calls.step("get/orders"))

    fork = await plane.checkpoints.fork(await finished(plane, paths), "get/orders")

    assert steps_of(await plane.checkpoints.get(fork.id)) == ["get/users#1"]


@pytest.mark.parametrize("name", ["missing", "outer#2", "gather#1[0]/inner#1", "outer#1/inner#1"])
async def test_a_step_that_is_not_recorded_or_not_of_the_handler_is_refused_with_those_that_are(
    plane: TestPlane, name: str
) -> None:
    calls = Calls()

    @plane.agent("outer")
    async def outer(ctx: Context) -> None:
        await ctx.gather(ctx.step("inner", calls.step("inner")))
        await ctx.step("outer", calls.step("outer"))
        await ctx.step("last", calls.step("last"))

    origin = await finished(plane, outer)

    with pytest.raises(InvalidInput, match=r"Recorded: outer#1, last#1\.") as refused:
        await plane.checkpoints.fork(origin, name)
    assert refused.value.field == "from_step"
    assert len(await plane.jobs.list()) == 1


async def test_a_job_in_which_nothing_durable_happened_cannot_be_forked(plane: TestPlane) -> None:
    @plane.agent("plain")
    async def plain(ctx: Context) -> None: ...

    origin = await finished(plane, plain)

    with pytest.raises(InvalidInput, match="has no checkpoint"):
        await plane.checkpoints.fork(origin, "x")


async def test_tool_calls_inside_steps_are_counted_also_when_a_worker_dies_between_them(plane: TestPlane) -> None:
    async def pay() -> str:
        return "paid"

    async def inner(ctx: Context) -> None:
        await ctx.tool("pay", pay)

    async def outer(ctx: Context) -> None:
        await ctx.step("inner", inner, ctx)

    @plane.agent("deep")
    async def deep(ctx: Context) -> None:
        await ctx.step("outer", outer, ctx)

    job = await deep.submit()
    plane.crash_after("pay")
    await plane.work()
    await plane.work()

    await job.result(timeout=5)
    log = (await plane.checkpoints.get(job.id))["execution_log"]
    assert {step["step_id"]: step["tool_calls"] for step in log} == {"start": 0, "pay": 1, "inner": 1, "outer": 1}
