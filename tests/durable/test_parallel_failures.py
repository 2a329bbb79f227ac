"""Parallel work keeps what succeeded: N calls of which k are refused make exactly N + k calls, however the job goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Backoff, Context, JobHandle, JobStatus, RetryAfter, RetryPolicy, StepFailed
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio

CALLS = 6
REFUSED = {1, 4, 5}


def refusal() -> Exception:
    return ConnectionError("429")


class Model:
    """Refuses some calls the first time."""

    def __init__(self, refusal: Callable[[], Exception] = refusal) -> None:
        self.asked = Counter[int]()
        self.refusal = refusal

    async def ask(self, number: int) -> int:
        self.asked[number] += 1
        if number in REFUSED and self.asked[number] == 1:
            raise self.refusal()
        return number

    @property
    def calls(self) -> int:
        return sum(self.asked.values())


async def until_ended(plane: TestPlane, job: Any) -> None:
    for _ in range(CALLS):
        await plane.work()
        if (await job.status()).is_terminal:
            return
        await plane.clock.advance(hours=1)


@pytest.mark.parametrize("how", ["raised", "returned", "noted"])
@pytest.mark.parametrize("crash", [None, 0, 3])
async def test_calls_that_were_answered_are_not_made_again(plane: TestPlane, how: str, crash: int | None) -> None:
    model = Model()

    @plane.agent("crowd", max_retries=5)
    async def crowd(ctx: Context) -> list[int]:
        branches = [ctx.llm(f"ask {number}", model.ask, number) for number in range(CALLS)]
        if how == "returned":
            answers = await ctx.gather(*branches, return_exceptions=True)
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
            return answers
        try:
            return await ctx.gather(*branches)
        except StepFailed:
            if how == "noted":
                await ctx.step("note", model.ask, 100)
            raise

    job = await crowd.submit()
    if crash is not None:
        plane.crash_after(f"ask {crash}")
    await until_ended(plane, job)

    assert await job.result(timeout=5) == list(range(CALLS))
    model.asked.pop(100, None)
    if crash is None:
        assert model.calls == CALLS + len(REFUSED)
    else:
        assert all(model.asked[number] <= 3 for number in range(CALLS))


async def test_a_failure_that_the_handler_lives_with_stays(plane: TestPlane) -> None:
    model = Model()
    seen: list[list[str]] = []

    @plane.agent("crowd", max_retries=2)
    async def crowd(ctx: Context) -> str:
        answers = await ctx.gather(
            *(ctx.llm(f"ask {number}", model.ask, number) for number in range(CALLS)), return_exceptions=True
        )
        await ctx.step("go on", model.ask, 100)
        seen.append([type(answer).__name__ for answer in answers])
        if len(seen) == 1:
            raise ValueError("for another reason")
        return "done"

    job = await crowd.submit()
    await until_ended(plane, job)

    assert await job.status() is JobStatus.COMPLETED
    assert seen[0] == seen[1]
    assert model.calls == CALLS + 1


async def test_siblings_end_before_a_failure_is_raised_and_the_others_are_named(plane: TestPlane) -> None:
    model = Model()
    raised: list[BaseException] = []

    @plane.agent("crowd", max_retries=0)
    async def crowd(ctx: Context) -> None:
        try:
            await ctx.gather(*(ctx.llm(f"ask {number}", model.ask, number) for number in range(CALLS)))
        except StepFailed as error:
            raised.append(error)
            raise

    job = await crowd.submit()
    await plane.work()

    assert await job.status() is JobStatus.FAILED
    assert model.calls == CALLS
    [first] = raised
    assert str(first).startswith('Step "ask 1" failed')
    assert [note.split('"')[1] for note in first.__notes__] == ["ask 4", "ask 5"]


SOON = Backoff(0.001, jitter=False)
WAYS = {
    "in place": RetryPolicy("in_place", 1, SOON),
    "chain": RetryPolicy("chain", 1, SOON),
    "resume": RetryPolicy(max_retries=0),
}


async def tried_again(plane: TestPlane, job: JobHandle[Any], way: str) -> JobHandle[Any]:
    """The job that goes on from the failure, when it has ended."""
    await plane.work()
    if way == "resume":
        job = await job.resume()
    await plane.clock.advance(hours=1)
    await plane.work()
    successor = (await job.job()).retried_as
    return job if successor is None else plane.job(successor)


@pytest.mark.parametrize("way", WAYS)
async def test_a_failure_that_was_caught_stays_only_if_a_later_call_is_recorded(plane: TestPlane, way: str) -> None:
    model = Model()

    async def add_up(answers: list[int | None]) -> int:
        if None in answers:
            raise ValueError("an answer is missing")
        return sum(number for number in answers if number is not None)

    @plane.agent("crowd", retry=WAYS[way])
    async def crowd(ctx: Context) -> int:
        asked = [ctx.llm(f"ask {number}", model.ask, number) for number in range(CALLS)]
        answers = await ctx.gather(*asked, return_exceptions=True)
        ctx.now()
        return await ctx.step("add up", add_up, [None if isinstance(one, Exception) else one for one in answers])

    last = await tried_again(plane, await crowd.submit(), way)

    assert await last.result(timeout=5) == sum(range(CALLS))
    assert model.calls == CALLS + len(REFUSED)


@pytest.mark.parametrize("way", WAYS)
async def test_a_branch_whose_fallback_failed_too_tries_both_again(plane: TestPlane, way: str) -> None:
    model, fallback = Model(), Model()

    async def ask(ctx: Context, number: int) -> int:
        try:
            return await ctx.llm("ask", model.ask, number)
        except StepFailed:
            return await ctx.llm("ask another", fallback.ask, number)

    @plane.agent("crowd", retry=WAYS[way])
    async def crowd(ctx: Context) -> list[int]:
        return await ctx.gather(*(ask(ctx, number) for number in range(CALLS)))

    last = await tried_again(plane, await crowd.submit(), way)

    assert await last.result(timeout=5) == list(range(CALLS))
    assert model.calls == CALLS + len(REFUSED)
    assert fallback.calls == len(REFUSED)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["llm", "step", "tool"])
async def test_calls_inside_a_step_are_kept_when_it_fails(plane: TestPlane, way: str, kind: str) -> None:
    model = Model(lambda: ValueError("429"))

    async def research(ctx: Context) -> list[int]:
        return await ctx.gather(*(getattr(ctx, kind)(f"ask {number}", model.ask, number) for number in range(CALLS)))

    @plane.agent("crowd", retry=WAYS[way])
    async def crowd(ctx: Context) -> list[int]:
        return await ctx.step("research", research, ctx)

    last = await tried_again(plane, await crowd.submit(), way)

    assert await last.result(timeout=5) == list(range(CALLS))
    assert model.calls == CALLS + len(REFUSED)


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("returned", [False, True])
async def test_calls_that_are_told_to_come_later_are_made_once_more_and_no_other(
    plane: TestPlane, retries: int, returned: bool
) -> None:
    """By the job, or by the call itself if it has retries; neither spends one."""
    model = Model(lambda: RetryAfter(0.01))

    @plane.agent("crowd", max_retries=0)
    async def crowd(ctx: Context) -> list[int]:
        policy = RetryPolicy(max_retries=retries)
        asked = [ctx.llm(f"ask {number}", retry=policy)(model.ask, number) for number in range(CALLS)]
        answers = await ctx.gather(*asked, return_exceptions=returned)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    job = await crowd.submit()
    await until_ended(plane, job)

    assert await job.result(timeout=5) == list(range(CALLS))
    assert model.calls == CALLS + len(REFUSED)


async def test_branches_that_are_told_different_times_wait_for_the_last(plane: TestPlane) -> None:
    ready_at = [plane.clock.now() + 1_000_000 * seconds for seconds in (100, 1000, 10)]
    calls: list[int] = []

    async def ask(number: int) -> int:
        calls.append(number)
        if (left := ready_at[number] - plane.clock.now()) > 0:
            raise RetryAfter(left / 1_000_000, "busy")
        return number

    @plane.agent("crowd", max_retries=0)
    async def crowd(ctx: Context) -> list[int]:
        return await ctx.gather(*(ctx.llm(f"ask {number}", ask, number) for number in range(3)))

    job = await crowd.submit()
    for _ in range(12):
        await plane.work()
        await plane.clock.advance(seconds=100)

    assert await job.result(timeout=5) == [0, 1, 2]
    assert len(calls) == 6
