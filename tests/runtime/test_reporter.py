"""Lines of runs are written, or a line in their place says how many were not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from cortex_plane.errors import Unavailable
from cortex_plane.jobs.model import JobId, RunId
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from cortex_plane.worker import reporter as reporting
from cortex_plane.worker.reporter import Reporter
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

RUN, OTHER = RunId("01900000-0000-7000-8000-000000000001"), RunId("01900000-0000-7000-8000-000000000002")


@pytest.fixture
async def job(store: Store, clock: ManualClock) -> JobId:
    return await Scene(store, clock).submit()


@pytest.fixture
def reporter(store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Reporter:
    monkeypatch.setattr(reporting, "MOST_WAITING", 10)
    return Reporter(store, clock)


def tell(reporter: Reporter, job: JobId, *lines: str, run: RunId = RUN) -> None:
    for line in lines:
        reporter.tell(job, run, "log", {"level": "info", "message": line})


async def lines(store: Store, job: JobId) -> list[str]:
    return [as_json(event.data)["message"] for event in await store.events.list(job)]


def as_json(data: Any) -> Any:
    return json.loads(data) if isinstance(data, str) else data


async def test_lines_past_the_limit_are_counted_in_their_place(store: Store, job: JobId, reporter: Reporter) -> None:
    tell(reporter, job, *(f"line {number}" for number in range(1_010)))
    await reporter.once()
    tell(reporter, job, "after that")
    await reporter.once()

    said = await lines(store, job)
    assert said[:10] == [f"line {number}" for number in range(10)]
    assert said[10:] == ["1,000 lines were dropped here: there were more than could be stored.", "after that"]


async def test_each_run_is_told_of_its_own_lines(store: Store, job: JobId, reporter: Reporter) -> None:
    tell(reporter, job, *"abcdefghij")
    tell(reporter, job, "lost", run=OTHER)
    tell(reporter, job, "lost", "lost")
    await reporter.once()

    dropped = [(event.run_id, as_json(event.data)["message"]) for event in await store.events.list(job)][10:]
    assert dropped == [
        (OTHER, "1 line was dropped here: there were more than could be stored."),
        (RUN, "2 lines were dropped here: there were more than could be stored."),
    ]


async def test_what_cannot_be_written_now_is_written_later(
    store: Store, job: JobId, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(events: object) -> None:
        raise Unavailable("the database is away")

    tell(reporter, job, "one", "two")
    reporter.tell(job, RUN, "progress", {"done": 1})
    with monkeypatch.context() as patch:
        patch.setattr(type(store.events), "add", lambda self, events: away(events))
        with pytest.raises(Unavailable):
            await reporter.once()
    tell(reporter, job, "three")
    await reporter.once()

    assert [event.kind for event in await store.events.list(job)].count("progress") == 1
    assert await kept(store, job) == ["one", "two", "three"]


async def test_lines_are_kept_when_writing_them_is_interrupted(
    store: Store, job: JobId, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a duty is when it takes too long, or when its worker leaves."""
    begun = asyncio.Event()

    async def hang(self: Any, events: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    tell(reporter, job, "one", "two")
    with monkeypatch.context() as patch:
        patch.setattr(type(store.events), "add", hang)
        writing = asyncio.ensure_future(reporter.once())
        await begun.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    await reporter.once()

    assert await kept(store, job) == ["one", "two"]


async def test_a_stream_of_lines_does_not_keep_the_reporter_from_ending_its_turn(
    store: Store, job: JobId, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, told = type(store.events).add, 0

    async def add_and_tell(self: Any, events: list[Any]) -> None:
        nonlocal told
        await add(self, events)
        told += 1
        assert told < 1_000, "it never ends"
        tell(reporter, job, f"{told}")

    monkeypatch.setattr(type(store.events), "add", add_and_tell)
    tell(reporter, job, "0")

    assert await reporter.once() == 0.0


async def test_what_cannot_be_written_before_a_worker_ends_is_counted_in_its_log(
    store: Store, job: JobId, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(self: Any, events: object) -> None:
        raise Unavailable("the database is away")

    tell(reporter, job, "one", "two")
    monkeypatch.setattr(type(store.events), "add", away)
    with capture_logs() as logged:
        await reporter.finish()

    assert [(line["event"], line["lines"]) for line in logged] == [("log_lines_not_stored", 2)]


async def kept(store: Store, job: JobId) -> list[str]:
    return [as_json(event.data)["message"] for event in await store.events.list(job) if event.kind == "log"]


async def test_one_line_that_is_refused_takes_no_other_with_it(
    store: Store, job: JobId, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = type(store.events).add

    async def refuse(self: Any, events: list[Any]) -> None:
        if any("poison" in event.data for event in events):
            raise ValueError("no")
        await add(self, events)

    monkeypatch.setattr(type(store.events), "add", refuse)
    tell(reporter, job, "one", "two", "poison", "three")
    await reporter.once()

    assert await kept(store, job) == ["one", "two", "1 line was dropped here: there were more than could be stored.", "three"]
