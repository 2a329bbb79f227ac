"""`RetryAfter`: a busy service says when to come back. It costs no retry, and may hold the siblings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cortex_plane import Context, InvalidInput, JobFailed, JobStatus, RetryAfter, RetryPolicy
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import RunId
from cortex_plane.jobs.retry import Backoff
from cortex_plane.queues.model import Scope
from cortex_plane.testing import TestPlane
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

ONCE = RetryPolicy(max_retries=0)


class Service:
    """Takes so many calls in a window of ten seconds, and refuses the others."""

    def __init__(self, plane: TestPlane, capacity: int) -> None:
        self._plane, self.capacity = plane, capacity
        self.taken: list[int] = []
        self.refused = 0

    async def call(self, scope: Any = "agent") -> int:
        now = self._plane.clock.now() // 1_000_000
        window = now - now % 10
        if sum(one >= window for one in self.taken) >= self.capacity:
            self.refused += 1
            raise RetryAfter(window + 10 - now, "busy", scope=scope)
        self.taken.append(now)
        return now


# -- what it takes -------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["30", None, True, float("nan"), float("inf"), [1]])
def test_the_wait_comes_first_and_is_a_length(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r'RetryAfter\(30, "busy"\)') as caught:
        RetryAfter(wrong)
    assert caught.value.field == "seconds"


def test_swapped_arguments_are_refused() -> None:
    with pytest.raises(InvalidInput, match="takes the wait first"):
        RetryAfter("busy", 30)  # type: ignore[arg-type]


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(InvalidInput, match='"job", "agent" or "queue"'):
        RetryAfter(1, scope="tenant")  # type: ignore[arg-type]


def test_a_timedelta_is_a_length_and_the_past_is_now() -> None:
    assert RetryAfter(timedelta(minutes=2)).seconds == 120
    assert RetryAfter(-5).seconds == 0


# -- the job -------------------------------------------------------------------------------------


async def test_it_spends_no_retry(plane: TestPlane) -> None:
    tries: list[int] = []

    @plane.agent("patient", retry=ONCE)
    async def patient(ctx: Context) -> str:
        tries.append(1)
        if len(tries) < 4:
            raise RetryAfter(30, "busy")
        return "done"

    job = await patient.submit()
    for _ in range(3):
        await plane.work()
        waiting = await job.job()
        assert (waiting.status, waiting.retry_count) == (JobStatus.RETRY, 0)
        await plane.clock.advance(seconds=30)
    await plane.work()

    assert await job.result(timeout=5) == "done"


async def test_a_wait_beyond_the_agents_longest_fails_the_job(plane: TestPlane) -> None:
    @plane.agent("hasty", max_retry_after=60)
    async def hasty(ctx: Context) -> None:
        raise RetryAfter(61, "closed until Monday")

    job = await hasty.submit()
    await plane.work()

    with pytest.raises(JobFailed, match=r"61 s; the agent's max_retry_after is 60 s\. closed until Monday"):
        await job.result(timeout=5)


async def test_raised_in_a_step_the_job_waits_and_what_is_recorded_stays(plane: TestPlane) -> None:
    calls: list[str] = []

    async def ask(name: str) -> str:
        calls.append(name)
        if name == "second" and calls.count("second") == 1:
            raise RetryAfter(30, "busy")
        return name

    @plane.agent("steps", retry=ONCE)
    async def steps(ctx: Context) -> list[str]:
        return [await ctx.step(name, ask, name) for name in ("first", "second")]

    job = await steps.submit()
    await plane.work()
    assert await job.status() is JobStatus.RETRY
    await plane.clock.advance(seconds=30)
    await plane.work()

    assert await job.result(timeout=5) == ["first", "second"]
    assert calls == ["first", "second", "second"]


async def test_a_step_with_retries_of_its_own_waits_without_spending_one(plane: TestPlane) -> None:
    calls: list[str] = []

    async def ask() -> str:
        calls.append("x")
        if len(calls) <= 3:
            raise RetryAfter(0, "busy")
        if len(calls) == 4:
            raise ValueError("an ordinary failure")
        return "done"

    @plane.agent("own", retry=ONCE)
    async def own(ctx: Context) -> str:
        return await ctx.step("ask", retry=RetryPolicy(max_retries=1, backoff=Backoff(0)))(ask)

    job = await own.submit()
    await plane.work()

    assert await job.result(timeout=5) == "done"
    assert len(calls) == 5


async def test_a_service_that_always_says_zero_is_not_asked_without_a_pause(plane: TestPlane) -> None:
    """Neither by the job, nor by a step with retries of its own."""
    calls: list[str] = []

    async def ask(name: str) -> str:
        calls.append(name)
        if calls.count(name) < 3:
            raise RetryAfter(0, "busy")
        return name

    @plane.agent("polite", retry=RetryPolicy(max_retries=0, backoff=Backoff(30, jitter=False)))
    async def polite(ctx: Context) -> str:
        return await ctx.step("ask", ask, "job")

    job = await polite.submit()
    await plane.work()
    assert (await job.status(), calls) == (JobStatus.RETRY, ["job"])
    await plane.clock.advance(seconds=29)
    await plane.work()
    assert calls == ["job"]
    for _ in range(2):
        await plane.clock.advance(seconds=30)
        await plane.work()

    assert (await job.result(timeout=5), len(calls)) == ("job", 3)


# -- the siblings --------------------------------------------------------------------------------


async def test_a_batch_that_shares_a_limit_is_refused_a_few_times_in_all(plane: TestPlane) -> None:
    service, count, concurrency = Service(plane, capacity=10), 40, 2

    @plane.agent("caller", retry=ONCE)
    async def caller(ctx: Context) -> int:
        return await service.call()

    jobs = [await caller.submit() for _ in range(count)]
    windows = 0
    while len(service.taken) < count:
        await plane.work(concurrency=concurrency)
        await plane.clock.advance(seconds=10)
        windows += 1
        assert windows <= 10
    await plane.work(concurrency=concurrency)

    assert [await job.status() for job in jobs] == [JobStatus.COMPLETED] * count
    assert windows == count / service.capacity
    assert service.refused <= windows * 3 * concurrency  # What was running or claimed when the first was refused.


@pytest.mark.parametrize("scope", ["agent", "queue"])
async def test_only_the_siblings_are_held_and_only_so_long(plane: TestPlane, scope: Any) -> None:
    calls: list[str] = []

    def register(name: str, queue: str) -> Any:
        @plane.agent(name, queue=queue, retry=ONCE)
        async def work(ctx: Context, busy: bool = False) -> None:
            calls.append(name)
            if busy and calls.count(name) == 1:
                raise RetryAfter(60, "busy", scope=scope)

        return work

    first, same_queue, elsewhere = register("first", "one"), register("second", "one"), register("third", "two")
    await first.submit(busy=True)
    await plane.work(concurrency=1)
    waiting = await first.submit()
    await same_queue.submit()
    await elsewhere.submit()
    await plane.work()

    assert sorted(calls) == (["first", "second", "third"] if scope == "agent" else ["first", "third"])
    [reason, *_] = await plane.jobs.why(waiting.id)
    assert reason.code == f"{scope}_held"
    assert "busy (job " in reason.message
    await plane.clock.advance(seconds=60)
    await plane.work()
    assert await waiting.status() is JobStatus.COMPLETED
    assert sorted(calls) == ["first", "first", "first", "second", "third"]
    await plane.store.controls.end_holds()
    assert await plane.store.controls.list() == []


async def test_an_operator_lifts_a_hold(plane: TestPlane) -> None:
    @plane.agent("held", retry=ONCE)
    async def held(ctx: Context, busy: bool = False) -> None:
        if busy:
            raise RetryAfter(600, "busy", scope="agent")

    await held.submit(busy=True)
    await plane.work()
    job = await held.submit()
    await plane.work()
    assert await job.status() is JobStatus.PENDING

    assert await plane.queues.resume(agent="held")
    await plane.work()

    assert await job.status() is JobStatus.COMPLETED


# -- the store -----------------------------------------------------------------------------------


async def test_a_hold_is_fenced_and_the_longest_stays(plane: TestPlane) -> None:
    scene = Scene(plane.store, plane.clock)
    claimed, controls = await scene.running(), scene.store.controls
    await controls.hold(Scope.AGENT, "echo", 60, "late", claimed._replace(run_id=RunId(new_id())))
    assert await controls.list() == []

    await controls.hold(Scope.AGENT, "echo", 60, "long", claimed)
    await controls.hold(Scope.AGENT, "echo", 10, "short", claimed)

    [control] = await controls.list()
    assert control.held_until is not None
    assert (control.held_until - scene.now).total_seconds() == 60
    assert not await controls.end_holds()
    await scene.clock.advance(seconds=60)
    assert await controls.end_holds()
    assert not await controls.end_holds()


async def test_the_end_of_a_hold_leaves_what_else_is_set(plane: TestPlane) -> None:
    scene = Scene(plane.store, plane.clock)
    claimed, controls = await scene.running(), scene.store.controls
    await plane.queues.limit(7, agent="echo")
    await controls.hold(Scope.AGENT, "echo", 60, "busy", claimed)
    await plane.queues.limit(8, agent="echo")
    [during] = await controls.list()
    await scene.clock.advance(seconds=60)
    await controls.end_holds()

    [after] = await controls.list()
    assert (during.held_until is not None, during.max_running) == (True, 8)
    assert (after.held_until, after.max_running) == (None, 8)
