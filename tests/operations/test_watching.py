"""Many who follow jobs and lists: one look serves them all, and whoever follows what rests reads nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from typing import Any

import pytest

from cortex_plane import Context
from cortex_plane.jobs import follow as watch_jobs
from cortex_plane.jobs import watch_lists
from cortex_plane.jobs.events import StateChanged
from cortex_plane.jobs.follow import JobWatch, follow_job
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.search import JobPage, JobWish
from cortex_plane.jobs.watch_lists import ListKey, ListWatch
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import eventually

pytestmark = pytest.mark.anyio

MANY = 20
SHORT_SECONDS = 0.02


@pytest.fixture(autouse=True)
def in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (watch_jobs, watch_lists):
        monkeypatch.setattr(module, "SHORTEST_PAUSE_SECONDS", SHORT_SECONDS)
        monkeypatch.setattr(module, "PAUSES_FOR_A_LOOK", 0)
    monkeypatch.setattr(watch_jobs, "LOOK_SECONDS", SHORT_SECONDS)


def counted(owner: Any, verb: str, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    calls: Counter[str] = Counter()
    real = getattr(owner, verb)

    async def call(*values: Any, **options: Any) -> Any:
        calls[verb] += 1
        return await real(*values, **options)

    monkeypatch.setattr(owner, verb, call)
    return calls


def agent(plane: TestPlane) -> Any:
    @plane.agent("echo")
    async def echo(ctx: Context) -> None:
        ctx.log.info("said")

    return echo


async def test_whoever_follows_a_job_that_rests_reads_nothing(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    store = plane.store
    echo = agent(plane)
    jobs = [(await echo.options(delay=60).submit()).id for _ in range(MANY)]
    watch = JobWatch(store, plane.clock)
    reads = counted(store.jobs, "get", monkeypatch)
    looks = counted(store.events, "marks", monkeypatch)
    told: Counter[str] = Counter()

    async def listen(job_id: JobId) -> None:
        async with aclosing(follow_job(store, plane.clock, job_id, watch=watch)) as stream:  # type: ignore[type-var]
            async for one in stream:
                told[one.news.type] += 1

    listeners = [asyncio.create_task(listen(job_id)) for job_id in jobs]
    await eventually(lambda: _true(told["nothing"] >= MANY))  # Each was woken once, because nothing was known of it.
    known, looked = reads["get"], looks["marks"]
    await eventually(lambda: _true(looks["marks"] >= looked + 5))
    for listener in listeners:
        listener.cancel()
    await asyncio.gather(*listeners, return_exceptions=True)

    assert told["state"] == MANY
    assert reads["get"] == known
    await eventually(lambda: _true(watch._looking is not None and watch._looking.done()))


async def test_whoever_follows_a_job_is_told_all_of_it_also_by_a_watch_that_many_share(plane: TestPlane) -> None:
    store = plane.store
    job = await agent(plane).submit()
    watch = JobWatch(store, plane.clock)

    async def listen() -> list[str]:
        seen: list[str] = []
        async with aclosing(follow_job(store, plane.clock, job.id, watch=watch)) as stream:  # type: ignore[type-var]
            async for one in stream:
                seen.append(str(one.news.entry.new_status) if isinstance(one.news, StateChanged) else one.news.type)
        return [kind for kind in seen if kind != "nothing"]

    listeners = [asyncio.create_task(listen()) for _ in range(3)]
    await eventually(lambda: _true(len(watch._followers.get(job.id, ())) == 3))
    await plane.work()

    assert await asyncio.gather(*listeners) == [["PENDING", "RUNNING", "log", "COMPLETED", "ended"]] * 3


async def test_whoever_follows_the_same_list_is_told_by_the_same_look(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    store = plane.store
    echo = agent(plane)
    looks = counted(store.job_search, "page", monkeypatch)
    lists = ListWatch(store, plane.directory, plane.clock)
    seen: list[JobPage] = []

    async def listen(key: ListKey) -> None:
        async with aclosing(lists.pages(key)) as pages:  # type: ignore[type-var]
            async for page in pages:
                seen.append(page)
                if page.jobs:
                    return

    listeners = [asyncio.create_task(listen(ListKey(JobWish(), None, 50))) for _ in range(MANY)]
    await eventually(lambda: _true(len(seen) >= MANY and len(lists._lists[ListKey(JobWish(), None, 50)].waiting) == MANY))
    looked, told = looks["page"], len(seen)
    await eventually(lambda: _true(looks["page"] >= looked + 5))
    looked, told = looks["page"] - looked, len(seen) - told
    await echo.submit()
    await asyncio.gather(*listeners)

    assert told >= (looked - 1) * MANY  # The last of the looks may still be under way.
    assert [len(page.jobs) for page in seen[-MANY:]] == [1] * MANY
    assert len({id(page) for page in seen[-MANY:]}) == 1


async def _true(fact: bool) -> bool:
    return fact
