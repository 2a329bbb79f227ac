"""Steering through the plane, with workers at work."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane import Context, JobCancelled, JobFailed, JobStatus
from cortex_plane.errors import InvalidInput, QueueBusy, TenantNotFound, UnknownAgent
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, status_becomes, working

pytestmark = pytest.mark.anyio


async def codes(plane: TestPlane, job_id: str) -> list[str]:
    return [reason.code for reason in await plane.jobs.why(job_id)]


def add_agents(plane: TestPlane) -> dict[str, asyncio.Event]:
    gates = {"go": asyncio.Event()}

    @plane.agent("echo")
    async def echo(ctx: Context, n: int = 0) -> int:
        return n

    @plane.agent("wait")
    async def wait(ctx: Context) -> None:
        await gates["go"].wait()

    @plane.agent("breaks", max_retries=0)
    async def breaks(ctx: Context) -> None:
        raise ValueError("broken")

    return gates


async def test_a_direct_run_answers_with_the_result_and_leaves_the_queue_as_it_was(plane: TestPlane) -> None:
    add_agents(plane)
    await plane.gate.close()
    waiting = [await plane.submit("echo", {"n": n}) for n in range(3)]
    await plane.gate.open()
    answer = asyncio.create_task(plane.jobs.run_now("echo", {"n": 42}))
    await eventually(plane.queues.reservations)
    async with working(plane):
        assert await answer == 42
        assert [await job.result(timeout=PATIENCE_SECONDS) for job in waiting] == [0, 1, 2]

    direct = (await plane.jobs.list(limit=1))[0]
    runs = [(await plane.jobs.runs(job_id))[0] for job_id in (direct.id, *(job.id for job in waiting))]
    assert [run.id for run in runs] == sorted(run.id for run in runs)
    assert await plane.queues.reservations() == []


async def test_a_direct_run_waits_for_what_runs_and_is_refused_while_another_holds_the_queue(plane: TestPlane) -> None:
    gates = add_agents(plane)
    async with working(plane):
        busy = await plane.submit("wait")
        await status_becomes(busy, JobStatus.RUNNING)
        first = asyncio.create_task(plane.jobs.run_now("echo", {"n": 1}, by="ada"))
        await eventually(plane.queues.reservations)

        with pytest.raises(QueueBusy, match='Queue "default" is reserved by ada'):
            await plane.jobs.run_now("echo", by="bob", wait=False)
        second = asyncio.create_task(plane.jobs.run_now("echo", {"n": 2}, by="bob"))
        assert not first.done()
        gates["go"].set()
        assert [await first, await second] == [1, 2]


async def test_a_direct_run_that_fails_says_so_and_frees_the_queue(plane: TestPlane) -> None:
    add_agents(plane)
    async with working(plane):
        with pytest.raises(JobFailed, match="broken"):
            await plane.jobs.run_now("breaks")
        assert await plane.jobs.run_now("echo", {"n": 7}) == 7


async def test_a_caller_that_goes_away_leaves_nothing_that_runs(plane: TestPlane) -> None:
    add_agents(plane)
    caller = asyncio.create_task(plane.jobs.run_now("echo", ttl_seconds=30))
    [held] = await eventually(plane.queues.reservations)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await plane.clock.advance(seconds=31)
    async with working(plane):
        with pytest.raises(JobCancelled):
            await plane.job(held.job_id).result(timeout=PATIENCE_SECONDS)

    assert await plane.jobs.runs(held.job_id) == []


async def test_a_direct_run_with_a_delay_is_refused(plane: TestPlane) -> None:
    add_agents(plane)
    with pytest.raises(InvalidInput, match="no run_at and no delay"):
        await plane.jobs.run_now("echo", delay=5)
    assert await plane.jobs.list() == []


async def test_an_agents_own_limit_holds_over_all_workers_until_an_operator_says_otherwise(plane: TestPlane) -> None:
    running, most = 0, 0

    @plane.agent("narrow", max_concurrency=2)
    async def narrow(ctx: Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1

    jobs = [await plane.submit("narrow") for _ in range(8)]
    async with working(plane, concurrency=10), working(plane, concurrency=10):
        for job in jobs:
            await job.result(timeout=PATIENCE_SECONDS)
    assert most == 2

    await plane.queues.limit(5, agent="narrow", actor="ada")
    [control] = await plane.queues.controls()
    assert (control.max_running, control.updated_by) == (5, "ada")


async def test_why_names_every_obstacle(plane: TestPlane) -> None:
    add_agents(plane)
    first, second = await plane.submit("echo"), await plane.submit("echo")
    later = await plane.submit("echo", delay=60)
    keyed = [await plane.submit("wait", serial_key="k") for _ in range(2)]
    assert await codes(plane, second.id) == ["no_worker", "behind_others"]
    assert await codes(plane, later.id) == ["not_due", "no_worker"]
    assert await codes(plane, keyed[1].id) == ["key_waits", "no_worker"]

    await plane.gate.close("a fire", actor="ada")
    await plane.queues.pause(queue="default", reason="slow", actor="bob")
    reasons = await plane.jobs.why(first.id)
    assert [reason.code for reason in reasons] == ["gate_closed", "queue_paused", "no_worker"]
    assert "by ada" in reasons[0].message
    assert reasons[0].message.endswith(": a fire. To open it: cortex gate open")
    assert 'queue "default" was paused by bob' in reasons[1].message


async def test_why_while_work_goes_on(plane: TestPlane) -> None:
    gates = add_agents(plane)
    await plane.queues.limit(1, agent="wait")
    async with working(plane):
        running, blocked = await plane.submit("wait", serial_key="k"), await plane.submit("wait", serial_key="k")
        limited = await plane.submit("wait")
        await status_becomes(running, JobStatus.RUNNING)
        assert await codes(plane, running.id) == ["running"]
        assert await codes(plane, blocked.id) == ["key_held", "limit_reached"]
        assert await codes(plane, limited.id) == ["limit_reached"]
        gates["go"].set()
        await limited.result(timeout=PATIENCE_SECONDS)
    assert await codes(plane, limited.id) == ["ended"]


async def test_what_is_paused_must_exist_and_be_one_thing(plane: TestPlane) -> None:
    add_agents(plane)
    with pytest.raises(UnknownAgent):
        await plane.queues.pause(agent="nobody")
    with pytest.raises(TenantNotFound):
        await plane.queues.pause(tenant="nobody")
    with pytest.raises(InvalidInput, match="exactly one of queue, agent and tenant"):
        await plane.queues.pause(queue="a", agent="echo")
    assert await plane.queues.controls() == []


async def test_names_of_the_plane_itself_are_refused(plane: TestPlane) -> None:
    decorator = plane.agent("cortex.mine")
    with pytest.raises(InvalidInput, match="Names that begin with"):
        decorator(lambda ctx: None)
    add_agents(plane)
    with pytest.raises(InvalidInput, match="the plane's own"):
        await plane.submit("echo", queue="cortex")
