"""The id of a tool call is the same in every repetition of it, so that the other side can tell a repetition."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from cortex_plane import Agent, Backoff, Context, JobHandle, JobStatus, RetryPolicy
from cortex_plane.ids import derived_id
from cortex_plane.testing import TestPlane
from tests.end_to_end.inspection import query

pytestmark = pytest.mark.anyio

NOW = Backoff(base_seconds=0.001, jitter=False)


class Bank:
    """The other side: keeps the key of each request, and refuses as often as it is told to."""

    def __init__(self, refusals: int = 0) -> None:
        self.keys: list[str] = []
        self.refusals = refusals

    async def pay(self, amount: int = 5, *, invocation_id: str = "") -> str:
        self.keys.append(invocation_id)
        if len(self.keys) <= self.refusals:
            raise ValueError("try again")
        return f"paid {amount}"


def paying(plane: TestPlane, bank: Bank, **options: Any) -> Agent[[], str]:
    @plane.agent("pay", **options)
    async def pay(ctx: Context) -> str:
        return str(await ctx.tool("pay", on_uncertain="rerun")(bank.pay))

    return pay


async def ended(plane: TestPlane, job: JobHandle[str], status: JobStatus) -> None:
    for _ in range(5):
        await plane.work()
        await plane.clock.advance(hours=1)
    assert (await job.job()).status is status


async def test_a_rerun_after_a_crash_has_the_id_of_the_first_call(plane: TestPlane) -> None:
    bank = Bank()
    job = await paying(plane, bank).submit()
    plane.crash_in("pay")
    plane.crash_in("pay", occurrence=2)
    await ended(plane, job, JobStatus.COMPLETED)

    assert len(bank.keys) == 3
    assert set(bank.keys) == {derived_id(job.id, "pay#1")}
    assert UUID(bank.keys[0]).version == 7


async def test_a_retry_of_the_job_in_place_has_the_id_of_the_first_call(plane: TestPlane) -> None:
    bank = Bank(refusals=2)
    job = await paying(plane, bank, max_retries=2).submit()
    await ended(plane, job, JobStatus.COMPLETED)

    assert len(bank.keys) == 3
    assert len(set(bank.keys)) == 1


async def test_linked_jobs_have_the_id_of_the_first_call_also_when_earlier_ones_are_deleted(
    plane: TestPlane, database_url: str
) -> None:
    bank = Bank(refusals=4)
    job = await paying(plane, bank, retry=RetryPolicy("chain", 1)).submit()
    await ended(plane, job, JobStatus.FAILED)
    last = await without_the_earlier(plane, database_url, job)
    resumed = await last.resume()
    await ended(plane, resumed, JobStatus.FAILED)
    last = await without_the_earlier(plane, database_url, resumed)
    again = await last.retry()
    await ended(plane, again, JobStatus.COMPLETED)

    assert len(bank.keys) == 5
    assert set(bank.keys) == {derived_id(job.id, "pay#1")}


async def without_the_earlier(plane: TestPlane, database_url: str, job: JobHandle[str]) -> JobHandle[str]:
    """The last job of a chain. The others are deleted, as retention may do."""
    *earlier, last = await plane.jobs.chain(job.id)
    assert earlier
    for one in earlier:
        await query(database_url, f"delete from cortex.job where id = '{one.id}'")
    return plane.job(last.id)


@pytest.mark.parametrize("times", [1, 2])
async def test_an_operators_retry_of_a_failed_job_has_the_id_of_the_first_call(plane: TestPlane, times: int) -> None:
    bank = Bank(refusals=times)
    job = await paying(plane, bank, max_retries=0).submit()
    await ended(plane, job, JobStatus.FAILED)
    again = job
    for _ in range(times):
        again = await plane.jobs.retry(again.id)
        await plane.work()

    assert (await again.job()).status is JobStatus.COMPLETED
    assert set(bank.keys) == {derived_id(job.id, "pay#1")}


async def test_a_retry_of_a_completed_job_is_new_work(plane: TestPlane) -> None:
    bank = Bank()
    job = await paying(plane, bank).submit()
    await plane.work()
    again = await plane.jobs.retry(job.id)
    await plane.work()

    assert bank.keys == [derived_id(job.id, "pay#1"), derived_id(again.id, "pay#1")]


async def test_a_retry_of_a_cancelled_job_is_new_work(plane: TestPlane) -> None:
    bank = Bank()
    job = await paying(plane, bank).submit()
    await job.cancel()
    again = await plane.jobs.retry(job.id)
    await plane.work()

    assert bank.keys == [derived_id(again.id, "pay#1")]


async def test_a_fork_is_new_work(plane: TestPlane) -> None:
    bank = Bank()
    job = await paying(plane, bank).submit()
    await plane.work()
    fork = await plane.checkpoints.fork(job.id, "pay")
    await plane.work()

    assert bank.keys == [derived_id(job.id, "pay#1"), derived_id(fork.id, "pay#1")]


async def test_calls_of_one_job_differ_by_branch_name_and_occurrence(plane: TestPlane) -> None:
    bank = Bank()

    async def turn(ctx: Context) -> None:
        await ctx.tool("pay", bank.pay)

    @plane.agent("pay")
    async def pay(ctx: Context) -> None:
        await ctx.tool("pay", bank.pay)
        await ctx.tool("pay", bank.pay)
        await ctx.tool("send", bank.pay)
        await ctx.step("turn", turn, ctx)
        await ctx.gather(ctx.tool("pay", bank.pay), ctx.tool("pay", bank.pay))

    await pay.submit()
    await plane.work()

    assert len(bank.keys) == len(set(bank.keys)) == 6


async def test_a_tool_inside_a_step_that_is_tried_again_keeps_its_id(plane: TestPlane) -> None:
    bank = Bank(refusals=2)

    async def turn(ctx: Context) -> str:
        return str(await ctx.tool("pay", bank.pay))

    @plane.agent("turns")
    async def turns(ctx: Context) -> str:
        return await ctx.step("turn", retry=RetryPolicy(max_retries=2, backoff=NOW))(turn, ctx)

    job = await turns.submit()
    await plane.work()

    assert await job.result(timeout=5) == "paid 5"
    assert len(bank.keys) == 3
    assert set(bank.keys) == {derived_id(job.id, "turn#1/pay#1")}


async def test_a_renamed_tool_keeps_the_id_of_its_call(plane: TestPlane) -> None:
    bank, names = Bank(), ["pay"]

    @plane.agent("pay", renamed_steps={"pay": "transfer"})
    async def pay(ctx: Context) -> str:
        return str(await ctx.tool(names[0], on_uncertain="rerun")(bank.pay))

    job = await pay.submit()
    plane.crash_in("pay")
    await plane.work()
    names[0] = "transfer"
    await plane.work()

    assert await job.result(timeout=5) == "paid 5"
    assert bank.keys == [derived_id(job.id, "pay#1")] * 2


async def test_calls_of_a_child_keep_their_ids_when_its_parent_runs_from_the_beginning_after_a_failure(plane: TestPlane) -> None:
    bank, broken = Bank(), [True]

    async def report() -> None:
        if broken:
            raise ValueError("not yet")

    @plane.agent("child")
    async def child(ctx: Context) -> str:
        return await ctx.tool("pay", bank.pay)

    @plane.agent("parent", max_retries=0)
    async def parent(ctx: Context) -> None:
        await ctx.call(child)
        await ctx.call(child)
        await ctx.step("report", report)

    job = await parent.submit()
    await plane.work()
    broken.clear()
    again = await job.retry()
    await plane.work()
    new = await again.retry()
    await plane.work()

    assert await new.status() is JobStatus.COMPLETED
    assert bank.keys[:2] == bank.keys[2:4]
    assert len(set(bank.keys)) == 4
