"""Tool calls: what is about to happen is durable before, what happened after, and what is uncertain is never guessed."""

from __future__ import annotations

import pytest

from cortex_plane import Applied, Context, JobFailed, StepFailed
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


class Bank:
    """The other side: counts what it was asked for."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.ids: list[str] = []

    async def pay(self, amount: int) -> str:
        self.paid.append(amount)
        return f"receipt {len(self.paid)}"

    async def pay_once(self, amount: int, invocation_id: str = "") -> str:
        if invocation_id not in self.ids:
            self.ids.append(invocation_id)
            self.paid.append(amount)
        return f"receipt of {amount}"


async def test_a_recorded_call_is_not_made_again(plane: TestPlane) -> None:
    bank = Bank()

    @plane.agent("pay")
    async def pay(ctx: Context) -> str:
        return str(await ctx.tool("pay", bank.pay, 5))

    job = await pay.submit()
    plane.crash_after("pay")
    await plane.work()
    assert plane.crashes == 1
    await plane.work()

    assert await job.result(timeout=5) == "receipt 1"
    assert bank.paid == [5]


async def test_a_call_that_was_begun_is_uncertain_and_the_job_fails(plane: TestPlane) -> None:
    bank = Bank()

    @plane.agent("pay")
    async def pay(ctx: Context) -> str:
        return str(await ctx.tool("pay", bank.pay, 5))

    job = await pay.submit()
    plane.crash_in("pay")
    await plane.work()
    await plane.work()

    with pytest.raises(JobFailed, match=r'The outcome of tool "pay" .* is unknown'):
        await job.result(timeout=5)
    assert bank.paid == [5]


async def test_a_call_that_may_be_made_again_is(plane: TestPlane) -> None:
    bank = Bank()

    @plane.agent("pay")
    async def pay(ctx: Context) -> str:
        return str(await ctx.tool("pay", on_uncertain="rerun")(bank.pay, 5))

    job = await pay.submit()
    plane.crash_before("pay")
    await plane.work()
    await plane.work()

    assert await job.result(timeout=5) == "receipt 1"
    assert bank.paid == [5]


@pytest.mark.parametrize("happened", [True, False])
async def test_the_other_side_is_asked_what_happened(plane: TestPlane, happened: bool) -> None:
    bank, asked = Bank(), []

    async def verify(invocation_id: str) -> Applied | None:
        asked.append(invocation_id)
        return Applied("the receipt") if happened else None

    @plane.agent("pay")
    async def pay(ctx: Context) -> str:
        return str(await ctx.tool("pay", verify=verify)(bank.pay, 5))

    job = await pay.submit()
    plane.crash_in("pay")
    await plane.work()
    await plane.work()

    assert await job.result(timeout=5) == ("the receipt" if happened else "receipt 2")
    assert len(asked) == 1
    assert len(bank.paid) == (1 if happened else 2)


async def test_a_function_that_asks_for_it_is_given_the_id_of_its_call(plane: TestPlane) -> None:
    bank = Bank()

    @plane.agent("pay")
    async def pay(ctx: Context) -> str:
        return str(await ctx.tool("pay", bank.pay_once, 5))

    job = await pay.submit()
    await plane.work()
    await job.result(timeout=5)

    checkpoint = (await plane.store.checkpoints.load(job.id)).document  # type: ignore[union-attr]
    assert bank.ids[0] in checkpoint


async def test_a_tool_that_raised_is_called_again_by_the_retry_of_its_job(plane: TestPlane) -> None:
    calls: list[int] = []

    async def busy() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("busy")
        return "ok"

    @plane.agent("busy", max_retries=1)
    async def agent(ctx: Context) -> str:
        return str(await ctx.tool("busy", busy))

    job = await agent.submit()
    await plane.work()
    await plane.clock.advance(hours=1)
    await plane.work()

    assert await job.result(timeout=5) == "ok"


async def test_a_failure_that_the_handler_lived_with_is_not_repeated(plane: TestPlane) -> None:
    calls: list[str] = []

    async def refuse() -> None:
        calls.append("refuse")
        raise ValueError("no")

    async def note() -> None:
        calls.append("note")

    @plane.agent("agent")
    async def agent(ctx: Context) -> str:
        try:
            await ctx.tool("refuse", refuse)
        except StepFailed as failure:
            await ctx.step("note", note)
            await ctx.step("again", note)
            return failure.error["type"]  # type: ignore[no-any-return]
        return "?"

    job = await agent.submit()
    plane.crash_after("note")
    await plane.work()
    await plane.work()

    assert await job.result(timeout=5) == "ValueError"
    assert calls == ["refuse", "note", "note"]


async def test_another_input_for_a_recorded_call_is_refused(plane: TestPlane) -> None:
    bank = Bank()

    @plane.agent("pay", on_code_change="fail")
    async def pay(ctx: Context) -> None:
        await ctx.tool("pay", bank.pay, ctx.attempt)

    job = await pay.submit()
    plane.crash_after("pay")
    await plane.work()
    await plane.work()

    with pytest.raises(JobFailed, match='Tool "pay" was called with another input'):
        await job.result(timeout=5)
    assert bank.paid == [1]


async def test_a_renamed_tool_is_not_called_a_second_time_by_its_new_name(plane: TestPlane) -> None:
    bank = Bank()
    names = ["pay"]

    @plane.agent("pay", on_code_change="fail")
    async def pay(ctx: Context) -> None:
        await ctx.tool(names[0], bank.pay, 5)

    job = await pay.submit()
    plane.crash_after("pay")
    await plane.work()
    names[0] = "transfer"
    await plane.work()

    with pytest.raises(JobFailed, match=r'renamed_steps=\{"pay": "transfer"\}'):
        await job.result(timeout=5)
    assert bank.paid == [5]


async def test_a_tool_inside_a_step_is_answered_when_the_step_is_done_again(plane: TestPlane) -> None:
    bank = Bank()

    async def turn(ctx: Context) -> str:
        receipt = await ctx.tool("pay", bank.pay, 5)
        await ctx.step("think", _nothing)
        return str(receipt)

    @plane.agent("turns")
    async def turns(ctx: Context) -> str:
        return await ctx.step("turn", turn, ctx)

    job = await turns.submit()
    plane.crash_after("pay")
    plane.crash_after("think")
    await plane.work()
    await plane.work()
    await plane.work()

    assert plane.crashes == 2
    assert await job.result(timeout=5) == "receipt 1"
    assert bank.paid == [5]


async def test_a_step_that_is_tried_again_does_not_repeat_the_tools_in_it(plane: TestPlane) -> None:
    from cortex_plane import RetryPolicy

    bank, tries = Bank(), []

    async def turn(ctx: Context) -> str:
        receipt = await ctx.tool("pay", bank.pay, 5)
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("once more")
        return str(receipt)

    @plane.agent("turns")
    async def turns(ctx: Context) -> str:
        return await ctx.step("turn", retry=RetryPolicy(max_retries=1))(turn, ctx)

    job = await turns.submit()
    await plane.work()

    assert await job.result(timeout=15) == "receipt 1"
    assert bank.paid == [5]


async def _nothing() -> None:
    pass
