"""Which job comes first: priority, then the order of submission; not before its time; one of a key at a time."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from cortex_plane import Agent, Backoff, Context, JobStatus, RetryPolicy
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, working

pytestmark = pytest.mark.anyio


class Starts:
    """An agent that notes which job started when."""

    def __init__(self, plane: TestPlane) -> None:
        self.words: list[str] = []

        @plane.agent("note")
        async def note(ctx: Context, word: str) -> None:
            self.words.append(word)

        self.agent: Agent[[str], None] = note


async def test_jobs_start_in_the_order_of_submission(plane: TestPlane) -> None:
    starts = Starts(plane)

    await plane.submit_many([starts.agent.submission(word) for word in "abcdef"])
    await starts.agent.submit("g")
    await plane.work(concurrency=1)

    assert starts.words == list("abcdefg")


async def test_a_higher_priority_starts_first(plane: TestPlane) -> None:
    starts = Starts(plane)

    for word, priority in [("low", -5), ("first", 10), ("usual", 0), ("second", 10), ("top", 1_000_000), ("last", -1_000_000)]:
        await starts.agent.options(priority=priority).submit(word)
    await plane.work(concurrency=1)

    assert starts.words == ["top", "first", "second", "usual", "low", "last"]


async def test_a_due_retry_keeps_its_place(plane: TestPlane) -> None:
    starts = Starts(plane)
    retry = RetryPolicy(backoff=Backoff(base_seconds=10, jitter=False))

    @plane.agent("stumble", retry=retry)
    async def stumble(ctx: Context) -> None:
        starts.words.append(f"stumble {ctx.attempt}")
        if ctx.attempt == 1:
            raise ValueError("once")

    early = await stumble.submit()
    position = (await early.job()).position
    await plane.work()
    await starts.agent.submit("later")
    await plane.clock.advance(seconds=10)
    await plane.work(concurrency=1)

    assert starts.words == ["stumble 1", "stumble 2", "later"]
    assert (await early.job()).position == position


async def test_a_delayed_job_starts_when_it_is_due(plane: TestPlane) -> None:
    starts = Starts(plane)
    delays: list[float | timedelta] = [90, 90.0, timedelta(minutes=1, seconds=30)]

    jobs = [await starts.agent.options(delay=delay).submit("late") for delay in delays]
    await plane.work()
    await plane.clock.advance(seconds=89)
    await plane.work()
    too_early = list(starts.words)
    await plane.clock.advance(seconds=1)
    await plane.work()

    assert too_early == []
    assert starts.words == ["late"] * 3
    assert [await job.status() for job in jobs] == [JobStatus.COMPLETED] * 3


async def test_a_job_with_run_at_starts_at_that_moment(plane: TestPlane) -> None:
    starts = Starts(plane)
    moment = plane.clock.moment() + timedelta(hours=1)

    job = await starts.agent.options(run_at=moment).submit("hour")
    await plane.clock.set(moment - timedelta(microseconds=1))
    await plane.work()
    too_early = list(starts.words)
    await plane.clock.set(moment)
    await plane.work()

    assert too_early == []
    assert starts.words == ["hour"]
    assert (await job.job()).run_at == moment


async def test_a_run_at_in_the_past_is_due_now(plane: TestPlane) -> None:
    starts = Starts(plane)

    await starts.agent.options(run_at=plane.clock.moment() - timedelta(days=30)).submit("overdue")
    await plane.work()

    assert starts.words == ["overdue"]


async def test_a_delayed_job_is_passed_by_those_that_are_ready(plane: TestPlane) -> None:
    starts = Starts(plane)

    await starts.agent.options(delay=60, priority=10).submit("patient")
    await starts.agent.submit("ready")
    await plane.work()
    await plane.clock.advance(minutes=1)
    await starts.agent.submit("new")
    await plane.work(concurrency=1)

    assert starts.words == ["ready", "patient", "new"]


async def test_a_running_worker_starts_a_job_that_falls_due(plane: TestPlane) -> None:
    starts = Starts(plane)

    job = await starts.agent.options(delay=3600).submit("due")
    async with working(plane):
        await plane.clock.advance(hours=1)
        await job.result(timeout=PATIENCE_SECONDS)

    assert starts.words == ["due"]


class Overlap:
    """An agent that counts how many of its jobs run at once, by key."""

    def __init__(self, plane: TestPlane) -> None:
        self.running: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.order: list[str] = []

        @plane.agent("overlap")
        async def overlap(ctx: Context, key: str, word: str) -> None:
            self.order.append(word)
            self.running[key] = self.running.get(key, 0) + 1
            self.most[key] = max(self.most.get(key, 0), self.running[key])
            await asyncio.sleep(0.01)
            self.running[key] -= 1

        self.agent: Agent[[str, str], None] = overlap


async def test_of_one_serial_key_one_job_runs_at_a_time_and_in_order(plane: TestPlane) -> None:
    overlap = Overlap(plane)

    for number in range(12):
        key = "ab"[number % 2]
        await overlap.agent.options(serial_key=key).submit(key, f"{key}{number}")
    await plane.work(concurrency=10)

    assert overlap.most == {"a": 1, "b": 1}
    assert [word for word in overlap.order if word[0] == "a"] == ["a0", "a2", "a4", "a6", "a8", "a10"]
    assert len(overlap.order) == 12


async def test_two_workers_keep_a_serial_key_apart_too(plane: TestPlane) -> None:
    overlap = Overlap(plane)

    await plane.submit_many([overlap.agent.options(serial_key="a").submission("a", str(number)) for number in range(10)])
    async with working(plane, name="one"), working(plane, name="two"):
        for summary in await plane.jobs.list():
            await plane.jobs.result(summary.id, timeout=20)

    assert overlap.most == {"a": 1}
    assert overlap.order == [str(number) for number in range(10)]


async def test_a_serial_job_that_is_not_due_blocks_nobody(plane: TestPlane) -> None:
    overlap = Overlap(plane)

    await overlap.agent.options(serial_key="a", delay=60).submit("a", "later")
    await overlap.agent.options(serial_key="a").submit("a", "now")
    await plane.work()
    await plane.clock.advance(minutes=1)
    await plane.work()

    assert overlap.order == ["now", "later"]


async def test_a_serial_job_that_waits_for_its_retry_blocks_nobody(plane: TestPlane) -> None:
    order: list[str] = []

    @plane.agent("stumble", retry=RetryPolicy(backoff=Backoff(base_seconds=60, jitter=False)))
    async def stumble(ctx: Context, word: str) -> None:
        order.append(f"{word} {ctx.attempt}")
        if word == "first" and ctx.attempt == 1:
            raise ValueError("once")

    await stumble.options(serial_key="a").submit("first")
    await stumble.options(serial_key="a").submit("second")
    await plane.work()
    await plane.clock.advance(minutes=1)
    await plane.work()

    assert order == ["first 1", "second 1", "first 2"]


async def test_a_cancelled_serial_job_makes_way(plane: TestPlane) -> None:
    overlap = Overlap(plane)

    first = await overlap.agent.options(serial_key="a").submit("a", "first")
    await overlap.agent.options(serial_key="a").submit("a", "second")
    await first.cancel()
    await plane.work()

    assert overlap.order == ["second"]
