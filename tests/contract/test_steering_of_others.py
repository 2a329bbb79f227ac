"""A control that concerns other queues or agents costs a claim nothing, and setting one does not hold up claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import apsw
import pytest

from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.json import dumps
from cortex_plane.queues import controls
from cortex_plane.queues.model import Control, Scope
from cortex_plane.storage.statements import statement
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio

STEERED_CLAIMS = 1
"""The advisory lock that a claim takes before it counts what runs."""


async def set_limit(scene: Scene, scope: Scope, name: str) -> None:
    entry = AuditEntry("LIMIT_CHANGED", str(scope), name, actor="test")
    assert await scene.store.controls.change(scope, name, lambda now: Control(now.scope, now.name, max_running=100), entry)


async def chooses(scene: Scene, raw: Raw) -> bool:
    """Whether a claim from the queue `default` for the agent `echo` goes the long way."""
    worker = await scene.worker()
    if raw.kind == "sqlite":
        database: Any = scene.store.database
        [row] = await database.read("queue/is_steered", queues='["default"]', job_types='["echo"]')
        return bool(row["steered"])
    await raw("begin")
    await raw(f"select * from cortex.claim('{worker}', 'test', array['default'], array['echo'], array[gen_random_uuid()], 1)")
    held = await raw(
        "select 1 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() "
        f"and classid = 1129270868 and objid = {STEERED_CLAIMS}"
    )
    await raw("rollback")
    return bool(held)


@pytest.mark.parametrize(
    ("scope", "name", "concerned"),
    [(Scope.QUEUE, "other", False), (Scope.AGENT, "other", False), (Scope.QUEUE, "default", True), (Scope.AGENT, "echo", True)],
)
async def test_a_claim_goes_the_long_way_only_for_what_concerns_it(
    scene: Scene, raw: Raw, scope: Scope, name: str, concerned: bool
) -> None:
    await scene.submit()
    await set_limit(scene, scope, name)

    assert await chooses(scene, raw) is concerned


@pytest.mark.parametrize("given", [False, True])
async def test_a_pause_of_a_tenant_holds_before_and_after_its_jobs_are_in_their_lanes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    monkeypatch.setattr("cortex_plane.queues.store.PAGE", 2)
    paused = await scene.tenant("paused")
    of_paused = [await scene.submit(tenant_id=paused) for _ in range(5)]
    free = [await scene.submit() for _ in range(5)]
    worker = await scene.worker()
    await controls.pause(scene.store, Scope.TENANT, paused, actor="test", reason=None)
    while given and await scene.store.controls.move_lanes():
        pass

    assert [one.job_id for one in await scene.claim(worker, 1)] == free[:1]
    assert [one.job_id for one in await scene.claim(worker, 10)] == free[1:]
    await controls.resume(scene.store, Scope.TENANT, paused, actor="test", reason=None)
    while given and await scene.store.controls.move_lanes():
        pass
    assert [one.job_id for one in await scene.claim(worker, 10)] == of_paused


async def test_lanes_are_given_and_taken_away_page_by_page(scene: Scene, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_plane.queues.store.PAGE", 2)
    apart = "select count(*) from cortex.queue_entry where by_tenant"
    for _ in range(5):
        await scene.submit()
    counts = []
    for share in (True, False):
        await controls.share_fairly(scene.store, "default", share, actor="test")
        counts += [(await raw(apart))[0][0]]
        while await scene.store.controls.move_lanes():
            counts += [(await raw(apart))[0][0]]

    assert counts == [0, 2, 4, 5, 5, 3, 1, 0]
    assert not await chooses(scene, raw), "nothing is left in the way of claims"


async def test_a_control_that_is_set_while_lanes_are_moved_is_seen_to_afterwards(
    scene: Scene, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_plane.queues.store.PAGE", 2)
    first, second = await scene.tenant("first"), await scene.tenant("second")
    for tenant in (first, second, first, second):
        await scene.submit(tenant_id=tenant)
    await controls.pause(scene.store, Scope.TENANT, second, actor="test", reason=None)
    assert await scene.store.controls.move_lanes()
    await controls.pause(scene.store, Scope.TENANT, first, actor="test", reason=None)
    while await scene.store.controls.move_lanes():
        pass

    assert (await raw("select count(*) from cortex.queue_entry where by_tenant"))[0][0] == 4


async def test_a_fair_queue_passes_over_tenants_whose_agents_the_worker_does_not_have(scene: Scene) -> None:
    await scene.agent("other")
    await controls.share_fairly(scene.store, "default", True, actor="test")
    tenants = [await scene.tenant(f"tenant {n}") for n in range(30)]
    for tenant in tenants[:25]:
        await scene.submit("other", tenant_id=tenant)
    mine = [await scene.submit(tenant_id=tenant) for tenant in tenants[25:] for _ in range(3)]
    worker = await scene.worker()

    first = [one.job_id for one in await scene.claim(worker, 5)]
    assert sorted(first) == sorted(mine[::3]), "one of each tenant"
    assert sorted(one.job_id for one in await scene.claim(worker, 20)) == sorted(set(mine) - set(first))


@pytest.mark.parametrize("set_for", ["fair share", "lifted fair share", "queue", "agent", "tenant"])
async def test_what_a_claim_reads_under_controls_does_not_grow_with_tenants_times_agents(
    scene: Scene, raw: Raw, set_for: str
) -> None:
    names = [f"agent {n}" for n in range(10)]
    for name in names:
        await scene.agent(name)
    tenants = [await scene.tenant(f"tenant {n}") for n in range(100)]
    models = [await scene.new_job(name) for name in names]
    await scene.store.jobs.submit(
        [replace(model, id=JobId(new_id()), tenant_id=tenant) for tenant in tenants for model in models for _ in range(5)]
    )
    if "fair share" in set_for:
        await controls.share_fairly(scene.store, "default", True, actor="test")
    else:
        scope, name = {"queue": (Scope.QUEUE, "default"), "agent": (Scope.AGENT, names[0]), "tenant": (Scope.TENANT, tenants[0])}[
            set_for
        ]
        await controls.limit(scene.store, scope, name, 100, actor="test")
    while await scene.store.controls.move_lanes():
        pass
    if set_for == "lifted fair share":
        await controls.share_fairly(scene.store, "default", False, actor="test")
    worker = await scene.worker()

    claimed, read, most = await read_by_a_claim(raw, worker, names)

    assert claimed >= 20
    assert read < most, "of 5,000 entries"


async def read_by_a_claim(raw: Raw, worker: str, agents: list[str]) -> tuple[int, int, int]:
    """How many jobs a claim of 20 finds, how much it reads for them, and how much that may be.
    PostgreSQL counts entries; SQLite counts steps of its virtual machine, 390,000 to read the whole queue for each agent."""
    if raw.kind == "postgres":
        await raw("begin")
        names = ", ".join(f"'{name}'" for name in agents)
        claimed = await raw(
            f"select * from cortex.claim('{worker}', 'test', array['default'], array[{names}], "
            "array(select gen_random_uuid() from generate_series(1, 20)), 20)"
        )
        [(read,)] = await raw("select idx_tup_fetch from pg_stat_xact_user_tables where relname = 'queue_entry'")
        await raw("rollback")
        return len(claimed), read, 1_000
    connection: apsw.Connection = raw.connection  # type: ignore[attr-defined]
    steps: list[int] = []
    connection.trace_v2(
        apsw.SQLITE_TRACE_PROFILE, lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]), id="test"
    )
    values = {"queues": '["default"]', "job_types": dumps(agents), "limit": 20, "now": int(raw.now)}
    chosen = connection.execute(statement("queue/choose", "sqlite").sql, values).fetchall()
    connection.trace_v2(0, None, id="test")
    return len(chosen), max(steps), 60_000
