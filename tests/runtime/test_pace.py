"""How much a worker claims ahead: a tenth of a second's worth of what it gets through, nothing for slow agents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from cortex_plane import Context, JobStatus, Submission
from cortex_plane.clock import Instant
from cortex_plane.jobs.model import INTERNAL_QUEUE, Claimed, WorkerId
from cortex_plane.testing import TestPlane
from cortex_plane.worker.claims import MOST_AHEAD, Pace
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, status_becomes, working

QUICK_SECONDS = 0.001
SLOW_SECONDS = 0.5


class StepClock:
    """Elapsed time goes on only when told."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> Instant:
        raise AssertionError("Pace has no use for the time of day.")

    def elapsed(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def steady(pace: Pace, clock: StepClock, rate: int, seconds: float = 1.0, each_took: float = QUICK_SECONDS) -> int:
    """So many jobs in a second, evenly, while the worker claims every ten milliseconds; what it claims ahead at the end."""
    ahead = 0
    for _ in range(round(seconds * 100)):
        clock.seconds += 0.01
        for _ in range(rate // 100):
            pace.ran("work", each_took)
        ahead = pace.ahead()
    return ahead


def test_a_worker_that_has_done_nothing_claims_nothing_ahead() -> None:
    assert Pace(StepClock()).ahead() == 0


@pytest.mark.parametrize("rate", [200, 1000, 5000])
def test_what_is_claimed_ahead_lasts_about_a_tenth_of_a_second(rate: int) -> None:
    clock = StepClock()

    ahead = steady(Pace(clock), clock, rate)

    assert ahead == pytest.approx(rate / 10, rel=0.3)


@pytest.mark.parametrize("rate", [200, 1000, 5000])
def test_it_claims_again_when_what_is_left_lasts_as_long_as_a_claim_takes(rate: int) -> None:
    clock = StepClock()
    pace = Pace(clock)

    ahead = steady(pace, clock, rate)

    assert rate * 0.02 < pace.little() < ahead / 2


def test_there_is_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StepClock()

    assert steady(Pace(clock), clock, 50_000) == MOST_AHEAD


def test_a_handful_of_jobs_in_a_second_is_not_worth_claiming_ahead() -> None:
    clock = StepClock()
    pace = Pace(clock)

    for _ in range(5):
        clock.seconds += 0.2
        pace.ran("work", QUICK_SECONDS)
        ahead = pace.ahead()

    assert ahead == 0


def test_slow_agents_have_nothing_claimed_ahead() -> None:
    clock = StepClock()

    assert steady(Pace(clock), clock, 1000, each_took=SLOW_SECONDS) == 0


def test_one_slow_job_among_quick_ones_is_reason_enough() -> None:
    clock = StepClock()
    pace = Pace(clock)

    steady(pace, clock, 1000)
    pace.ran("work", SLOW_SECONDS)

    assert pace.ahead() == 0


def test_slow_jobs_are_forgotten_in_time() -> None:
    clock = StepClock()
    pace = Pace(clock)

    pace.ran("work", SLOW_SECONDS)
    ahead = steady(pace, clock, 1000, seconds=5.0)

    assert ahead > 50


def test_after_an_idle_spell_the_first_claim_is_small_again() -> None:
    clock = StepClock()
    pace = Pace(clock)

    busy = steady(pace, clock, 1000)
    clock.seconds += 60

    assert busy > 50
    assert pace.ahead() == 0


@pytest.mark.anyio
async def test_a_worker_with_slow_jobs_leaves_the_rest_to_others(plane: TestPlane) -> None:
    go_on = asyncio.Event()

    @plane.agent("slow")
    async def slow(ctx: Context) -> None:
        await go_on.wait()

    jobs = await plane.submit_many([Submission("slow")] * 10)
    async with working(plane, concurrency=2):
        await status_becomes(jobs[1], JobStatus.RUNNING)
        await asyncio.sleep(0.2)  # Time enough to claim more, if it wanted to.
        statuses = [await job.status() for job in jobs]
        go_on.set()
        for job in jobs:
            await job.result(timeout=PATIENCE_SECONDS)

    assert statuses == [JobStatus.RUNNING] * 2 + [JobStatus.PENDING] * 8


@pytest.fixture
async def claims(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each claim has brought, as they come."""
    queue = plane.store.queue
    sizes: list[int] = []
    claim = queue.claim

    async def counted(worker_id: WorkerId, queues: Sequence[str], *values: Any) -> list[Claimed]:
        claimed = await claim(worker_id, queues, *values)
        if INTERNAL_QUEUE not in queues:
            sizes.append(len(claimed))
        return claimed

    monkeypatch.setattr(queue, "claim", counted)
    return sizes


@pytest.mark.anyio
async def test_what_is_claimed_ahead_comes_in_a_few_large_claims(
    plane: TestPlane, claims: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "ahead", lambda _pace: 20)

    @plane.agent("quick")
    async def quick(ctx: Context) -> None: ...

    await plane.submit_many([quick.submission() for _ in range(100)])
    async with working(plane, concurrency=1):
        await eventually(lambda: _claimed(claims, 100))

    taken = [size for size in claims if size > 0]
    assert sum(taken) == 100
    assert len(taken) <= 15


@pytest.mark.anyio
async def test_while_jobs_wait_here_a_claim_that_found_nothing_is_not_repeated(
    plane: TestPlane, claims: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "ahead", lambda _pace: 40)
    monkeypatch.setattr(Pace, "little", lambda _pace: 40)
    when_begun: list[int] = []

    @plane.agent("brief")
    async def brief(ctx: Context) -> None:
        when_begun.append(claims.count(0))
        await asyncio.sleep(0.002)

    jobs = await plane.submit_many([brief.submission() for _ in range(30)])
    async with working(plane, concurrency=1):
        for job in jobs:
            await job.result(timeout=PATIENCE_SECONDS)

    assert len(when_begun) == 30
    assert when_begun[-1] - when_begun[0] <= 2


async def _claimed(claims: list[int], jobs: int) -> bool:
    return sum(claims) >= jobs
