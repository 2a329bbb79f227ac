"""A large audit log answers from its indexes: nobody who looks at a page, and no sealer, reads it all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from cortex_plane.audit.model import BEFORE_ALL
from cortex_plane.clock import instant
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from cortex_plane.storage.statements import statement
from cortex_plane.testing import ManualClock, PostgresCluster
from cortex_plane.testing.clock import START
from cortex_plane.wiring import open_store

pytestmark = pytest.mark.anyio

ENTRIES = 20_000
RARE = 5_000

ROWS = {
    "at": "{start} + n * {second}",
    "tenant_id": "case when n % {rare} = 0 then '{tenant}' end",
    "actor": "case when n % {rare} = 0 then 'ada' else 'worker:' || (n % 20) end",
    "action": "case when n % {rare} = 0 then 'GATE_CLOSED' else 'STALE_WRITE' end",
    "object_type": "'job'",
    "object_id": "'job-' || (n / 4)",
}
RANGE: dict[str, Any] = {"since": START, "upper_at": START.replace(year=2100), "upper_seq": BEFORE_ALL, "limit": 50}
NO_MORE: dict[str, Any] = {"actor": None, "action": None, "tenant_id": None}

# What is asked, and the index that answers.
QUESTIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "newest": ("audit/page", RANGE, "audit_log_newest"),
    "lately": ("audit/page", {**RANGE, "since": START.replace(year=2099)}, "audit_log_newest"),
    "object": ("audit/page_of_object", {**RANGE, **NO_MORE, "object_id": "job-7"}, "audit_log_of_object"),
    "actor": ("audit/page_of_actor", {**RANGE, **NO_MORE, "actor": "ada"}, "audit_log_of_actor"),
    "action": ("audit/page_of_action", {**RANGE, **NO_MORE, "action": "GATE_CLOSED"}, "audit_log_of_action"),
    "tenant": ("audit/page_of_tenant", {**RANGE, "tenant_id": DEFAULT_TENANT_ID}, "audit_log_of_tenant"),
    "completions": ("audit/page_of_completions", {**RANGE, **NO_MORE, "looked_through": 500}, "audit_log_newest"),
    "looked": ("audit/looked_through", {**RANGE, "looked_through": 500}, "audit_log_newest"),
    "look": ("seals/look", {"after": ENTRIES - 10}, "audit_log_pkey"),
    "entries": ("seals/entries", {"after": 100, "through": 200, "limit": 50}, "audit_log_pkey"),
}

# What is put in order only when it was found: the few of one object, and those that were looked through.
SORTED = {"object", "completions"}


def fill(numbers: str, **words: object) -> str:
    chosen = ", ".join(expression.format(rare=RARE, **words) for expression in ROWS.values())
    return f"insert into cortex.audit_log ({', '.join(ROWS)}) select {chosen} from {numbers}"


@pytest.fixture(scope="module")
async def postgres(cluster: PostgresCluster, anyio_backend: str) -> AsyncIterator[asyncpg.Connection]:
    url = cluster.create_database("test_audit_plans", template="cortex_template")
    connection = await asyncpg.connect(url)
    await connection.execute("alter table cortex.audit_log set (autovacuum_enabled = false)")
    words = {"start": f"timestamptz '{START}'", "second": "interval '1 second'", "tenant": DEFAULT_TENANT_ID}
    sql = fill(f"generate_series(1, {ENTRIES}) n", **words).replace(f"'{DEFAULT_TENANT_ID}'", f"'{DEFAULT_TENANT_ID}'::uuid")
    await connection.execute(sql)
    yield connection
    await connection.close()
    cluster.drop_database("test_audit_plans")


@pytest.fixture(scope="module")
async def sqlite(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[apsw.Connection]:
    file: Path = tmp_path_factory.mktemp("plans") / "test.db"
    store: Any = open_store(f"sqlite:///{file}", ManualClock())
    await store.open()
    await store.close()
    connection = apsw.Connection(str(file))
    numbers = f"(with recursive c(n) as (select 1 union all select n + 1 from c where n < {ENTRIES}) select n from c)"
    connection.execute(fill(numbers, start=instant(START), second=1_000_000, tenant=DEFAULT_TENANT_ID).replace("cortex.", ""))
    yield connection
    connection.close()


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("analysed", [False, True], ids=["not counted", "counted"])
@pytest.mark.parametrize("question", QUESTIONS)
async def test_postgres_reads_little(postgres: asyncpg.Connection, question: str, analysed: bool, mode: str) -> None:
    name, values, index = QUESTIONS[question]
    wanted = statement(name, "postgres")
    trial = postgres.transaction()
    await trial.start()
    if analysed:
        await postgres.execute("analyze cortex.audit_log")
    await postgres.execute(f"set local plan_cache_mode = {mode}")
    plan = await postgres.fetch(f"explain (analyze, costs off) {wanted.sql}", *[values[name] for name in wanted.parameters])
    text = "\n".join(row[0] for row in plan)
    await trial.rollback()

    assert index in text
    assert "Seq Scan" not in text
    assert question == "completions" or "Rows Removed by Filter" not in text


@pytest.mark.parametrize("question", QUESTIONS)
async def test_sqlite_reads_little(sqlite: apsw.Connection, question: str) -> None:
    name, values, index = QUESTIONS[question]
    numbers = {key: instant(value) if hasattr(value, "year") else value for key, value in values.items()}
    sql = f"explain query plan {statement(name, 'sqlite').sql}"
    steps = [str(row[3]) for row in sqlite.execute(sql, {**numbers, "now": 0}).fetchall()]
    reads = [step for step in steps if "audit_log" in step]

    assert reads
    for read in reads:
        assert read.startswith("SEARCH audit_log USING")
        assert ("INTEGER PRIMARY KEY" if index == "audit_log_pkey" else index) in read
    assert question in SORTED or not [step for step in steps if "TEMP B-TREE" in step]
