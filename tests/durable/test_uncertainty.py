"""A tool that raises, times out, is stopped or frozen: what is in doubt is settled before anything is repeated."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from cortex_plane import Applied, Backoff, Context, JobFailed, JobHandle, JobStatus, PermanentFailure, RetryPolicy, StepFailed
from cortex_plane.errors import ToolUncertain
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import RunId, WorkerId
from cortex_plane.jobs.states import WorkerStatus
from cortex_plane.stores import Store
from cortex_plane.testing import TestPlane
from cortex_plane.worker.heartbeat import LentLease
from cortex_plane.worker.model import NewWorker
from tests.durable.approval_scene import People
from tests.runtime.helpers import eventually, status_becomes, working

pytestmark = pytest.mark.anyio

SOON = RetryPolicy(max_retries=3, backoff=Backoff(base_seconds=0.001, jitter=False))


class Unreachable(Exception):
    """What some client library raises when it has not heard an answer."""


class Bank:
    """The other side. Each of its `moods` is for one call: an exception is raised, after the payment if it was `applied`."""

    def __init__(self, *moods: Exception | None, applied: bool = False) -> None:
        self.moods, self.applied = list(moods), applied
        self.calls: list[str] = []
        self.paid: list[str] = []
        self.asked: list[str] = []

    async def pay(self, *, invocation_id: str = "") -> str:
        self.calls.append(invocation_id)
        mood = self.moods.pop(0) if self.moods else None
        if mood is None or self.applied:
            self.paid.append(invocation_id)
        if mood is not None:
            raise mood
        return "paid"

    async def verify(self, invocation_id: str) -> Applied | None:
        self.asked.append(invocation_id)
        return Applied("verified") if invocation_id in self.paid else None


async def run(plane: TestPlane, bank: Bank, *, max_retries: int = 3, **options: Any) -> JobHandle[str]:
    """A job that pays, until it has ended or waits for people."""

    @plane.agent("pay", max_retries=max_retries)
    async def pay(ctx: Context) -> str:
        return str(await ctx.tool("pay", **options)(bank.pay))

    job = await pay.submit()
    await go_on(plane)
    return job


async def go_on(plane: TestPlane) -> None:
    for _ in range(5):
        await plane.work()
        await plane.clock.advance(hours=1)


IN_DOUBT = [
    TimeoutError("no answer"),
    ConnectionError("gone"),
    ConnectionResetError("reset"),
    ExceptionGroup("several", [ValueError("x"), TimeoutError("no answer")]),
]


# -- a job that makes the calls of another once more -----------------------------------------------


@pytest.mark.parametrize("of_child", [False, True], ids=["of the job", "of its child"])
async def test_verify_is_asked_before_a_failed_job_that_runs_from_the_beginning_repeats_a_call(
    plane: TestPlane, of_child: bool
) -> None:
    bank, broken = Bank(), [True]

    @plane.agent("child")
    async def child(ctx: Context) -> str:
        return await ctx.tool("pay", verify=bank.verify)(bank.pay)

    @plane.agent("parent", max_retries=0)
    async def parent(ctx: Context) -> str:
        paid = await ctx.call(child) if of_child else await ctx.tool("pay", verify=bank.verify)(bank.pay)
        if broken:
            raise ValueError("not yet")
        return paid

    job = await parent.submit()
    await plane.work()
    assert (len(bank.paid), bank.asked) == (1, [])  # The first call repeats nothing.
    again = await job.retry()
    await plane.work()
    broken.clear()
    last = await again.resume()
    await plane.work()

    assert await last.result(timeout=5) == "verified"
    assert (bank.calls, bank.asked) == (bank.paid, bank.paid)
    assert len(bank.paid) == 1


async def test_a_call_that_was_not_made_before_is_made_by_a_job_that_runs_from_the_beginning(plane: TestPlane) -> None:
    bank, broken = Bank(), [True]

    @plane.agent("agent", max_retries=0)
    async def agent(ctx: Context) -> str:
        if broken:
            raise ValueError("not yet")
        return await ctx.tool("pay", verify=bank.verify)(bank.pay)

    job = await agent.submit()
    await plane.work()
    broken.clear()
    again = await job.retry()
    await plane.work()

    assert await again.result(timeout=5) == "paid"
    assert (bank.calls, bank.asked) == (bank.paid, bank.paid)
    assert [tool["status"] for tool in (await plane.checkpoints.get(again.id))["active_tools"]] == ["completed"]


async def test_a_verify_that_fails_before_such_a_call_leaves_it_in_doubt(plane: TestPlane) -> None:
    bank, broken, silent = Bank(), [True], [True]

    async def verify(invocation_id: str) -> Applied | None:
        if silent:
            raise ConnectionError("no answer")
        return await bank.verify(invocation_id)

    @plane.agent("agent", max_retries=0)
    async def agent(ctx: Context) -> str:
        paid = await ctx.tool("pay", verify=verify)(bank.pay)
        if broken:
            raise ValueError("not yet")
        return paid

    job = await agent.submit()
    await plane.work()
    broken.clear()
    again = await job.retry()
    await plane.work()
    assert await again.status() is JobStatus.FAILED
    silent.clear()
    last = await again.resume()
    await plane.work()

    assert await last.result(timeout=5) == "verified"
    assert len(bank.calls) == 1


async def test_verify_is_asked_when_a_job_begins_anew_with_another_prompt(plane: TestPlane) -> None:
    bank = Bank()

    def define(prompt: str) -> Any:
        @plane.agent("writer", system_prompt=prompt, on_prompt_change="restart")
        async def writer(ctx: Context) -> list[str]:
            paid = []
            for _ in range(2):
                paid.append(await ctx.tool("pay", verify=bank.verify)(bank.pay))
                await ctx.sleep(60)
            return paid

        return writer

    job = await define("Be brief.").submit()
    await plane.work()
    await plane.clock.advance(seconds=61)
    await plane.work()
    assert (len(bank.paid), bank.asked) == (2, [])
    plane.agents.clear()
    define("Be polite.")
    await go_on(plane)

    assert await job.result(timeout=5) == ["verified", "verified"]
    assert bank.calls == bank.asked == bank.paid


# -- an exception that leaves the effect in doubt ---------------------------------------------------


@pytest.mark.parametrize("error", IN_DOUBT, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("retry", [RetryPolicy(max_retries=0), SOON])
async def test_in_doubt_a_call_is_not_repeated(plane: TestPlane, error: Exception, retry: RetryPolicy) -> None:
    bank = Bank(error, applied=True)
    job = await run(plane, bank, retry=retry)

    with pytest.raises(JobFailed, match=f"is unknown: {type(error).__name__}"):
        await job.result(timeout=5)
    assert (await job.job()).error["type"] == "ToolUncertain"
    assert (len(bank.paid), (await job.job()).attempt) == (1, 1)


@pytest.mark.parametrize("retry", [RetryPolicy(max_retries=0), SOON])
@pytest.mark.parametrize("applied", [True, False])
async def test_in_doubt_verify_is_asked_before_a_repetition(plane: TestPlane, retry: RetryPolicy, applied: bool) -> None:
    bank = Bank(TimeoutError("no answer"), applied=applied)
    job = await run(plane, bank, verify=bank.verify, retry=retry)

    assert await job.result(timeout=5) == ("verified" if applied else "paid")
    assert len(bank.paid) == 1
    assert bank.asked
    assert len(set(bank.calls + bank.asked)) == 1


async def test_in_doubt_without_retries_verify_is_still_asked(plane: TestPlane) -> None:
    bank = Bank(TimeoutError("no answer"), applied=True)
    job = await run(plane, bank, verify=bank.verify, max_retries=0)

    assert await job.result(timeout=5) == "verified"


@pytest.mark.parametrize("retry", [RetryPolicy(max_retries=0), SOON])
async def test_a_verify_that_fails_too_leaves_the_call_in_doubt(plane: TestPlane, retry: RetryPolicy) -> None:
    bank, outage = Bank(ConnectionError("gone"), applied=True), [1, 2]

    async def verify(invocation_id: str) -> Applied | None:
        if outage:
            outage.pop()
            raise ConnectionError("gone")
        return await bank.verify(invocation_id)

    job = await run(plane, bank, verify=verify, retry=retry)

    assert await job.result(timeout=5) == "verified"
    assert len(bank.calls) == 1


@pytest.mark.parametrize("retry", [RetryPolicy(max_retries=0), SOON])
async def test_in_doubt_rerun_repeats_under_the_same_id(plane: TestPlane, retry: RetryPolicy) -> None:
    bank = Bank(TimeoutError("no answer"), ConnectionError("gone"))
    job = await run(plane, bank, on_uncertain="rerun", retry=retry)

    assert await job.result(timeout=5) == "paid"
    assert (len(bank.calls), len(set(bank.calls))) == (3, 1)


async def test_in_doubt_people_are_asked_each_time(plane: TestPlane, people: People) -> None:
    bank = Bank(TimeoutError("no answer"), TimeoutError("again"))
    job = await run(plane, bank, on_uncertain="ask")
    for _ in range(2):
        assert (await job.job()).status is JobStatus.WAITING_FOR_APPROVAL
        await people.approve(job, "alice")
        await plane.work()

    assert await job.result(timeout=5) == "paid"
    assert (len(bank.calls), len(set(bank.calls))) == (3, 1)


async def test_people_may_say_that_it_has_happened(plane: TestPlane, people: People) -> None:
    bank = Bank(TimeoutError("no answer"), applied=True)
    job = await run(plane, bank, on_uncertain="ask")
    request = await people.asked(job)
    assert isinstance(request.action_details, dict)
    await people.approve(job, "alice", edits={**request.action_details, "happened": True, "result": "seen"})
    await plane.work()

    assert await job.result(timeout=5) == "seen"
    assert len(bank.paid) == 1


async def test_exceptions_that_are_listed_leave_it_in_doubt_too(plane: TestPlane) -> None:
    bank = Bank(Unreachable("?"), applied=True)
    job = await run(plane, bank, uncertain_on=(Unreachable, KeyError))

    with pytest.raises(JobFailed, match="is unknown: Unreachable"):
        await job.result(timeout=5)
    assert len(bank.paid) == 1


async def test_a_timeout_of_ours_leaves_it_in_doubt(plane: TestPlane) -> None:
    calls: list[int] = []

    async def slow() -> None:
        calls.append(1)
        await asyncio.Event().wait()

    @plane.agent("slow")
    async def agent(ctx: Context) -> None:
        await ctx.tool("slow", timeout=0.01, retry=SOON)(slow)

    job = await agent.submit()
    await go_on(plane)

    with pytest.raises(JobFailed, match="is unknown: StepTimedOut"):
        await job.result(timeout=5)
    assert calls == [1]


async def test_a_time_limit_of_the_step_around_it_leaves_it_in_doubt(plane: TestPlane) -> None:
    calls: list[int] = []

    async def slow() -> None:
        calls.append(1)
        await asyncio.Event().wait()

    async def turn(ctx: Context) -> None:
        await ctx.tool("slow", slow)

    @plane.agent("slow")
    async def agent(ctx: Context) -> None:
        await ctx.step("turn", timeout=1, retry=SOON)(turn, ctx)

    job = await agent.submit()
    await go_on(plane)

    with pytest.raises(JobFailed, match=r'The outcome of tool "slow" .* is unknown: it was interrupted'):
        await job.result(timeout=5)
    assert calls == [1]


async def test_a_result_that_cannot_be_recorded_leaves_it_in_doubt(plane: TestPlane) -> None:
    bank = Bank()

    async def pay() -> object:
        await bank.pay()
        return object()

    @plane.agent("pay")
    async def agent(ctx: Context) -> None:
        await ctx.tool("pay", pay)

    job = await agent.submit()
    await go_on(plane)

    assert (await job.job()).status is JobStatus.FAILED
    [tool] = (await plane.checkpoints.get(job.id))["active_tools"]
    assert tool["status"] in ("pending", "running")
    assert len(bank.paid) == 1


# -- any other exception means: not done -------------------------------------------------------------


@pytest.mark.parametrize("retry", [RetryPolicy(max_retries=0), SOON])
async def test_not_in_doubt_a_call_is_repeated_under_the_same_id(plane: TestPlane, retry: RetryPolicy) -> None:
    bank = Bank(ValueError("busy"), KeyError("busy"))
    job = await run(plane, bank, retry=retry)

    assert await job.result(timeout=5) == "paid"
    assert (len(bank.calls), len(set(bank.calls)), len(bank.paid)) == (3, 1, 1)


@pytest.mark.parametrize("retry", [RetryPolicy(max_retries=0), SOON])
async def test_not_in_doubt_verify_is_asked_all_the_same(plane: TestPlane, retry: RetryPolicy) -> None:
    bank = Bank(ValueError("it was paid, and then something else broke"), applied=True)
    job = await run(plane, bank, verify=bank.verify, retry=retry)

    assert await job.result(timeout=5) == "verified"
    assert (len(bank.calls), len(bank.asked)) == (1, 1)


async def test_a_permanent_failure_is_not_repeated_and_not_in_doubt(plane: TestPlane) -> None:
    bank = Bank(PermanentFailure("no such account"))
    job = await run(plane, bank, retry=SOON)

    assert (await job.job()).error["type"] == "PermanentFailure"
    [tool] = (await plane.checkpoints.get(job.id))["active_tools"]
    assert (tool["status"], len(bank.calls)) == ("failed", 1)


async def test_a_tool_without_effect_is_never_in_doubt(plane: TestPlane) -> None:
    bank = Bank(TimeoutError("no answer"), ConnectionError("gone"))
    job = await run(plane, bank, side_effect=False)

    assert await job.result(timeout=5) == "paid"


async def test_a_tool_without_effect_that_was_cut_off_is_called_again(plane: TestPlane) -> None:
    bank = Bank()

    @plane.agent("search")
    async def search(ctx: Context) -> list[str]:
        return await ctx.gather(ctx.tool("search", side_effect=False)(bank.pay), ctx.tool("pay", on_uncertain="rerun")(bank.pay))

    job = await search.submit()
    plane.crash_in("pay")
    await go_on(plane)

    assert await job.result(timeout=5) == ["paid", "paid"]


# -- a handler that catches it -----------------------------------------------------------------------


@pytest.mark.parametrize("crash", [False, True])
async def test_a_handler_can_catch_it_and_act_on_it(plane: TestPlane, crash: bool) -> None:
    bank, noted = Bank(TimeoutError("no answer"), applied=True), []

    async def note(text: str) -> str:
        noted.append(text)
        return text

    @plane.agent("pay")
    async def agent(ctx: Context) -> str:
        try:
            return str(await ctx.tool("pay", bank.pay))
        except ToolUncertain as uncertain:
            await ctx.tool("tell", note, uncertain.invocation_id)
            return await ctx.step("note", note, f"in doubt: {uncertain.doubt}")

    job = await agent.submit()
    if crash:
        plane.crash_after("tell")
    await go_on(plane)

    assert await job.result(timeout=5) == "in doubt: TimeoutError: no answer"
    assert noted == [bank.calls[0], "in doubt: TimeoutError: no answer"]
    tools = {tool["tool_name"]: tool["status"] for tool in (await plane.checkpoints.get(job.id))["active_tools"]}
    assert tools in ({"pay": "running", "tell": "completed"}, {"pay": "pending", "tell": "completed"})


async def test_a_handler_can_catch_what_a_crash_left_uncertain(plane: TestPlane) -> None:
    bank = Bank()

    @plane.agent("pay")
    async def agent(ctx: Context) -> str:
        try:
            return str(await ctx.tool("pay", bank.pay))
        except ToolUncertain as uncertain:
            return await ctx.step("note", str, f"{uncertain.tool} {uncertain.doubt}")

    job = await agent.submit()
    plane.crash_in("pay")
    await go_on(plane)

    assert await job.result(timeout=5) == "pay None"


async def test_it_is_not_taken_for_a_failed_step(plane: TestPlane) -> None:
    bank, refunds = Bank(TimeoutError("no answer"), applied=True), []

    async def turn(ctx: Context) -> None:
        await ctx.tool("pay", bank.pay)

    @plane.agent("pay")
    async def agent(ctx: Context) -> None:
        try:
            await ctx.step("turn", retry=SOON)(turn, ctx)
        except StepFailed:
            refunds.append(1)

    job = await agent.submit()
    await go_on(plane)

    assert (await job.job()).error["type"] == "ToolUncertain"
    assert (refunds, len(bank.calls)) == ([], 1)


async def test_a_caught_uncertainty_is_settled_by_the_next_run_if_nothing_followed(plane: TestPlane) -> None:
    """What the handler did after it caught it was not recorded, so the retry asks again."""
    bank = Bank(TimeoutError("no answer"), applied=True)

    @plane.agent("pay", max_retries=1)
    async def agent(ctx: Context) -> str:
        try:
            return str(await ctx.tool("pay", bank.pay))
        except ToolUncertain as uncertain:
            raise ValueError("first run") from uncertain

    job = await agent.submit()
    await go_on(plane)

    assert (await job.job()).attempt == 2
    assert len(bank.calls) == 1


# -- a worker that stops, and one that was frozen ------------------------------------------------------


async def test_a_call_that_a_stopping_worker_interrupts_is_in_doubt(plane: TestPlane) -> None:
    begun, calls = asyncio.Event(), []
    plane.settings = replace(plane.settings, grace_seconds=0.01)

    async def slow() -> None:
        calls.append(1)
        begun.set()
        await asyncio.Event().wait()

    @plane.agent("slow")
    async def agent(ctx: Context) -> None:
        await ctx.tool("slow", slow)

    job = await agent.submit()
    async with working(plane):
        await asyncio.wait_for(begun.wait(), 10)
    assert (await job.job()).status is JobStatus.RETRY
    await plane.work()

    with pytest.raises(JobFailed, match="is unknown: the worker died or stopped"):
        await job.result(timeout=5)
    assert calls == [1]


class Freezer:
    """Turns the clock of leases on, once, when a tool is about to be called: as after SIGSTOP, or on a laptop that slept."""

    def __init__(self, plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
        plane.settings = replace(plane.settings, lease_seconds=1.5)
        self.frozen = asyncio.Event()
        self._ahead, elapsed, reach = 0.0, plane.clock.elapsed, plane.fault
        assert reach is not None

        def freeze(moment: str, name: str) -> None:
            if moment == "before_tool" and not self.frozen.is_set():
                self._ahead = 3.0
                self.frozen.set()
            reach(moment, name)

        monkeypatch.setattr(plane.clock, "elapsed", lambda: elapsed() + self._ahead)
        plane.fault = freeze


def paying(plane: TestPlane, bank: Bank, plain: bool) -> Any:
    def pay_plainly(invocation_id: str = "") -> str:
        bank.paid.append(invocation_id)
        return "paid"

    @plane.agent("pay")
    async def agent(ctx: Context) -> str:
        if plain:
            return await ctx.tool("pay", on_uncertain="rerun")(pay_plainly)
        return await ctx.tool("pay", on_uncertain="rerun")(bank.pay)

    return agent


@pytest.mark.parametrize("plain", [False, True])
async def test_a_worker_that_was_frozen_before_the_call_does_not_make_it(
    plane: TestPlane, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is declared LOST meanwhile, so the call is another worker's."""
    bank, freezer = Bank(), Freezer(plane, monkeypatch)
    job = await paying(plane, bank, plain).submit()
    store = plane.store
    async with working(plane):
        await asyncio.wait_for(freezer.frozen.wait(), 10)
        await declare_lost(store)
        await status_becomes(job, JobStatus.COMPLETED)

    assert len(bank.paid) == 1
    assert (await job.job()).attempt == 2


@pytest.mark.parametrize("plain", [False, True])
async def test_a_worker_that_was_frozen_and_kept_its_lease_makes_the_call_when_it_is_renewed(
    plane: TestPlane, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, freezer = Bank(), Freezer(plane, monkeypatch)
    job = await paying(plane, bank, plain).submit()
    with capture_logs() as logs:
        async with working(plane):
            await asyncio.wait_for(freezer.frozen.wait(), 10)
            await status_becomes(job, JobStatus.COMPLETED)

    assert [line["tool"] for line in logs if line["event"] == "tool_not_called"] == ["pay"]
    assert len(bank.paid) == 1
    assert (await job.job()).attempt == 1


async def test_the_process_of_a_suspect_begins_no_call_past_the_lease_of_its_worker(plane: TestPlane) -> None:
    bank = Bank()
    job = await paying(plane, bank, plain=False).submit()
    store, owner, lease = plane.store, WorkerId(new_id()), LentLease(plane.clock, trusted_until=0.0)
    await store.workers.register(NewWorker(owner, "owner", ("default",), ("pay",), 1, 600.0))
    [claimed] = await store.queue.claim(owner, ["default"], ["pay"], [RunId(new_id())])
    process = await plane._new_worker(plane._worker_options(None, 1, ""), isolated=True)

    with capture_logs() as logs:

        async def waits() -> bool:
            return any(line["event"] == "tool_not_called" for line in logs)

        running = asyncio.create_task(process.run_one(owner, claimed.run_id, lambda: None, lease.holds))
        await eventually(waits)
        paid_meanwhile = list(bank.paid)
        lease.renew(plane.clock.elapsed() + 600)
        await running

    assert (paid_meanwhile, len(bank.paid)) == ([], 1)
    assert await job.status() is JobStatus.COMPLETED


async def declare_lost(store: Store) -> None:
    """As another worker would, past the lease."""
    (worker,) = [worker for worker in await store.workers.list() if worker.status is WorkerStatus.LIVE]
    await store.workers.give_up(worker.id)
