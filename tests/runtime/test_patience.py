"""Trouble of the database between the steps of a job is never charged to the job, and never ends a worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from cortex_plane import Context, JobStatus, Plane
from cortex_plane.errors import Conflict, Unavailable
from cortex_plane.worker import worker as worker_module
from tests.runtime.faults import FaultyStore, fails
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, worker_on

pytestmark = pytest.mark.anyio


@pytest.fixture
async def faulty(live_plane: Plane) -> Any:
    return FaultyStore(live_plane.store)


@pytest.mark.parametrize(
    ("part", "method"), [("jobs", "chain_end"), ("jobs", "status"), ("jobs", "submit"), ("checkpoints", "load")]
)
async def test_a_call_of_a_child_waits_for_the_database(live_plane: Plane, faulty: Any, part: str, method: str) -> None:
    @live_plane.agent("child")
    async def child(ctx: Context) -> str:
        return "child"

    @live_plane.agent("parent", max_retries=0)
    async def parent(ctx: Context) -> str:
        return await ctx.call(child)

    job = await parent.submit()
    faulty.around(part, method, fails(3))
    async with worker_on(live_plane, faulty):
        assert await job.result(timeout=PATIENCE_SECONDS) == "child"

    assert (await job.job()).retry_count == 0


async def test_a_sleep_waits_for_the_database(live_plane: Plane, faulty: Any) -> None:
    @live_plane.agent("sleeper", max_retries=0)
    async def sleeper(ctx: Context) -> str:
        await ctx.sleep(0.05)
        return "awake"

    job = await sleeper.submit()
    async with worker_on(live_plane, faulty):
        await asyncio.sleep(0)
        faulty.around("workers", "now", fails(3))
        assert await job.result(timeout=PATIENCE_SECONDS) == "awake"

    assert (await job.job()).retry_count == 0


async def test_an_approval_waits_for_the_database(live_plane: Plane, faulty: Any) -> None:
    from cortex_plane.errors import Unavailable

    @live_plane.agent("asks", max_retries=0)
    async def asks(ctx: Context) -> str:
        await ctx.approval("Go on?", approvers="ada")
        return "approved"

    await live_plane.people.add("ada")
    store = live_plane.store
    tries = 0
    find_user = store.people.find_user

    class People:
        def __getattr__(self, name: str) -> Any:
            return getattr(store.people, name)

        async def find_user(self, name: str) -> Any:
            nonlocal tries
            tries += 1
            if tries <= 3:
                raise Unavailable("The statement was cancelled.")
            return await find_user(name)

    faulty._parts["people"] = People()
    job = await asks.submit()
    async with worker_on(live_plane, faulty):

        async def asked() -> bool:
            return await job.status() in (JobStatus.WAITING_FOR_APPROVAL, JobStatus.FAILED)

        await eventually(asked)

    assert (await job.status(), tries) == (JobStatus.WAITING_FOR_APPROVAL, 4)


@pytest.mark.parametrize("error", [Conflict("a forged row"), KeyError("run"), RuntimeError("what nobody thought of")])
async def test_no_failed_claim_ends_a_worker(
    live_plane: Plane, faulty: Any, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "FIRST_CLAIM_PAUSE_SECONDS", 0.01)

    @live_plane.agent("quick")
    async def quick(ctx: Context) -> str:
        return "fine"

    job = await quick.submit()
    faulty.around("queue", "claim", fails(5, error))
    with structlog.testing.capture_logs() as lines:
        async with worker_on(live_plane, faulty):
            assert await job.result(timeout=PATIENCE_SECONDS) == "fine"

            async def told() -> bool:
                return any(line["event"] == "claims_work_again" for line in lines)

            await eventually(told)

    assert [line["event"] for line in lines if line["event"].startswith("claim")] == ["claim_refused", "claims_work_again"]


async def test_a_claim_that_was_made_and_then_failed_is_found(live_plane: Plane, faulty: Any) -> None:
    @live_plane.agent("quick")
    async def quick(ctx: Context) -> str:
        started.append(ctx.run_id)
        return "fine"

    made, started = 0, list[str]()

    async def claim(method: Any, *values: Any) -> Any:
        nonlocal made
        found = await method(*values)
        if found and not made:
            made += 1
            raise KeyError("a row that cannot be read")
        return found

    job = await quick.submit()
    faulty.around("queue", "claim", claim)
    async with worker_on(live_plane, faulty, lease_seconds=60.0):  # With a lost lease it would be run anew, as any other.
        assert await job.result(timeout=PATIENCE_SECONDS) == "fine"

    assert made == 1
    assert started == [run.id for run in await job.runs()]
    assert len(started) == 1


@pytest.mark.parametrize(("part", "method"), [("queue", "finish"), ("checkpoints", "save")])
async def test_a_write_whose_statement_is_cancelled_is_made_again(live_plane: Plane, faulty: Any, part: str, method: str) -> None:
    """By an operator's pg_cancel_backend, or the server's statement_timeout."""

    @live_plane.agent("stepper", max_retries=0)
    async def stepper(ctx: Context) -> str:
        await ctx.step("first", asyncio.sleep, 0)
        return "done"

    job = await stepper.submit()
    faulty.around(part, method, fails(4, Unavailable("canceling statement due to user request", by_statement=True)))
    async with worker_on(live_plane, faulty):
        assert await job.result(timeout=PATIENCE_SECONDS) == "done"

    assert [run.attempt for run in await job.runs()] == [1]
