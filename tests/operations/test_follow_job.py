"""The stream of a job: everything once, in order, from any position on, until the job has ended."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from cortex_plane import Context, InvalidInput, JobNotFound
from cortex_plane.jobs.events import JobEnded, NothingNew, Position, StateChanged, TimedEvent, as_document
from cortex_plane.jobs.follow import follow_job
from cortex_plane.jobs.model import JobId
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def told(plane: TestPlane, job_id: str, position: Position | None = None) -> list[TimedEvent]:
    stream = follow_job(plane.store, plane.clock, JobId(job_id), position or Position())
    return [one async for one in stream if not isinstance(one.news, NothingNew)]


def types(stream: list[TimedEvent]) -> list[str]:
    return [one.news.type for one in stream]


async def talkative(plane: TestPlane) -> str:
    async def ask() -> dict[str, Any]:
        await plane.clock.advance(seconds=1)
        return {"text": "hi", "usage": {"input_tokens": 10, "output_tokens": 3}}

    @plane.agent("talkative")
    async def agent(ctx: Context) -> str:
        await plane.clock.advance(seconds=1)
        ctx.log.warning("begins", number=1)
        await ctx.llm("ask", ask)
        await plane.clock.advance(seconds=1)
        ctx.progress(1, 2, "half")
        await plane.clock.advance(seconds=1)
        return "done"

    job = await agent.submit()
    await plane.clock.advance(seconds=1)
    await plane.work()
    return str(job.id)


async def test_everything_is_told_once_in_the_order_in_which_it_happened(plane: TestPlane) -> None:
    job_id = await talkative(plane)

    documents = [as_document(one) for one in await told(plane, job_id)]

    assert [
        (one["type"], one.get("status") or one.get("name") or one.get("message") or one.get("done")) for one in documents
    ] == [
        ("state", "PENDING"),
        ("state", "RUNNING"),
        ("log", "begins"),
        ("step", "ask"),
        ("tokens", None),
        ("progress", 1),
        ("state", "COMPLETED"),
        ("ended", "COMPLETED"),
    ]
    by_type = {one["type"]: one for one in documents}
    assert by_type["log"] | {"data": {"number": 1}, "level": "warning"} == by_type["log"]
    assert by_type["tokens"] | {"prompt_tokens": 10, "completion_tokens": 3} == by_type["tokens"]
    assert by_type["progress"] | {"total": 2, "text": "half"} == by_type["progress"]
    assert by_type["ended"]["output"] == "done"


async def test_whoever_comes_back_with_a_position_is_told_what_came_later(plane: TestPlane) -> None:
    job_id = await talkative(plane)
    await plane.clock.advance(minutes=1)
    stream = [one for one in await told(plane, job_id) if one.news.type != "tokens"]

    for place, one in enumerate(stream[:-1]):
        again = await told(plane, job_id, Position.parse(str(one.position)))

        assert [other.news for other in again if other.news.type != "tokens"] == [other.news for other in stream[place + 1 :]]


async def test_a_live_job_is_told_as_it_goes_on(plane: TestPlane) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def nothing() -> None: ...

    @plane.agent("slow")
    async def slow(ctx: Context) -> None:
        await ctx.step("first", nothing)
        ctx.log.info("in the middle")
        reached.set()
        await go_on.wait()
        await ctx.step("second", nothing)

    job = await slow.submit()
    seen: list[str] = []
    async with aclosing(follow_job(plane.store, plane.clock, job.id)) as stream:  # type: ignore[type-var]
        working = None
        async for one in stream:
            seen.append(one.news.type if not isinstance(one.news, StateChanged) else str(one.news.entry.new_status))
            if working is None:
                working = asyncio.create_task(plane.work())
            if one.news.type == "log":
                go_on.set()
    assert working is not None
    await working

    assert reached.is_set()
    assert [kind for kind in seen if kind != "nothing"] == ["PENDING", "RUNNING", "step", "log", "step", "COMPLETED", "ended"]


async def test_a_quiet_job_is_told_to_be_there(plane: TestPlane) -> None:
    @plane.agent("later")
    async def later(ctx: Context) -> None: ...

    job = await later.options(delay=60).submit()

    async with aclosing(follow_job(plane.store, plane.clock, job.id)) as stream:  # type: ignore[type-var]
        seen = [await anext(stream) for _ in range(3)]

    assert types(seen) == ["state", "nothing", "nothing"]


async def test_a_job_that_began_anew_tells_its_steps_anew(plane: TestPlane) -> None:
    async def nothing() -> None: ...

    def deploy(prompt: str, steps: int) -> None:
        plane.agents.clear()

        @plane.agent("moody", system_prompt=prompt, on_prompt_change="restart")
        async def moody(ctx: Context) -> None:
            for number in range(steps):
                await ctx.step(f"step {number}", nothing)

    deploy("old", 3)
    job = await plane.submit("moody")
    plane.crash_after("step 1")
    await plane.work()
    deploy("new", 1)
    await plane.work()

    stream = await told(plane, job.id, Position(step_index=2))

    assert [one.news.name for one in stream if one.news.type == "step"] == ["step 0"]  # type: ignore[union-attr]


async def test_a_damaged_checkpoint_does_not_end_the_stream(plane: TestPlane, database_url: str) -> None:
    from tests.end_to_end.inspection import query

    job_id = await talkative(plane)
    await query(database_url, f"update cortex.job set checkpoint = '[]' where id = '{job_id}'")

    stream = await told(plane, job_id)

    assert "step" not in types(stream)
    assert isinstance(stream[-1].news, JobEnded)


async def test_an_unknown_job_has_no_stream(plane: TestPlane) -> None:
    with pytest.raises(JobNotFound):
        await told(plane, "01234567-0000-7000-8000-000000000000")


@pytest.mark.parametrize("text", ["", "1.2", "1.2.x", "-1.0.0", "1.2.3.4", "1.2.٣", "1.2.9999999999999999999"])
def test_what_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Position.parse(text)
