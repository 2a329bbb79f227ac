"""Whatever a handler does, its job ends with a clear error and its worker goes on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Context, JobFailed, JobHandle, JobStatus, RunStatus
from cortex_plane.testing import TestPlane
from cortex_plane.worker.failures import failed
from tests.runtime.helpers import PATIENCE_SECONDS, status_becomes, working
from tests.unchecked import submit_unchecked

pytestmark = pytest.mark.anyio


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Leaving(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def circle() -> dict[str, Any]:
    itself: dict[str, Any] = {}
    itself["itself"] = itself
    return itself


def nested(depth: int) -> list[Any]:
    result: list[Any] = []
    for _ in range(depth):
        result = [result]
    return result


def nested_calls() -> Any:
    return nested_calls()


def raises(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


# What the handler does, and the error's type and a part of its message.
DEEDS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "an error that cannot be shown": (raises(Unspeakable()), "Unspeakable", "cannot be shown"),
    "an error without words": (raises(ValueError()), "ValueError", "ValueError"),
    "NUL and half surrogates in the message": (raises(ValueError("a\x00b\ud800c")), "ValueError", r"a\x00b\ud800c"),
    "a message of ten million characters": (raises(ValueError("x" * 10_000_000)), "ValueError", "xxx"),
    "a group of errors": (raises(ExceptionGroup("both", [ValueError("a"), KeyError("b")])), "ExceptionGroup", "both"),
    "sys.exit": (lambda: sys.exit(7), "SystemExit", "7"),
    "KeyboardInterrupt": (raises(KeyboardInterrupt()), "KeyboardInterrupt", "KeyboardInterrupt"),
    "a cancellation of its own": (raises(asyncio.CancelledError("mine")), "CancelledError", "mine"),
    "a timeout of its own": (raises(TimeoutError("mine")), "TimeoutError", "mine"),
    "endless recursion": (nested_calls, "RecursionError", "recursion"),
    "a result that is not JSON": (object, "InvalidInput", "result is of type object"),
    "a set deep in the result": (lambda: {"list": [1, {2}]}, "InvalidInput", "result.list[1] is of type set"),
    "NaN": (lambda: {"rate": float("nan")}, "InvalidInput", "result.rate is nan"),
    "infinity": (lambda: [float("inf")], "InvalidInput", "result[0] is inf"),
    "NUL": (lambda: {"text": "a\x00b"}, "InvalidInput", "result.text contains a NUL"),
    "half a surrogate": (lambda: "\ud800", "InvalidInput", "surrogate"),
    "a number as a key": (lambda: {1: 2}, "InvalidInput", "keys must be text"),
    "too deep": (lambda: nested(300), "InvalidInput", "nested more than"),
    "a circle": (circle, "InvalidInput", "nested more than"),
    "an integer of a thousand digits": (lambda: 10**1000, "InvalidInput", "beyond 64 bits"),
}


async def error_of(job: JobHandle[Any]) -> tuple[str, str]:
    with pytest.raises(JobFailed) as failure:
        await job.result(timeout=PATIENCE_SECONDS)
    return (await job.job()).error["type"], str(failure.value)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_bad_deed_fails_its_job_and_the_same_worker_goes_on(plane: TestPlane, kind: str) -> None:
    async def asynchronous(ctx: Context, deed: str) -> Any:
        return DEEDS[deed][0]()

    def plain(ctx: Context, deed: str) -> Any:
        return DEEDS[deed][0]()

    bad = plane.agent("bad", max_retries=0)(asynchronous if kind == "async" else plain)

    @plane.agent("good")
    async def good(ctx: Context) -> str:
        return "fine"

    jobs, answers = [], []
    async with working(plane, concurrency=1):
        for deed, (_, error_type, message) in DEEDS.items():
            jobs.append(await bad.submit(deed))
            found_type, found = await error_of(jobs[-1])
            assert (deed, found_type, message in found) == (deed, error_type, True), found
            assert len(found) < 10_000
            answers.append(await (await good.submit()).result(timeout=PATIENCE_SECONDS))

    assert answers == ["fine"] * len(DEEDS)
    runs = [run for job in jobs for run in await job.runs()]
    assert [run.status for run in runs] == [RunStatus.FAILED] * len(DEEDS)
    assert len({run.worker_id for run in runs}) == 1


async def test_a_plain_function_that_raises_what_ends_a_loop_fails_like_any_other(plane: TestPlane) -> None:
    errors = {error.__name__: error for error in (StopIteration, GeneratorExit, StopAsyncIteration)}

    @plane.agent("loop", max_retries=0)
    def loop(ctx: Context, name: str) -> Any:
        raise errors[name]

    async with working(plane):
        for name in errors:
            found_type, _ = await error_of(await loop.submit(name))
            assert found_type in (name, "RuntimeError")


async def test_an_async_handler_that_raises_stop_iteration_fails_like_any_other(plane: TestPlane) -> None:
    @plane.agent("empty", max_retries=0)
    async def empty(ctx: Context) -> Any:
        return next(iter([]))

    async with working(plane):
        _, message = await error_of(await empty.submit())

    assert "StopIteration" in message


async def test_an_error_whose_words_end_the_program_is_described_all_the_same() -> None:
    described = failed(Leaving())

    assert described.error["type"] == "Leaving"
    assert described.message


async def test_a_result_that_is_refused_is_not_tried_again(plane: TestPlane) -> None:
    @plane.agent("wrong", max_retries=5)
    async def wrong(ctx: Context) -> Any:
        return {1, 2}

    job = await wrong.submit()
    await plane.work()

    assert ((await job.job()).status, (await job.job()).attempt) == (JobStatus.FAILED, 1)


async def test_a_handler_that_swallows_its_interruption_does_not_hold_up_the_worker(
    plane: TestPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_plane.worker.worker.FINAL_WRITES_SECONDS", 0.2)
    started, let_go = asyncio.Event(), asyncio.Event()

    @plane.agent("deaf")
    async def deaf(ctx: Context) -> None:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    job = await deaf.submit()
    async with working(plane):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        plane.stop_workers()
    waiting = await job.job()
    let_go.set()

    assert (waiting.status, waiting.wait_reason, waiting.retry_count) == (JobStatus.RETRY, "interrupted", 0)
    assert [run.status for run in await job.runs()] == [RunStatus.INTERRUPTED]


async def test_a_handler_that_swallows_its_timeout_keeps_its_slot_but_not_the_other_ones(plane: TestPlane) -> None:
    started, let_go = asyncio.Event(), asyncio.Event()

    @plane.agent("deaf", run_timeout=0.1, max_retries=0)
    async def deaf(ctx: Context) -> str:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    @plane.agent("good")
    async def good(ctx: Context) -> str:
        return "fine"

    job = await deaf.submit()
    async with working(plane, concurrency=2):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        answers = [await (await good.submit()).result(timeout=PATIENCE_SECONDS) for _ in range(5)]
        let_go.set()
        await status_becomes(job, JobStatus.COMPLETED, JobStatus.FAILED)

    assert answers == ["fine"] * 5
    assert len(await job.runs()) == 1


async def test_a_payload_that_does_not_fit_the_handler_fails_with_the_argument_named(plane: TestPlane) -> None:
    @plane.agent("picky", max_retries=0)
    async def picky(ctx: Context, number: int) -> int:
        return number

    payloads: list[tuple[dict[str, Any], str]] = [
        ({}, "number"),
        ({"number": 1, "other": 2}, "other"),
        ({"number": 1, "ctx": 2}, "ctx"),
        ({"Number": 1}, "Number"),
    ]
    good = await plane.submit("picky", {"number": 3})
    jobs = [await submit_unchecked(plane, "picky", payload) for payload, _ in payloads]
    await plane.work()

    for job, (_, named) in zip(jobs, payloads, strict=True):
        stored = await job.job()
        assert (stored.status, named in str(stored.error_message)) == (JobStatus.FAILED, True)
    assert await good.result() == 3


async def test_one_bad_job_among_many_fails_alone(plane: TestPlane) -> None:
    @plane.agent("mixed", max_retries=0)
    async def mixed(ctx: Context, number: int) -> Any:
        return object() if number == 17 else number

    jobs = [await mixed.submit(number) for number in range(40)]
    await plane.work(concurrency=40)

    statuses = [await job.status() for job in jobs]
    assert statuses.pop(17) is JobStatus.FAILED
    assert set(statuses) == {JobStatus.COMPLETED}


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_arguments_that_the_handler_does_not_take_cost_no_retries(plane: TestPlane, kind: str) -> None:
    async def waits(ctx: Context, size: int) -> int:
        return size

    def blocks(ctx: Context, size: int) -> int:
        return size

    plane.agent("sized", max_retries=5)(waits if kind == "async" else blocks)
    job = await submit_unchecked(plane, "sized", {"sice": 1})
    await plane.run_worker(until_idle=True)

    ended = await job.job()
    assert (ended.status, ended.attempt, ended.retry_count) == (JobStatus.FAILED, 1, 0)
    expected = 'There is no argument "sice". Did you mean "size"? Agent "sized" takes (size: int).'
    assert ended.error_message == expected


async def test_a_type_error_inside_a_handler_is_retried_like_any_other(plane: TestPlane) -> None:
    @plane.agent("adds", max_retries=1)
    def adds(ctx: Context) -> Any:
        return 1 + "1"  # type: ignore[operator]

    job = await adds.submit()
    await plane.run_worker(until_idle=True)

    assert (await job.job()).retry_count == 1
