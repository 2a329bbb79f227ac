"""Pruning walks the primary key: a batch costs the same at the beginning and at the end of a large table."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_plane.storage.rows import NO_DIGITS
from cortex_plane.storage.sqlite.connection import connect
from cortex_plane.storage.statements import statement
from cortex_plane.testing import ManualClock, PostgresCluster
from cortex_plane.wiring import open_store
from tests.contract.sessions import Session, sessions
from tests.contract.support import Scene
from tests.storage import test_postgres_plans as postgres
from tests.storage import test_sqlite_plans as sqlite
from tests.storage.plans import FINISHED, LARGE, populate
from tests.storage.test_sqlite_plans import Large

pytestmark = pytest.mark.anyio

LOOKED_AT = 1000
BATCH = 200
AT_THE_END = "018a0000-0000-7000-8000-000000004a38"  # The hexadecimal 19,000 of 20,000.


# -- SQLite --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def large(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[Large]:
    clock = ManualClock()
    path: Path = tmp_path_factory.mktemp("retention") / "test.db"
    store: Any = open_store(f"sqlite:///{path}", clock)
    await store.open()
    scene = Scene(store, clock)
    await scene.agent()
    numbers = json.dumps(list(range(1, FINISHED + 1)))
    await store.database.session.run(
        lambda writer: writer.execute(sqlite.FILL, {"now": clock.now(), "numbers": numbers}).fetchall()
    )
    facts = await populate(scene)
    await store.close()
    connection = connect(path, for_writing=True)
    yield Large(connection, facts, clock)
    connection.close()


async def test_sqlite_looks_at_the_next_jobs_and_no_others(large: Large) -> None:
    values = {"after": NO_DIGITS, "limit": LOOKED_AT}

    assert large.plan("retention/window", values) == ["SEARCH j USING INDEX sqlite_autoindex_job_1 (id>?)"]


@pytest.mark.parametrize("after", [NO_DIGITS, AT_THE_END], ids=["begin", "end"])
async def test_sqlite_deletes_a_batch_by_its_ids(large: Large, after: str) -> None:
    values = {"after": after, "limit": BATCH, "now": large.clock.now()}
    found = large.connection.execute(statement("retention/window", "sqlite").sql, values).fetchall()
    ids = json.dumps([row[0] for row in found])
    assert len(found) == BATCH

    for name, least in (("retention/held_back", BATCH), ("retention/delete", BATCH)):
        rows, steps = large.scanned(name, {"job_ids": ids})
        assert rows == least
        assert steps <= 3 * BATCH, f"{name} steps over {steps} rows"  # The list of ids itself, and the chains.


async def test_sqlite_adds_a_cost_without_reading_others(large: Large) -> None:
    one = large.facts["running"][0]

    _, steps = large.measured("update job set cost_cents = cost_cents + 5 where id = :id", {"id": one.job_id})

    assert steps <= sqlite.FEW


# -- PostgreSQL ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large_url(cluster: PostgresCluster) -> Iterator[str]:
    url = cluster.create_database("test_retention_plans", template="cortex_template")
    yield url
    cluster.drop_database("test_retention_plans")


@pytest.fixture(scope="module")
async def facts(large_url: str, anyio_backend: str) -> dict[str, Any]:
    """Nobody has counted the tables yet, so the planner knows nothing about them."""
    clock = ManualClock()
    await clock.rule(large_url)
    store: Any = open_store(large_url)
    await store.open()
    scene = Scene(store, clock)
    await scene.agent()
    async with sessions(large_url, 1) as [session]:
        for table in LARGE:
            await session.connection.execute(f"alter table cortex.{table} set (autovacuum_enabled = false)")
        await session.connection.execute(postgres.FILL)
    found = await populate(scene)
    await store.close()
    return found


@pytest.fixture
async def session(large_url: str, facts: dict[str, Any]) -> AsyncIterator[Session]:
    """Everything that a test does here is undone."""
    async with sessions(large_url, 1) as [session]:
        await session.begin()
        yield session


@pytest.mark.parametrize("newest", [False, True], ids=["begin", "end"])
async def test_postgresql_looks_at_the_next_jobs_and_no_others(session: Session, newest: bool) -> None:
    after = NO_DIGITS
    if newest:
        [(last,)] = await session.connection.fetch(f"select id from cortex.job order by id desc offset {LOOKED_AT} limit 1")
        after = str(last)
    before = await postgres.touched(session)

    found = await session.read("retention/window", after=after, limit=LOOKED_AT)

    assert len(found) == LOOKED_AT
    scans, rows = (await postgres.touched(session))["job"]
    assert scans == before.get("job", (0, 0))[0]
    assert rows - before.get("job", (0, 0))[1] == LOOKED_AT


@pytest.mark.parametrize("newest", [False, True], ids=["begin", "end"])
async def test_postgresql_deletes_a_batch_by_its_ids(session: Session, newest: bool) -> None:
    direction = "desc" if newest else "asc"
    found = await session.connection.fetch(
        f"select id from cortex.job where status in ('COMPLETED', 'FAILED', 'CANCELLED') order by id {direction} limit {BATCH}"
    )
    ids = [str(row[0]) for row in found]
    before = await postgres.touched(session)

    assert len(await session.read("retention/held_back", job_ids=ids)) == BATCH
    assert len(await session.read("retention/delete", job_ids=ids)) == BATCH

    for table, (scans, rows) in (await postgres.touched(session)).items():
        scans_before, rows_before = before.get(table, (0, 0))
        assert scans == scans_before, f"pruning scans {table}"
        assert rows - rows_before <= 6 * BATCH, f"pruning reads {rows - rows_before} rows of {table}"


@pytest.mark.parametrize("mode", ["auto", "force_custom_plan", "force_generic_plan"])
async def test_postgresql_deletes_what_belongs_to_a_job_by_its_id_whoever_deletes_it(session: Session, mode: str) -> None:
    await session.connection.execute(f"set local plan_cache_mode = {mode}")
    found = await session.connection.fetch(f"select id from cortex.job where status = 'COMPLETED' order by id limit {BATCH}")
    ids = [row[0] for row in found]
    before = await postgres.touched(session)

    await session.connection.execute("delete from cortex.job where id = any ($1)", ids)

    after = await postgres.touched(session)
    for table, belongings in (("job_history", 3), ("job_run", 1), ("queue_entry", 0)):
        scans, rows = (after.get(table, (0, 0))[n] - before.get(table, (0, 0))[n] for n in (0, 1))
        assert scans == 0, f"deleting scans {table}"
        assert rows <= belongings * BATCH, f"deleting reads {rows} rows of {table}"


async def test_postgresql_adds_a_cost_without_reading_others(facts: dict[str, Any], session: Session) -> None:
    one = facts["running"][0]
    before = await postgres.touched(session)

    await session.connection.execute("update cortex.job set cost_cents = cost_cents + 5 where id = $1", one.job_id)

    await postgres.assert_few_rows(session, "a cost", before)
