"""Every failure that nothing follows is in the audit log, however the job came to fail."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane import PermanentFailure
from cortex_plane.durable.context import Context
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus
from cortex_plane.testing import TestPlane
from tests.contract.support import raw_client

pytestmark = pytest.mark.anyio


async def permanent(plane: TestPlane) -> JobHandle[Any]:
    @plane.agent("doomed")
    async def doomed(ctx: Context) -> None:
        raise PermanentFailure("no such account")

    job = await plane.submit("doomed")
    await plane.work()
    return job


async def wrong_arguments(plane: TestPlane) -> JobHandle[Any]:
    """They were right for the code that was there when the job was submitted."""

    @plane.agent("counter")
    async def counter(ctx: Context, count: int) -> None: ...

    job = await plane.submit("counter", {"count": 1})
    async with raw_client(plane.settings.database_url, plane.clock) as raw:
        trigger = "drop trigger job_payload" if raw.kind == "sqlite" else "alter table cortex.job disable trigger job_payload"
        await raw(trigger)
        await raw(f"""update cortex.job set payload = '{{"count":"many"}}' where id = '{job.id}'""")
    await plane.work()
    return job


async def denied(plane: TestPlane) -> JobHandle[Any]:
    job = await _asking(plane)
    await plane.approvals.deny((await plane.approvals.list())[0].id, by="ann")
    return job


async def expired(plane: TestPlane) -> JobHandle[Any]:
    job = await _asking(plane)
    await plane.clock.advance(hours=25)
    await plane.store.approvals.expire(10)
    return job


async def corrupted(plane: TestPlane) -> JobHandle[Any]:
    job = await _asking(plane)
    async with raw_client(plane.settings.database_url, plane.clock) as raw:
        cut = (
            "json_set(checkpoint, '$.step_index', 77)"
            if raw.kind == "sqlite"
            else ("jsonb_set(checkpoint::jsonb, '{step_index}', '77')::json")
        )
        await raw(f"update cortex.job set checkpoint = {cut} where id = '{job.id}'")
    await plane.approvals.approve((await plane.approvals.list())[0].id, by="ann")
    await plane.work()
    return job


async def out_of_time(plane: TestPlane) -> JobHandle[Any]:
    @plane.agent("sleeper")
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep(7200)

    job = await plane.submit("sleeper", deadline=3600)
    await plane.work()
    await plane.clock.advance(hours=1, seconds=1)
    await plane.store.jobs.end_overdue(10)
    return job


async def by_hand(plane: TestPlane) -> JobHandle[Any]:
    job = await _asking(plane)
    async with raw_client(plane.settings.database_url, plane.clock) as raw:
        when = "updated_at + 1" if raw.kind == "sqlite" else "updated_at + interval '1 second'"
        await raw(
            "update cortex.job set status = 'FAILED', error_message = 'by hand', approval_token = null, "
            f"approval_expires_at = null, updated_at = {when}, finished_at = {when} where id = '{job.id}'"
        )
    return job


async def _asking(plane: TestPlane) -> JobHandle[Any]:
    @plane.agent("asker")
    async def asker(ctx: Context) -> None:
        await ctx.step("first", str)
        await ctx.approval("Do it?", approvers="ann")

    await plane.people.add("ann")
    job = await plane.submit("asker")
    await plane.work()
    return job


WAYS = {
    permanent: "PermanentFailure",
    wrong_arguments: "WrongType",
    denied: "ApprovalDenied",
    expired: "ApprovalExpired",
    corrupted: "CheckpointCorrupted",
    out_of_time: "DeadlineExceeded",
    by_hand: None,
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_permanent_failure_is_in_the_audit_log_once(plane: TestPlane, way: Any) -> None:
    job = await way(plane)

    found = await plane.jobs.get(job.id)
    assert found.status is JobStatus.FAILED
    failures = [one.entry for one in await plane.store.audit.list(job.id) if one.entry.action == "JOB_FAILED"]
    assert [one.details["error"] for one in failures] == [WAYS[way]]
    assert failures[0].details["error_message"] == found.error_message


async def test_of_a_chain_only_the_last_failure_is_in_the_audit_log(plane: TestPlane) -> None:
    @plane.agent("flaky", retry=RetryPolicy("chain", 1, Backoff(0)))
    async def flaky(ctx: Context) -> None:
        raise RuntimeError("boom")

    job = await plane.submit("flaky")
    await plane.work()

    last = (await plane.jobs.get(job.id)).retried_as
    store = plane.store
    assert last is not None
    assert await store.audit.list(job.id) == []
    assert [one.entry.action for one in await store.audit.list(last)] == ["JOB_EXHAUSTED_RETRIES"]
