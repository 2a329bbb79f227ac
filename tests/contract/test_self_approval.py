"""Where a gate forbids self-approval, nobody who stands behind the job decides: however the job came to be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from cortex_plane.approvals.decisions import Decided, NotAllowed
from cortex_plane.durable.context import Context
from cortex_plane.grants.execution import RunWish, start_run
from cortex_plane.jobs.fields import Submission
from cortex_plane.jobs.states import JobStatus
from cortex_plane.retention.model import RecordKind
from cortex_plane.testing import TestPlane
from tests.contract.schedule_scene import settle

pytestmark = pytest.mark.anyio

OWN = NotAllowed("You submitted this job, so another approver must decide.")


async def office(plane: TestPlane) -> None:
    """Ann and Ben may approve; an agent asks for somebody else, itself, by a child, or by a group."""

    @plane.agent("gate")
    async def gate(ctx: Context, topic: str = "") -> None:
        await ctx.step("look", str)
        await ctx.approval(f"Do it: {topic}", no_self_approval=True)

    @plane.agent("caller")
    async def caller(ctx: Context, signed: str | None = None, session: str | None = None) -> None:
        await ctx.call(Submission("gate", {}, created_by=signed, session=session))

    @plane.agent("grandparent")
    async def grandparent(ctx: Context) -> None:
        await ctx.call("caller")

    @plane.agent("spawner")
    async def spawner(ctx: Context) -> None:
        await ctx.group("night", [Submission("gate")])

    for name in ("ann", "ben"):
        await plane.access.add_user(name)
        await plane.access.give_role(name, "approver")


async def decisions(plane: TestPlane) -> list[Any]:
    """What Ann and then Ben are answered."""
    await plane.work()
    (request,) = await plane.approvals.list()
    assert await plane.approvals.list(waiting_for="ann") == []
    assert [one.id for one in await plane.approvals.list(waiting_for="ben")] == [request.id]
    return [await plane.approvals.approve(request.id, by=name) for name in ("ann", "ben")]


async def by_key(plane: TestPlane) -> None:
    added = await plane.access.add_key("ci", ["submitter"], tenant="default", actor="user:ann")
    credential = await plane.access.by_key(added.secret)
    assert credential is not None
    await plane.submit("gate", created_by=credential.name)


async def by_schedule_that_she_edited(plane: TestPlane) -> None:
    await plane.schedules.add("nightly", "agent:gate", "0 3 * * *", created_by="user:carl")
    schedule = await plane.schedules.change("nightly", input={"topic": "mine"}, actor="user:ann")
    assert schedule.next_run_at is not None
    await plane.clock.advance(schedule.next_run_at - plane.clock.moment())
    await settle(plane)


async def by_schedule_that_she_triggered(plane: TestPlane) -> None:
    await plane.schedules.add("nightly", "agent:gate", "0 3 * * *", created_by="user:carl")
    await plane.schedules.trigger("nightly", actor="user:ann")
    await settle(plane)


async def by_child(plane: TestPlane) -> None:
    await plane.submit("caller", created_by="user:ann")


async def by_child_signed_by_another(plane: TestPlane) -> None:
    await plane.submit("caller", {"signed": "ben's robot"}, created_by="user:ann")


async def by_grandchild(plane: TestPlane) -> None:
    await plane.submit("grandparent", created_by="user:ann")


async def by_child_of_her_session(plane: TestPlane) -> None:
    session = await plane.people.start_session("ann")
    await plane.submit("grandparent", session=session.id)


async def by_child_in_another_session(plane: TestPlane) -> None:
    await plane.access.add_user("carl")
    hers, his = await plane.people.start_session("ann"), await plane.people.start_session("carl")
    await plane.submit("caller", {"session": his.id}, session=hers.id)


async def by_group_of_a_handler(plane: TestPlane) -> None:
    await plane.submit("spawner", created_by="user:ann")


async def by_child_under_her_grant(plane: TestPlane) -> None:
    grant = await plane.grants.add(["agent:run:*"], user="ann")
    await plane.schedules.add("nightly", "agent:caller", "0 3 * * *", grant=grant.id)
    await plane.schedules.trigger("nightly")
    await settle(plane)


async def her_service_account(plane: TestPlane) -> str:
    await plane.access.give_role("ann", "admin")
    await plane.people.add("ci", owner="ann")
    return "ci"


async def by_child_under_the_grant_of_her_service_account(plane: TestPlane) -> None:
    grant = await plane.grants.add(["agent:run:*"], user=await her_service_account(plane))
    await plane.schedules.add("nightly", "agent:caller", "0 3 * * *", grant=grant.id)
    await plane.schedules.trigger("nightly")
    await settle(plane)


async def by_a_run_that_her_service_account_asked_for(plane: TestPlane) -> None:
    name = await her_service_account(plane)
    grant = await plane.grants.add(["agent:run:*"])
    await run_under(plane, grant.id, service_name=f"user:{name}")


async def by_fork_of_a_run_under_her_grant(plane: TestPlane) -> None:
    grant = await plane.grants.add(["agent:run:*"], user="ann")
    run_id = await run_under(plane, grant.id, service_name="user:carl")
    await plane.jobs.cancel(run_id)
    await plane.checkpoints.fork(run_id, from_step="look", created_by="user:carl")


async def by_fork_of_a_child_under_her_grant(plane: TestPlane) -> None:
    grant = await plane.grants.add(["agent:run:*"], user="ann")
    run_id = await run_under(plane, grant.id, graph="agent:caller", service_name="user:carl")
    [child] = [job.id for job in await plane.jobs.list() if job.job_type == "gate"]
    for job_id in (run_id, child):
        await plane.jobs.cancel(job_id)
    await plane.checkpoints.fork(child, from_step="look", created_by="user:carl")


async def by_child_that_outlives_the_record_of_its_request(plane: TestPlane) -> None:
    grant = await plane.grants.add(["agent:run:*"], user="ann")
    run_id = await run_under(plane, grant.id, graph="agent:spawner")
    assert (await plane.jobs.get(run_id)).status is JobStatus.COMPLETED
    ended_before = plane.clock.moment() + timedelta(days=3_650)
    assert await plane.store.retention.delete_records(RecordKind.REQUEST, ended_before, 10) == 1


async def run_under(plane: TestPlane, grant_id: str, graph: str = "agent:gate", service_name: str | None = None) -> str:
    wish = RunWish(graph, "the-key", grant_id, {}, service_name)
    run = await start_run(plane.store, plane.directory, plane.clock, plane._ids, wish)
    await plane.work()
    return run.run_id


async def by_retry(plane: TestPlane) -> None:
    job = await plane.submit("gate", created_by="user:carl")
    await plane.work()
    await plane.jobs.cancel(job.id)
    await plane.jobs.retry(job.id, actor="user:ann")


WAYS: list[Callable[[TestPlane], Awaitable[None]]] = [
    by_key,
    by_schedule_that_she_edited,
    by_schedule_that_she_triggered,
    by_child,
    by_child_signed_by_another,
    by_grandchild,
    by_child_of_her_session,
    by_child_in_another_session,
    by_group_of_a_handler,
    by_child_under_her_grant,
    by_child_under_the_grant_of_her_service_account,
    by_a_run_that_her_service_account_asked_for,
    by_fork_of_a_run_under_her_grant,
    by_fork_of_a_child_under_her_grant,
    by_child_that_outlives_the_record_of_its_request,
    by_retry,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_whoever_stands_behind_a_job_may_not_decide_about_it(
    plane: TestPlane, way: Callable[[TestPlane], Awaitable[None]]
) -> None:
    await office(plane)

    await way(plane)

    refused, decided = await decisions(plane)
    assert refused == OWN
    assert isinstance(decided, Decided)


async def test_somebody_who_edited_a_schedule_earlier_may_decide_when_another_has_edited_it_since(plane: TestPlane) -> None:
    await office(plane)
    await plane.schedules.add("nightly", "agent:gate", "0 3 * * *", created_by="user:ben")
    await plane.schedules.change("nightly", input={"topic": "mine"}, actor="user:ann")
    await plane.schedules.pause("nightly", actor="user:ben")

    await plane.schedules.trigger("nightly", actor="user:carl")
    await settle(plane)

    refused, decided = await decisions(plane)
    assert refused == OWN, "pausing changes nothing of what it runs"
    assert isinstance(decided, Decided)


async def test_a_child_has_the_request_the_session_the_schedule_and_the_trace_of_its_parent(plane: TestPlane) -> None:
    await office(plane)
    session = await plane.people.start_session("ann")
    schedule = await plane.schedules.add("nightly", "agent:grandparent", "0 3 * * *", created_by="user:carl")
    await plane.schedules.trigger("nightly", actor="user:ben")
    await settle(plane)

    family = [await plane.jobs.get(one.id) for one in await plane.jobs.list() if one.queue == "default"]
    assert {job.job_type for job in family} == {"grandparent", "caller", "gate"}
    assert {job.schedule_id for job in family} == {schedule.id}
    assert len({job.request_id for job in family}) == len({job.trace_id for job in family}) == 1
    assert all(job.request_id and job.trace_id for job in family)
    behind = {by for job in family for by in (job.created_by, *job.submitters)}
    assert behind == {f"grant:{schedule.grant_id}", "user:carl", "user:ben"}
    plain = await plane.jobs.get((await plane.submit("gate", session=session.id, run_timeout=9)).id)
    assert (plain.session_id, plain.timeout_seconds, plain.request_id, plain.submitters) == (session.id, 9.0, None, [])
    assert {job.status for job in family} == {JobStatus.RETRY, JobStatus.WAITING_FOR_APPROVAL}
