"""Approvals that newer code words otherwise: a decision holds for what was shown, so people are asked again, and told why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Context, JobFailed, JobStatus, Plane
from cortex_plane.approvals.model import ApprovalRequest
from cortex_plane.approvals.views import approval_view
from cortex_plane.durable.approvals import MOST_WORDINGS
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import JobId
from cortex_plane.testing import TestPlane
from tests.contract.support import raw_client
from tests.durable.approval_scene import People, counted

pytestmark = pytest.mark.anyio

Deploy = Callable[..., Any]


@pytest.fixture
def effects() -> list[str]:
    return []


@pytest.fixture
def deploy(plane: TestPlane, effects: list[str]) -> Deploy:
    """The agent `pay` with another wording, as after a deployment."""

    async def transfer(cents: int) -> int:
        effects.append(f"paid {cents}")
        return cents

    def deployed(summary: str, cents: int = 500, *, on_change: Any = "ask", then: str | None = None) -> Any:
        plane.agents.clear()

        @plane.agent("pay", max_retries=0)
        async def pay(ctx: Context) -> Any:
            decision = await ctx.approval(summary, details={"cents": cents}, approvers=["alice", "bob"], on_change=on_change)
            await ctx.tool("pay", transfer, 500)
            if then is not None:
                await ctx.step(then, lambda: effects.append(then))
            return [decision.decided_by, decision.details]

        return pay

    return deployed


async def requests_of(plane: Plane, job: JobHandle[Any]) -> list[ApprovalRequest]:
    """All requests of a job, oldest first."""
    return (await plane.store.approvals.list(job_id=JobId(job.id), open_only=False))[::-1]


async def decided(plane: TestPlane, people: People, deploy: Deploy) -> JobHandle[Any]:
    job: JobHandle[Any] = await deploy("Pay the shop").submit()
    await plane.work()
    await people.approve(job, "alice")
    return job


@pytest.mark.parametrize("wording", [("Transfer to the shop", 500), ("Pay the shop", 900)])
async def test_a_reworded_approval_is_asked_again_and_the_earlier_decision_stays(
    plane: TestPlane, people: People, deploy: Deploy, effects: list[str], wording: tuple[str, int]
) -> None:
    job = await decided(plane, people, deploy)

    deploy(*wording)
    await plane.work()

    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL
    earlier, again = await requests_of(plane, job)
    assert (earlier.outcome, earlier.decided_by_name) == ("approved", "alice")
    assert (again.is_open, again.action_summary, again.action_details) == (True, wording[0], {"cents": wording[1]})
    assert again.supersedes is not None
    assert again.supersedes.id == earlier.id
    assert "changed the wording of this request" in again.why_again
    assert "approved by alice" in again.why_again
    assert (approval_view(again).supersedes, approval_view(again).why_again) == (earlier.id, again.why_again)
    assert effects == []

    await people.approve(job, "bob")
    await plane.work()

    assert await job.result(timeout=5) == ["bob", {"cents": wording[1]}]
    assert effects == ["paid 500"]
    assert (await plane.jobs.get(job.id)).retry_count == 0
    log = (await plane.checkpoints.get(job.id))["execution_log"]
    assert ["alice" in one["result_summary"] for one in log if one["step_id"] == "approval"] == [True, False]


async def test_a_denial_of_the_new_wording_fails_the_job(
    plane: TestPlane, people: People, deploy: Deploy, effects: list[str]
) -> None:
    job = await decided(plane, people, deploy)
    deploy("Transfer to the shop")
    await plane.work()

    await people.deny(job, "bob", "not that way")

    with pytest.raises(JobFailed, match="Approval denied by bob: not that way"):
        await job.result(timeout=5)
    assert effects == []


async def test_keep_goes_on_with_the_decision_for_the_earlier_wording(
    plane: TestPlane, people: People, deploy: Deploy, effects: list[str]
) -> None:
    job = await decided(plane, people, deploy)

    deploy("Transfer to the shop", on_change="keep")
    await plane.work()

    assert await job.result(timeout=5) == ["alice", {"cents": 500}]
    assert len(await requests_of(plane, job)) == 1
    assert effects == ["paid 500"]


async def test_fail_fails_the_job(plane: TestPlane, people: People, deploy: Deploy, effects: list[str]) -> None:
    job = await decided(plane, people, deploy)

    deploy("Transfer to the shop", on_change="fail")
    await plane.work()

    with pytest.raises(JobFailed, match=r'now requests something else .* its on_change is "fail"'):
        await job.result(timeout=5)
    assert effects == []


async def test_another_on_change_is_refused(plane: TestPlane, people: People, deploy: Deploy) -> None:
    job = await deploy("Pay the shop", on_change="ignore").submit()

    await plane.work()

    with pytest.raises(JobFailed, match='on_change must be "ask", "keep" or "fail"'):
        await job.result(timeout=5)
    assert await requests_of(plane, job) == []


@pytest.mark.parametrize("on_change", ["ask", "keep"])
async def test_a_decision_that_the_handler_has_heard_holds_for_its_own_wording_only(
    plane: TestPlane, people: People, deploy: Deploy, effects: list[str], on_change: str
) -> None:
    job: JobHandle[Any] = await deploy("Pay the shop", then="tell").submit()
    await plane.work()
    await people.approve(job, "alice")
    plane.crash_after("pay")
    await plane.work()
    assert (plane.crashes, effects) == (1, ["paid 500"])

    deploy("Transfer to the shop", then="tell", on_change=on_change)
    await plane.work()
    if on_change == "ask":
        assert await job.status() is JobStatus.WAITING_FOR_APPROVAL
        await people.approve(job, "bob")
        await plane.work()

    assert await job.result(timeout=5) == ["bob" if on_change == "ask" else "alice", {"cents": 500}]
    assert effects == ["paid 500", "tell"]


async def test_wording_that_nobody_was_shown_is_replaced_without_a_trace(
    plane: TestPlane, people: People, deploy: Deploy, effects: list[str]
) -> None:
    job: JobHandle[Any] = await deploy("Pay the shop").submit()
    plane.crash_asking()
    await plane.work()
    assert plane.crashes == 1

    deploy("Transfer to the shop", on_change="fail")
    await plane.work()

    (request,) = await requests_of(plane, job)
    assert (request.action_summary, request.supersedes, request.why_again) == ("Transfer to the shop", None, "")
    await people.approve(job, "alice")
    await plane.work()
    assert await job.result(timeout=5) == ["alice", {"cents": 500}]


async def test_a_worker_that_dies_while_it_asks_again_makes_one_request(
    plane: TestPlane, people: People, deploy: Deploy, effects: list[str]
) -> None:
    job = await decided(plane, people, deploy)
    deploy("Transfer to the shop")
    plane.crash_asking()

    await plane.work()
    assert plane.crashes == 1
    await plane.work()

    earlier, again = await requests_of(plane, job)
    assert again.supersedes is not None
    assert again.supersedes.id == earlier.id


async def test_code_that_words_it_otherwise_each_time_does_not_ask_for_ever(
    plane: TestPlane, people: People, deploy: Deploy, effects: list[str]
) -> None:
    numbers = iter(range(100))

    @plane.agent("pay", max_retries=0)
    async def pay(ctx: Context) -> None:
        await ctx.approval(f"Pay, number {next(numbers)}", approvers="alice")

    job = await pay.submit()
    for _ in range(MOST_WORDINGS):
        await plane.work()
        await people.approve(job, "alice")
    await plane.work()

    with pytest.raises(JobFailed, match=f"worded in {MOST_WORDINGS} ways already.*take values that change from ctx.now"):
        await job.result(timeout=5)


@pytest.mark.parametrize("reworded", [False, True])
async def test_a_request_that_was_altered_in_the_database_is_refused(
    plane: TestPlane, people: People, deploy: Deploy, effects: list[str], reworded: bool
) -> None:
    job = await decided(plane, people, deploy)
    async with raw_client(plane.settings.database_url, plane.clock) as raw:
        if plane.settings.database_url.startswith("sqlite"):
            await raw("drop trigger approval_as_shown")
        else:
            await raw("alter table cortex.approval_request disable trigger approval_as_shown")
        await raw("update cortex.approval_request set action_summary = 'Pay somebody else'")

    deploy("Pay somebody else" if reworded else "Pay the shop")
    await plane.work()

    with pytest.raises(JobFailed, match="differs from what was shown to the approvers"):
        await job.result(timeout=5)
    assert effects == []


async def test_a_dry_run_names_the_jobs_that_would_ask_again_and_does_nothing(
    plane: TestPlane, people: People, deploy: Deploy, effects: list[str]
) -> None:
    waiting: JobHandle[Any] = await deploy("Pay the shop", then="tell").submit()
    beyond: JobHandle[Any] = await deploy("Pay the shop", then="tell").submit()
    await plane.work()
    await people.approve(beyond, "alice")
    plane.crash_after("pay")
    await plane.work()
    before = [(await plane.jobs.get(job.id)).revision for job in (waiting, beyond)]

    same = [finding async for finding in plane.checkpoints.try_migrations()]
    deploy("Transfer to the shop", then="tell")
    other = [finding async for finding in plane.checkpoints.try_migrations()]

    assert [(one.problem, one.asks_again) for one in same] == [(None, ())] * 2
    assert {one.job_id: (one.problem, one.asks_again) for one in other} == {
        job.id: (None, ("approval",)) for job in (waiting, beyond)
    }
    assert [(await plane.jobs.get(job.id)).revision for job in (waiting, beyond)] == before
    assert effects == ["paid 500"]
    assert "would ask again" in (await plane.checkpoints.replay(beyond.id)).message


async def test_a_dry_run_names_the_jobs_that_would_fail_for_another_wording(
    plane: TestPlane, people: People, deploy: Deploy
) -> None:
    job: JobHandle[Any] = await deploy("Pay the shop").submit()
    await plane.work()

    found = {}
    for on_change in ("keep", "fail"):
        deploy("Transfer to the shop", on_change=on_change)
        [found[on_change]] = [finding async for finding in plane.checkpoints.try_migrations()]

    assert (found["keep"].problem, found["keep"].asks_again) == (None, ())
    assert (found["fail"].job_id, found["fail"].kind, found["fail"].asks_again) == (job.id, "code_changed", ())
    assert 'its on_change is "fail"' in str(found["fail"].problem)


async def test_a_dry_run_names_the_jobs_whose_record_does_not_fit(plane: TestPlane) -> None:
    done, do = counted()

    @plane.agent("agent")
    async def agent(ctx: Context) -> None:
        await ctx.tool("pay", do, "paid")
        await ctx.sleep(60)

    job = await agent.submit()
    await plane.work()
    plane.agents.clear()

    @plane.agent("agent")
    async def changed(ctx: Context) -> None:
        await ctx.tool("scan", do, "scanned")
        await ctx.tool("pay", do, "paid")

    (finding,) = [finding async for finding in plane.checkpoints.try_migrations()]

    assert (finding.job_id, finding.kind) == (job.id, "code_changed")
    assert 'calls tool "scan"' in str(finding.problem)
    assert done == ["paid"]
