"""Deleting old records costs what is due: the others, however many they are, are not read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import apsw
import pytest

from cortex_plane.audit.model import AuditEntry, Seal
from cortex_plane.audit.pruning import prune_audit
from cortex_plane.audit.service import seal_audit
from cortex_plane.ids import new_id
from cortex_plane.retention.model import RecordKind, RetentionRule, RuleId, oldest_id_after
from cortex_plane.storage.sqlite.connection import connect
from cortex_plane.storage.statements import statement
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from tests.contract.sessions import Session, sessions
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

MANY = 5_000
FEW = 50

FILL = f"""
insert into cortex.worker (id, name, status, concurrency, lease_seconds, lease_until, ended_at)
  select cortex.uuid7(), 'w', 'STOPPED', 1, 1, cortex.now(), cortex.now() from generate_series(1, {MANY});
insert into cortex.direct_reservation (id, queue, job_id, reserved_by, expires_at, status, ended_at)
  select cortex.uuid7(), 'q', gen_random_uuid(), 'ada', cortex.now(), 'RELEASED', cortex.now() from generate_series(1, {MANY});
set session_replication_role = replica;
insert into cortex.schedule_run (id, schedule_id, scheduled_for, local_time, timezone, origin, status, completed_at)
  select gen_random_uuid(), '{"0" * 8}-0000-0000-0000-{"0" * 12}', cortex.now() + n * interval '1 s', '', 'UTC', 'cron',
    'success', cortex.now()
  from generate_series(1, {MANY}) n;
insert into cortex.execution_request (id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id,
    virtual_key_id, run_id, trace_id, outcome, finished_at)
  select cortex.uuid7(), gen_random_uuid(), n::text, repeat('0', 64), 'g', gen_random_uuid(), gen_random_uuid(), 'k',
    gen_random_uuid(), 't', 'COMPLETED', cortex.now()
  from generate_series(1, {MANY}) n;
"""
TABLES = [kind for kind in RecordKind if kind not in (RecordKind.JOB, RecordKind.AUDIT)]


@pytest.fixture
async def session(postgres_url: str) -> AsyncIterator[Session]:
    async with sessions(postgres_url, 1) as [session]:
        await session.begin()
        await session.connection.execute(FILL)
        yield session


@pytest.mark.parametrize("counted", [False, True], ids=["not counted", "counted"])
@pytest.mark.parametrize("kind", TABLES)
async def test_postgresql_reads_no_record_that_is_not_due(session: Session, kind: RecordKind, counted: bool) -> None:
    if counted:
        await session.connection.execute(f"analyze cortex.{kind}")
    [(now,)] = await session.connection.fetch("select cortex.now() - interval '1 day'")
    before = await _read(session, kind)

    deleted = await session.read(f"retention/delete_{kind}", before_id=oldest_id_after(now), ended_before=now, limit=500)

    after = await _read(session, kind)
    assert len(deleted) == 0
    assert after[0] == before[0]
    assert after[1] - before[1] <= FEW


async def _read(session: Session, kind: str) -> tuple[int, int]:
    """Scans of the whole table, and rows that were found by an index."""
    [row] = await session.connection.fetch(
        "select seq_scan, coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables where schemaname = 'cortex' and relname = $1",
        str(kind),
    )
    return row[0], row[1]


@pytest.mark.parametrize("kind", TABLES)
async def test_sqlite_finds_records_that_are_due_by_an_index(tmp_path: Any, sqlite_template: Any, kind: RecordKind) -> None:
    connection: apsw.Connection = connect(sqlite_template, for_writing=False)
    values = {"before_id": new_id(), "ended_before": 0, "limit": 500}

    plan = connection.execute(f"explain query plan {statement(f'retention/delete_{kind}', 'sqlite').sql}", values).fetchall()
    connection.close()

    assert [row[-1] for row in plan if "SCAN r" in str(row[-1])] == []
    assert any("SEARCH r USING" in str(row[-1]) for row in plan)


AUDIT = f"""
insert into cortex.audit_log (action, object_type, object_id) select 'DONE', 'job', n::text from generate_series(1, {MANY}) n;
set session_replication_role = replica;
insert into cortex.audit_seal (number, first_seq, last_seq, entries, fingerprints, digest, previous_digest)
  select n, n, n, 1, decode(repeat('00', 40), 'hex'), lpad(n::text, 64, '0'), lpad((n - 1)::text, 64, '0')
  from generate_series(1, {MANY}) n;
insert into cortex.retention_rule (id, keep_seconds, record) values (cortex.uuid7(), 0, 'audit_log');
insert into cortex.audit_log (action, object_type, object_id)
  values ('AUDIT_LOG_PRUNED', 'audit_seal', '10:' || lpad('10', 64, '0'));
set session_replication_role = default;
"""
AUDIT_TABLES = ("audit_log", "audit_seal")


@pytest.mark.parametrize("counted", [False, True], ids=["not counted", "counted"])
async def test_postgresql_prunes_the_audit_log_without_reading_what_stays(session: Session, counted: bool) -> None:
    await session.connection.execute(AUDIT)
    if counted:
        await session.connection.execute("analyze cortex.audit_log; analyze cortex.audit_seal")
    before = [await _read(session, table) for table in AUDIT_TABLES]

    [mark] = await session.read("seals/pruned")
    await session.read("seals/list", after=0, limit=1)
    await session.read("seals/hold_mark", seal=0)
    await session.read("seals/move_mark", seal=10, digest=f"{10:064d}", last_seq=10)
    deleted = await session.read("seals/delete_entries", after=mark["last_seq"], through=10)

    after = [await _read(session, table) for table in AUDIT_TABLES]
    assert [row["seq"] for row in deleted] == list(range(1, 11))
    for (scans, rows), (scans_before, rows_before) in zip(after, before, strict=True):
        assert scans == scans_before
        assert rows - rows_before <= FEW


@pytest.mark.parametrize("name", ["delete_entries", "list", "move_mark"])
async def test_sqlite_prunes_the_audit_log_by_its_keys(sqlite_template: Any, name: str) -> None:
    connection: apsw.Connection = connect(sqlite_template, for_writing=False)
    wanted = statement(f"seals/{name}", "sqlite")

    plan = connection.execute(f"explain query plan {wanted.sql}", dict.fromkeys(wanted.parameters, 1)).fetchall()
    connection.close()

    assert [row[-1] for row in plan if "SCAN" in str(row[-1]) and "audit_pruned" not in str(row[-1])] == []


@pytest.mark.parametrize(("seals", "read"), [(0, 0), (1, 1), (200, 1)])
async def test_a_pass_over_an_audit_log_with_nothing_due_reads_one_seal(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, seals: int, read: int
) -> None:
    scene = Scene(store, clock)
    for _ in range(seals):
        await store.audit.record([AuditEntry("DONE", "job", "1")])
    await seal_audit(store, 10_000, scene.now, batch=1)
    rule = RetentionRule(RuleId(new_id()), 86_400, record=RecordKind.AUDIT)
    came: list[int] = []
    listed = store.seals.list

    async def counted(after: int, limit: int) -> list[Seal]:
        found = await listed(after, limit)
        came.append(len(found))
        return found

    monkeypatch.setattr(store.seals, "list", counted)
    monkeypatch.delattr(type(store.seals), "entries")

    assert await prune_audit(store, rule, scene.now, actor="ada", at_once=True) == 0
    assert sum(came) == read


async def test_a_due_record_among_many_is_found(store: Store, clock: ManualClock) -> None:
    scene = Scene(store, clock)
    gone = [await scene.worker() for _ in range(20)]
    for worker in gone:
        await store.workers.leave(worker)
    await clock.advance(timedelta(days=3650))

    assert await store.retention.delete_records(RecordKind.WORKER, scene.now, 500) == 20
