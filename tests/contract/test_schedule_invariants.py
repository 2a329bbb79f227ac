"""The fourteen invariants of scheduled execution, each by its name."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cortex_plane.durable.context import Context
from cortex_plane.errors import Denied, Unavailable
from cortex_plane.grants.execution import RunWish, look_at_run, start_run
from cortex_plane.grants.execution_client import AsgiClient, HttpExecution
from cortex_plane.grants.execution_service import ExecutionRefused
from cortex_plane.grants.model import GrantRefused, KeyReused, Started
from cortex_plane.http.embedded import serve_itself
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.schedules import runner as slot_runner
from cortex_plane.schedules.model import slot_key
from cortex_plane.testing import TestPlane
from cortex_plane.worker.reconciler import mend_schedules
from tests.contract.schedule_scene import (
    NotedExecution,
    look_after,
    pass_time,
    reporting,
    settle,
    slots,
    statuses,
    waiting_slot_jobs,
)
from tests.contract.support import Raw, Refused, raw_client

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
NO_RETRIES = RetryPolicy(max_retries=0)


async def test_schedules_never_bypass_executor(plane: TestPlane) -> None:
    ran = reporting(plane)
    schedule = await plane.schedules.add("nightly", "agent:report", "0 * * * *", input={"kind": "full"})
    assert schedule.next_run_at is not None
    await plane.clock.set(schedule.next_run_at)
    service = NotedExecution()

    ended = await look_after(plane, schedule, schedule.next_run_at, service)

    key = slot_key(schedule.id, schedule.next_run_at)
    assert ended == "success"
    assert service.calls[0] == ("start", "agent:report", key, schedule.grant_id)
    assert {job.job_type for job in await plane.jobs.list()} == {"cortex.slot"}, "whoever schedules starts nothing himself"
    assert ran == []


async def test_grant_not_session(plane: TestPlane) -> None:
    reporting(plane)
    schedule = await plane.schedules.add("nightly", "agent:report", "0 * * * *")
    await plane.clock.advance(HOUR)

    await settle(plane)

    [slot] = await slots(plane, "nightly")
    assert slot.run_id is not None
    assert (await plane.jobs.get(slot.run_id)).created_by == f"grant:{schedule.grant_id}"
    request = await plane.store.requests.by_run(slot.run_id)
    assert request is not None
    assert request.grant_id == schedule.grant_id


async def test_billing_via_grant(plane: TestPlane) -> None:
    account = await plane.billing.add("research", virtual_key="vk_research")

    @plane.agent("report")
    async def report(ctx: Context) -> None:
        ctx.usage(prompt_tokens=100, completion_tokens=20, cents=7)

    await plane.schedules.add("nightly", "agent:report", "0 * * * *", billing_account="research")
    await plane.clock.advance(HOUR)
    await settle(plane)

    [slot] = await slots(plane, "nightly")
    receipts = await plane.billing.receipts(slot.run_id or "")
    assert {(one.unit, one.quantity, one.attempt) for one in receipts} == {
        ("cents", 7, 1),
        ("prompt_tokens", 100, 1),
        ("completion_tokens", 20, 1),
    }
    assert {(one.billing_account_id, one.virtual_key_id) for one in receipts} == {(account.id, "vk_research")}


async def test_job_key_per_slot(plane: TestPlane) -> None:
    reporting(plane)

    schedule = await plane.schedules.add("nightly", "agent:report", "0 * * * *")

    [job_id] = await waiting_slot_jobs(plane)
    job = await plane.jobs.get(job_id)
    assert job.job_key == f"{schedule.id}:2026-01-05T10:00:00+00:00"
    assert job.run_at == schedule.next_run_at


async def test_producer_enqueues_next(plane: TestPlane) -> None:
    """After a success and after a failure."""

    @plane.agent("moody", retry=NO_RETRIES)
    async def moody(ctx: Context) -> None:
        if len(await slots(plane, "hourly")) % 2 == 0:
            raise ValueError("not today")

    await plane.schedules.add("hourly", "agent:moody", "0 * * * *")

    await pass_time(plane, timedelta(hours=4), timedelta(minutes=30))

    assert await statuses(plane, "hourly") == [
        ("10:00", "success"),
        ("11:00", "run_failed"),
        ("12:00", "success"),
        ("13:00", "run_failed"),
    ]
    assert len(await waiting_slot_jobs(plane)) == 1


async def test_queue_serializes_schedule(plane: TestPlane) -> None:
    reporting(plane)
    alone = await plane.schedules.add("alone", "agent:report", "0 * * * *")
    await plane.schedules.add("beside", "agent:report", "0 * * * *", overlap="allow")

    keys = {(await plane.jobs.get(job_id)).serial_key for job_id in await waiting_slot_jobs(plane)}

    assert keys == {alone.id, None}


async def test_skip_missed_runs(plane: TestPlane) -> None:
    ran = reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    await plane.clock.advance(hours=5, minutes=30)

    await settle(plane)

    assert ran == []
    assert await statuses(plane, "hourly") == [(f"{hour}:00", "missed") for hour in range(10, 15)]
    assert (await plane.schedules.get("hourly")).next_run_at == plane.clock.moment().replace(hour=15, minute=0, second=0)


@pytest.mark.parametrize("fate", ["cancelled", "deleted"])
async def test_reconciler_guarantees_chain(plane: TestPlane, fate: str, database_url: str) -> None:
    ran = reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *", input={"kind": "x"})
    store = plane.store
    [job_id] = await waiting_slot_jobs(plane)
    await store.jobs.cancel(job_id, None, None)
    if fate == "deleted":
        async with raw_client(database_url, plane.clock) as raw:
            await raw(f"delete from cortex.job where id = '{job_id}'")

    mended = await mend_schedules(store, plane.directory, new_id)
    again = await mend_schedules(store, plane.directory, new_id)

    assert (mended, again) == (1, 0)
    await plane.clock.advance(HOUR)
    await settle(plane)
    assert ran == ["x"]


async def test_grant_validated_twice(plane: TestPlane, database_url: str) -> None:
    reporting(plane)
    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    assert schedule.next_run_at is not None
    async with raw_client(database_url, plane.clock) as raw:
        await raw(f"update cortex.execution_grant set revoked_at = {raw.now}")
    await plane.clock.set(schedule.next_run_at)
    service, store = NotedExecution(), plane.store

    ended = await look_after(plane, schedule, schedule.next_run_at, service)

    assert (ended, service.calls) == ("error", []), "the worker does not even ask"
    assert await statuses(plane, "hourly") == [("10:00", "grant_revoked")]
    wish = RunWish("agent:report", "key", schedule.grant_id, {})
    with pytest.raises(GrantRefused, match="was revoked"):
        await start_run(store, plane.directory, plane.clock, new_id, wish)


async def test_the_service_validates_the_scope_the_time_and_the_uses(plane: TestPlane) -> None:
    reporting(plane)
    reporting(plane, "other")
    grant = await plane.grants.add(["agent:run:report"], expires_at=plane.clock.moment() + HOUR, max_uses=1)
    store = plane.store

    async def start(graph_id: str, key: str) -> None:
        await start_run(store, plane.directory, plane.clock, new_id, RunWish(graph_id, key, grant.id, {}))

    with pytest.raises(GrantRefused, match=r"does not allow agent:other.*agent:run:other"):
        await start("agent:other", "a")
    await start("agent:report", "b")
    with pytest.raises(GrantRefused, match="good for 1 runs"):
        await start("agent:report", "c")
    await plane.clock.advance(HOUR)
    with pytest.raises(GrantRefused, match="expired"):
        await start("agent:report", "d")
    assert len(await plane.jobs.list()) == 1


async def test_run_ledger_for_governance(plane: TestPlane) -> None:
    reporting(plane)
    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    assert schedule.next_run_at is not None
    at = schedule.next_run_at
    await plane.clock.set(at)

    seen = [await look_after(plane, schedule, at)]
    [running] = await slots(plane, "hourly")
    await plane.work()
    seen.append(await look_after(plane, schedule, at))
    [ended] = await slots(plane, "hourly")

    assert seen == ["sleeping", "success"]
    assert (running.status, running.started_at, running.completed_at) == ("running", at, None)
    assert (ended.status, ended.run_id, ended.trace_id) == ("success", running.run_id, running.trace_id)
    assert ended.completed_at is not None


async def test_execution_via_service_api() -> None:
    """By what it imports; import-linter checks the same through all that those import."""
    tree = ast.parse(Path(slot_runner.__file__).read_text())
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert "cortex_plane.grants.execution_service" in imported
    assert not [name for name in imported if re.match(r"cortex_plane\.(grants\.execution$|graphs\b|integrations\b|http\b)", name)]


async def test_execution_via_service_api_over_http(plane: TestPlane) -> None:
    """A worker whose plane serves itself reaches graphs through the API's own door, and through no other."""
    app = serve_itself(plane)
    plane.__dict__.pop("execution", None)
    plane.__dict__.pop("built_in", None)
    ran = reporting(plane)
    asked: list[tuple[str, str]] = []

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        asked.append((scope["method"], scope["path"]))
        await app(scope, receive, send)

    plane.execution_app = noting
    await plane.schedules.add("hourly", "agent:report", "0 * * * *", input={"kind": "x"})
    await plane.clock.advance(HOUR)
    await settle(plane)

    [slot] = await slots(plane, "hourly")
    assert (ran, slot.status) == (["x"], "success")
    assert asked[0] == ("POST", "/api/internal/graphs/agent:report/runs")
    assert set(asked[1:]) == {("GET", f"/api/internal/runs/{slot.run_id}")}


async def test_internal_api_shared_secret(plane: TestPlane) -> None:
    """No network is trusted: whoever calls without the secret is refused, on the same machine too."""
    reporting(plane)
    client = AsgiClient(serve_itself(plane))
    secret = plane.settings.internal_api_token
    grant = await plane.grants.add(["agent:run:report"])

    for wrong in ("", "wrong", secret[:-1], secret.swapcase()):
        with pytest.raises(Unavailable, match="401"):
            await HttpExecution(client, "http://localhost", wrong).start("agent:report", "k", grant.id, {}, "test")
    assert await plane.jobs.list() == []

    await HttpExecution(client, "http://localhost", secret).start("agent:report", "k", grant.id, {}, "test")
    assert len(await plane.jobs.list()) == 1


async def test_execution_idempotency_persisted_over_http(plane: TestPlane, database_url: str) -> None:
    """It outlives the job, and the server that answered first."""
    reporting(plane)
    grant = await plane.grants.add(["agent:run:report"])

    async def start(kind: str) -> Started:
        client, secret = AsgiClient(serve_itself(plane)), plane.settings.internal_api_token
        execution = HttpExecution(client, "http://localhost", secret)
        return await execution.start("agent:report", "the-key", grant.id, {"kind": kind}, "test")

    first = await start("x")
    await plane.work()
    async with raw_client(database_url, plane.clock) as raw:
        await raw(f"delete from cortex.job where id = '{first.run_id}'")
    again = await start("x")

    assert (again.run_id, again.trace_id, first.replayed, again.replayed) == (first.run_id, first.trace_id, False, True)
    with pytest.raises(ExecutionRefused) as refused:
        await start("y")
    assert refused.value.code == "key_reused"


async def test_execution_idempotency_persisted(plane: TestPlane, database_url: str) -> None:
    ran = reporting(plane)
    grant = await plane.grants.add(["agent:run:*"])
    store = plane.store

    async def start(kind: str) -> tuple[JobId, bool]:
        wish = RunWish("agent:report", "the-key", grant.id, {"kind": kind})
        started = await start_run(store, plane.directory, plane.clock, new_id, wish)
        return started.run_id, started.replayed

    run_id, first = await start("x")
    await plane.work()
    async with raw_client(database_url, plane.clock) as raw:
        await raw(f"delete from cortex.job where id = '{run_id}'")
    again, replayed = await start("x")

    assert (again, first, replayed) == (run_id, False, True)
    assert (await look_at_run(store, plane.clock, run_id)).progress == "success"
    await plane.work()
    assert ran == ["x"]
    with pytest.raises(KeyReused, match="was used for another request"):
        await start("y")
    assert (await plane.grants.get(grant.id)).uses == 1


async def test_run_ownership_boundary(plane: TestPlane, database_url: str) -> None:
    """The database refuses what the one side may not write, and the other side's work goes through."""

    @plane.agent("report")
    async def report(ctx: Context) -> None:
        ctx.usage(cents=3)

    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    assert schedule.next_run_at is not None
    await plane.clock.set(schedule.next_run_at)
    store = plane.store

    async def run(key: str) -> str:
        wish = RunWish("agent:report", key, schedule.grant_id, {})
        started = await start_run(store, plane.directory, plane.clock, new_id, wish)
        await plane.run_worker(["default"], until_idle=True)
        return (await look_at_run(store, plane.clock, started.run_id)).progress

    await store.jobs.cancel(schedule.slot_job_id or JobId(""), None, None)
    assert await run("before") == "success"
    async with raw_client(database_url, plane.clock) as raw:
        await _refuse_writes(raw, "execution_request")
        await _refuse_writes(raw, "charge_receipt")
        assert await look_after(plane, schedule, schedule.next_run_at, NotedExecution()) == "success"
        with pytest.raises(Refused, match="not yours"):
            await raw("update cortex.execution_request set graph_id = 'x'")
        await _allow_writes(raw, "execution_request")
        await _allow_writes(raw, "charge_receipt")

        await _refuse_writes(raw, "schedule_run")
        await _refuse_writes(raw, "schedule")
        assert await run("after") == "success"
        with pytest.raises(Refused, match="not yours"):
            await raw("update cortex.schedule_run set local_time = 'x'")


async def _refuse_writes(raw: Raw, table: str) -> None:
    if raw.kind == "postgres":
        await raw(
            "create or replace function cortex.refuse_in_test() returns trigger language plpgsql as "
            "$$ begin raise exception 'not yours'; end $$"
        )
        await raw(
            f"create trigger in_test before insert or update or delete on cortex.{table} "
            "for each statement execute function cortex.refuse_in_test()"
        )
        return
    for verb in ("insert", "update", "delete"):
        await raw(f"create trigger in_test_{table}_{verb} before {verb} on {table} begin select raise(abort, 'not yours'); end")


async def _allow_writes(raw: Raw, table: str) -> None:
    if raw.kind == "postgres":
        await raw(f"drop trigger in_test on cortex.{table}")
        return
    for verb in ("insert", "update", "delete"):
        await raw(f"drop trigger in_test_{table}_{verb}")


async def test_nobody_grants_more_than_they_hold(plane: TestPlane) -> None:
    reporting(plane)
    reporting(plane, "other")
    held = ["agent:run:report"]

    with pytest.raises(Denied, match=r"cannot grant agent:run:\*"):
        await plane.grants.add(["agent:run:*"], held=held)
    with pytest.raises(Denied, match="cannot grant agent:run:other"):
        await plane.schedules.add("nightly", "agent:other", "0 * * * *", held=held)

    await plane.grants.add(["agent:run:report", "graph:execute:agent:report"], held=held)
    assert await plane.jobs.list() == []
