"""An operator says what became of an uncertain tool call, and the job goes on from there as a linked job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from cortex_plane import Context, JobHandle, JobStatus
from cortex_plane.durable.calls import OnUncertain
from cortex_plane.errors import InvalidInput, NothingToResume, StillRunning, ToolUncertain
from cortex_plane.metrics.service import counted
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


class Bank:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.keys: list[str] = []

    async def refund(self, *, invocation_id: str = "") -> dict[str, int]:
        self.keys.append(invocation_id)
        if self.error is not None and len(self.keys) == 1:
            raise self.error
        return {"receipt": len(self.keys)}


async def uncertain(plane: TestPlane, bank: Bank) -> JobHandle[Any]:
    """A job that has FAILED because nobody knows whether its refund took effect."""
    told: list[str] = []

    async def tell(text: str) -> str:
        told.append(text)
        return text

    @plane.agent("refund")
    async def agent(ctx: Context) -> list[Any]:
        before = await ctx.step("before", tell, "before")
        receipt = await ctx.tool("refund", bank.refund)
        return [before, receipt, len(told)]

    job = await agent.submit()
    if bank.error is None:
        plane.crash_in("refund")
    await plane.work()
    await plane.work()
    assert (await job.job()).error["type"] == "ToolUncertain"
    return job


@pytest.mark.parametrize("error", [None, TimeoutError("no answer")])
async def test_a_call_that_was_applied_has_the_result_that_is_given(plane: TestPlane, error: Exception | None) -> None:
    bank = Bank(error)
    job = await uncertain(plane, bank)
    inside = await plane.jobs.details(await job.job())
    assert [(call.call, call.doubt, call.caught) for call in inside.uncertain] == [
        ("refund", None if error is None else "TimeoutError: no answer", False)
    ]

    settled = await plane.jobs.settle(job.id, "refund", applied=True, result={"receipt": 7}, actor="ada")
    await plane.work()

    assert await settled.result(timeout=5) == ["before", {"receipt": 7}, 1]
    assert len(bank.keys) == 1
    after = await settled.job()
    assert after.retry_of == job.id
    assert next((entry.cause, entry.actor) for entry in await settled.history()) == ("settle", "ada")
    [noted] = [one.entry for one in await plane.store.audit.list(job.id) if one.entry.action == "TOOL_CALL_SETTLED"]
    assert (noted.actor, noted.details["call"], noted.details["applied"]) == ("ada", "refund", True)
    assert (await plane.jobs.details(after)).uncertain == []


async def test_a_call_that_was_not_applied_is_made_under_the_same_id(plane: TestPlane) -> None:
    bank = Bank()
    job = await uncertain(plane, bank)

    settled = await job.settle("refund#1", applied=False)
    await plane.work()

    assert await settled.result(timeout=5) == ["before", {"receipt": 2}, 1]
    assert len(set(bank.keys)) == 1


async def test_it_is_counted(plane: TestPlane) -> None:
    def uncertain_calls() -> float:
        return sum(times for (name, _), times in counted().items() if name == "uncertain_calls")

    before = uncertain_calls()
    await uncertain(plane, Bank())

    assert uncertain_calls() == before + 1


async def test_a_resume_without_settling_is_uncertain_again(plane: TestPlane) -> None:
    bank = Bank()
    job = await uncertain(plane, bank)

    again = await plane.jobs.resume(job.id)
    await plane.work()
    assert (await again.job()).error["type"] == "ToolUncertain"
    settled = await plane.jobs.settle(job.id, "refund", applied=False)  # It acts on the end of the chain.
    await plane.work()

    assert (await settled.job()).retry_of == again.id
    assert await settled.result(timeout=5) == ["before", {"receipt": 2}, 1]


@pytest.mark.parametrize("branches", [1, 2])
async def test_a_call_in_a_branch_is_named_by_its_tool_unless_there_are_several(plane: TestPlane, branches: int) -> None:
    calls: list[int] = []

    async def refund(branch: int) -> int:
        calls.append(branch)
        if len(calls) <= branches:
            raise TimeoutError("no answer")
        return branch

    @plane.agent("refund")
    async def agent(ctx: Context) -> list[int]:
        return await ctx.gather(*(ctx.tool("refund", refund, branch) for branch in range(branches)))

    job = await agent.submit()
    await plane.work()

    if branches == 1:
        again = await plane.jobs.settle(job.id, "refund", applied=False)
        await plane.work()
        assert await again.result(timeout=5) == [0]
    else:
        with pytest.raises(InvalidInput, match=r"Uncertain: gather#1\[0\]/refund, gather#1\[1\]/refund"):
            await plane.jobs.settle(job.id, "refund", applied=False)


async def test_what_cannot_be_settled_is_refused_and_changes_nothing(plane: TestPlane) -> None:
    job = await uncertain(plane, Bank())

    with pytest.raises(InvalidInput, match=r'no uncertain call "pay".*Uncertain: refund'):
        await plane.jobs.settle(job.id, "pay", applied=False)
    with pytest.raises(InvalidInput, match="no uncertain call"):
        await plane.jobs.settle(job.id, "refund#2", applied=False)
    with pytest.raises(InvalidInput, match="has no result"):
        await plane.jobs.settle(job.id, "refund", applied=False, result=1)
    with pytest.raises(InvalidInput, match="limit is"):
        await plane.jobs.settle(job.id, "refund", applied=True, result="x" * 70_000)
    with pytest.raises(InvalidInput):
        await plane.jobs.settle(job.id, "refund", applied=True, result=float("nan"))
    assert (await job.job()).retried_as is None

    settled = await plane.jobs.settle(job.id, "refund", applied=True, result={"receipt": 7})
    with pytest.raises(StillRunning):
        await plane.jobs.settle(job.id, "refund", applied=False)
    await plane.work()
    with pytest.raises(NothingToResume):
        await plane.jobs.settle(settled.id, "refund", applied=False)


async def test_what_a_handler_has_caught_cannot_be_settled_any_more(plane: TestPlane) -> None:
    bank = Bank(TimeoutError("no answer"))

    @plane.agent("refund", max_retries=0)
    async def agent(ctx: Context) -> None:
        try:
            await ctx.tool("refund", bank.refund)
        except ToolUncertain:
            await ctx.step("note", str, "noted")
        raise ValueError("later")

    job = await agent.submit()
    await plane.work()

    assert (await job.job()).status is JobStatus.FAILED
    assert [call.caught for call in (await plane.jobs.details(await job.job())).uncertain] == [True]
    with pytest.raises(InvalidInput, match="has caught"):
        await plane.jobs.settle(job.id, "refund", applied=True)


@dataclass
class Receipt:
    number: int


@pytest.mark.parametrize("wrong", [None, "seven", {"no": 7}])
@pytest.mark.parametrize("on_uncertain", ["fail", "rerun"])
async def test_a_result_that_does_not_fit_is_told_and_can_be_given_again(
    plane: TestPlane, wrong: Any, on_uncertain: OnUncertain
) -> None:
    calls: list[str] = []

    async def refund() -> Receipt:
        calls.append("refund")
        raise TimeoutError

    @plane.agent("refund", max_retries=0)
    async def agent(ctx: Context) -> int:
        return (await ctx.tool("refund", on_uncertain=on_uncertain)(refund)).number

    job = await agent.submit()
    await plane.work()
    settled = await plane.jobs.settle(job.id, "refund", applied=True, result=wrong)
    await plane.work()

    ended = await settled.job()
    assert (ended.status, ended.error["type"]) == (JobStatus.FAILED, "ToolUncertain")
    [call] = (await plane.jobs.details(ended)).uncertain
    assert "the result that was given does not fit" in str(call.doubt)
    settled = await plane.jobs.settle(job.id, "refund", applied=True, result={"number": 7})
    await plane.work()
    assert await settled.result(timeout=5) == 7
    assert calls == ["refund"]
