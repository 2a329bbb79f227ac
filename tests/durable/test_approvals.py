"""The gate: a handler asks people, leaves its worker, and goes on from there once somebody has decided."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from cortex_plane import Approval, ApprovalDenied, Context, Escalation, JobFailed, JobStatus, RunStatus
from cortex_plane.approvals.decisions import NotAllowed
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.people.model import Session, SessionId
from cortex_plane.testing import TestPlane
from tests.durable.approval_scene import People, counted

pytestmark = pytest.mark.anyio


async def test_a_job_waits_without_a_worker_and_goes_on_from_the_gate_once(plane: TestPlane, people: People) -> None:
    done, do = counted()

    @plane.agent("release")
    async def release(ctx: Context, version: str) -> dict[str, Any]:
        image = await ctx.step("build", do, f"image-{version}")
        decision = await ctx.approval(f"Deploy {version}", details={"image": image}, approvers="alice")
        await ctx.tool("deploy", do, image)
        return {"by": decision.decided_by, "approved": decision.approved, "details": decision.details, "edited": decision.edited}

    job = await release.submit(version="1.4.0")
    await plane.work()

    waiting = await plane.jobs.get(job.id)
    assert (waiting.status, waiting.run_id, waiting.worker_id) == (JobStatus.WAITING_FOR_APPROVAL, None, None)
    request = await people.asked(job)
    assert (request.action_summary, request.action_details) == ("Deploy 1.4.0", {"image": "image-1.4.0"})
    assert (await plane.checkpoints.get(job.id))["status"] == "awaiting_approval"
    await plane.work()
    assert done == ["image-1.4.0"]

    await people.approve(job, "alice")
    assert await job.status() is JobStatus.RUNNING
    await plane.work()

    assert await job.result(timeout=5) == {"by": "alice", "approved": True, "details": {"image": "image-1.4.0"}, "edited": False}
    assert done == ["image-1.4.0", "image-1.4.0"]
    assert [run.status for run in await plane.jobs.runs(job.id)] == [RunStatus.WAITING, RunStatus.COMPLETED]


async def test_a_denial_fails_the_job_with_who_and_why(plane: TestPlane, people: People) -> None:
    done, do = counted()

    @plane.agent("release")
    async def release(ctx: Context) -> None:
        await ctx.approval("Deploy", approvers=["alice"])
        await ctx.tool("deploy", do, "deployed")

    job = await release.submit()
    await plane.work()
    await people.deny(job, "alice", "Not on a Friday")

    with pytest.raises(JobFailed, match="Approval denied by alice: Not on a Friday"):
        await job.result(timeout=5)
    await plane.work()
    assert done == []


async def test_a_denial_can_be_heard_by_the_handler(plane: TestPlane, people: People) -> None:
    @plane.agent("release")
    async def release(ctx: Context) -> list[str | None]:
        try:
            await ctx.approval("Deploy", approvers="alice", on_denial="raise")
        except ApprovalDenied as denied:
            await ctx.step("note", str, "denied")
            return [denied.decided_by, denied.reason]
        return []

    job = await release.submit()
    await plane.work()
    await people.deny(job, "alice", "Too early")
    plane.crash_after("note")
    await plane.work()
    await plane.work()

    assert await job.result(timeout=5) == ["alice", "Too early"]


async def test_an_uncaught_denial_fails_the_job_without_retries(plane: TestPlane, people: People) -> None:
    @plane.agent("release", max_retries=3)
    async def release(ctx: Context) -> None:
        await ctx.approval("Deploy", approvers="alice", on_denial="raise")

    job = await release.submit()
    await plane.work()
    await people.deny(job, "alice")
    await plane.work()

    with pytest.raises(JobFailed, match="Approval denied by alice"):
        await job.result(timeout=5)
    assert (await plane.jobs.get(job.id)).retry_count == 0


async def test_any_number_of_gates_also_inside_steps_and_children(plane: TestPlane, people: People) -> None:
    done, do = counted()

    @plane.agent("child")
    async def child(ctx: Context) -> str | None:
        return (await ctx.approval("In the child", approvers="bob")).decided_by

    async def careful(ctx: Context) -> str | None:
        decision = await ctx.approval("In a step", approvers="alice")
        await do("after the gate in the step")
        return decision.decided_by

    @plane.agent("parent")
    async def parent(ctx: Context) -> list[str | None]:
        first = await ctx.approval("First", approvers="alice")
        inside = await ctx.step("careful", careful, ctx)
        second = await ctx.approval("Second", approvers="bob")
        return [first.decided_by, inside, second.decided_by, await ctx.call(child)]

    job = await parent.submit()
    for name in ("alice", "alice", "bob"):
        await plane.work()
        await people.approve(job, name)
    await plane.work()
    (asked,) = await plane.store.approvals.list()
    assert asked.action_summary == "In the child"
    await people.approve(plane.job(asked.job_id), "bob")
    await plane.work()

    assert await job.result(timeout=5) == ["alice", "alice", "bob", "bob"]
    assert done == ["after the gate in the step"]


async def test_a_crash_before_the_job_waits_asks_once(plane: TestPlane, people: People) -> None:
    @plane.agent("release", crash_limit=9)
    async def release(ctx: Context) -> None:
        await ctx.approval("Deploy", approvers="alice")

    job = await release.submit()
    plane.crash_asking()
    await plane.work()
    assert plane.crashes == 1
    await plane.work()

    await people.asked(job)
    await people.approve(job, "alice")
    await plane.work()
    await job.result(timeout=5)


async def test_a_crash_after_the_decision_hears_the_same_decision(plane: TestPlane, people: People) -> None:
    done, do = counted()

    @plane.agent("release")
    async def release(ctx: Context) -> str | None:
        decision = await ctx.approval("Deploy", approvers="alice")
        await ctx.step("first", do, "first")
        await ctx.step("second", do, "second")
        return decision.decided_by

    job = await release.submit()
    await plane.work()
    await people.approve(job, "alice")
    plane.crash_before("first")
    plane.crash_after("first")
    for _ in range(3):
        await plane.work()

    assert await job.result(timeout=5) == "alice"
    assert (done, plane.crashes) == (["first", "second"], 2)


async def test_a_retry_does_not_ask_again(plane: TestPlane, people: People) -> None:
    tries: list[int] = []

    @plane.agent("release")
    async def release(ctx: Context) -> int:
        await ctx.approval("Deploy", approvers="alice")
        tries.append(ctx.attempt)
        if len(tries) == 1:
            raise RuntimeError("not yet")
        return len(tries)

    job = await release.submit()
    await plane.work()
    await people.approve(job, "alice")
    await plane.work()
    await plane.clock.advance(minutes=10)
    await plane.work()

    assert await job.result(timeout=5) == 2


async def test_an_approver_changes_the_details_where_the_gate_allows_it(plane: TestPlane, people: People) -> None:
    @plane.agent("pay")
    async def pay(ctx: Context) -> dict[str, Any]:
        decision = await ctx.approval("Pay", details={"cents": 500, "to": "shop"}, approvers="alice", editable=["cents"])
        return {"details": decision.details, "edited": decision.edited}

    job = await pay.submit()
    await plane.work()
    await people.approve(job, "alice", edits={"cents": 300, "to": "shop"})
    assert (await people_request(plane, job.id)).action_details == {"cents": 500, "to": "shop"}
    await plane.work()

    assert await job.result(timeout=5) == {"details": {"cents": 300, "to": "shop"}, "edited": True}


async def people_request(plane: TestPlane, job_id: JobId) -> Any:
    (request,) = await plane.store.approvals.list(job_id=job_id, open_only=False)
    return request


async def test_the_outcome_of_an_expiry_is_the_gates_choice(plane: TestPlane, people: People) -> None:
    @plane.agent("ask")
    async def ask(ctx: Context, on_expiry: Any, on_denial: Any = "fail") -> Any:
        try:
            decision = await ctx.approval(
                "Go on?",
                details={"n": 1},
                approvers="alice",
                ttl=timedelta(hours=1),
                on_expiry=on_expiry,
                default={"n": 0},
                on_denial=on_denial,
            )
        except ApprovalDenied as denied:
            return ["denied", denied.decided_by, denied.reason]
        return [decision.outcome, decision.details, decision.decided_by]

    jobs = {
        (on_expiry, on_denial): await ask.submit(on_expiry=on_expiry, on_denial=on_denial)
        for on_expiry, on_denial in (
            ("fail", "fail"),
            ("deny", "fail"),
            ("deny", "raise"),
            ("approve", "fail"),
            ("default", "fail"),
        )
    }
    await plane.work()
    await plane.clock.advance(minutes=61)
    assert await plane.store.approvals.expire(100) == 5
    await plane.work()

    with pytest.raises(JobFailed, match="Approval timed out after 1 hour"):
        await jobs["fail", "fail"].result(timeout=5)
    with pytest.raises(JobFailed, match="Approval denied: no decision within 1 hour"):
        await jobs["deny", "fail"].result(timeout=5)
    assert await jobs["deny", "raise"].result(timeout=5) == ["denied", None, "no decision in time"]
    assert await jobs["approve", "fail"].result(timeout=5) == ["approved", {"n": 1}, None]
    assert await jobs["default", "fail"].result(timeout=5) == ["defaulted", {"n": 0}, None]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"summary": ""}, "summary must be text"),
        ({"approvers": "nobody"}, 'there is no user "nobody"'),
        ({"approvers": "group:ops"}, 'there is no group "ops"'),
        ({"approvers": []}, "no one could decide"),
        ({"approvers": "alice", "quorum": 2}, "only 1 may decide"),
        ({"quorum": 0}, "quorum must be a whole number"),
        ({"ttl": -1}, "ttl must be a number of seconds"),
        ({"on_expiry": "explode"}, "on_expiry must be"),
        ({"on_denial": "explode"}, "on_denial must be"),
        ({"details": {"at": {1, 2}}}, "details"),
        ({"escalate": Escalation(to="nobody", after=60)}, 'there is no user "nobody"'),
        ({"editable": ["cents"]}, "details must be an object"),
        ({"name": "a#b"}, "#"),
    ],
)
async def test_a_gate_that_makes_no_sense_is_refused_and_asks_nobody(
    plane: TestPlane, people: People, given: dict[str, Any], words: str
) -> None:
    @plane.agent("ask", max_retries=0)
    async def ask(ctx: Context) -> None:
        await ctx.approval(**{"summary": "Deploy", **given})

    job = await ask.submit()
    await plane.work()

    with pytest.raises(JobFailed) as failed:
        await job.result(timeout=5)
    assert words in str(failed.value)
    assert await plane.store.approvals.list(open_only=False) == []


async def test_a_gate_inside_gather_is_refused(plane: TestPlane, people: People) -> None:
    @plane.agent("ask")
    async def ask(ctx: Context) -> None:
        await ctx.gather(ctx.approval("Deploy", approvers="alice"))

    job = await ask.submit()
    await plane.work()

    with pytest.raises(JobFailed, match=r"ctx\.approval cannot be used inside ctx\.gather"):
        await job.result(timeout=5)


async def test_the_user_of_the_session_is_asked_when_the_gate_names_nobody(plane: TestPlane, people: People) -> None:
    @plane.agent("child")
    async def child(ctx: Context) -> str | None:
        return (await ctx.approval("Deploy")).decided_by

    @plane.agent("parent")
    async def parent(ctx: Context) -> Any:
        return await ctx.call(child)

    session = Session(SessionId(new_id()), await people.id_of("bob"))
    await plane.store.people.add_session(session)
    job = await parent.options(session=session.id).submit()
    await plane.work()

    (asked,) = await plane.store.approvals.list()
    child_job = plane.job(asked.job_id)
    assert isinstance(await people.decide(child_job, "alice"), NotAllowed)
    await people.approve(child_job, "bob")
    await plane.work()
    assert await job.result(timeout=5) == "bob"


def test_a_decision_survives_json() -> None:
    decision = Approval("approved", "alice", None, {"n": 1}, True)
    assert Approval.from_json(json.loads(json.dumps(decision.to_json()))) == decision
