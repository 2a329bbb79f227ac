"""What a claim under a control reads does not grow with the jobs that wait, though nobody has counted the tables yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cortex_plane.storage.statements import statement
from cortex_plane.testing import ManualClock, PostgresCluster
from cortex_plane.wiring import open_store
from tests.contract.sessions import Session, sessions
from tests.contract.support import Scene, run_ids

pytestmark = pytest.mark.anyio

CLAIMED = 20
MOST_PAGES_MORE = 300
"""The indexes of a large table are a level deeper. The entries of the queue fill a thousand pages in each."""

CROWD = """
set session_replication_role = replica;
with crowd as (
  insert into cortex.job (id, agent_id, job_type, tenant_id, position, cause)
  select cortex.uuid7(), a.id, a.job_type, t.id, n, 'test'
  from cortex.agent a, cortex.tenant t, generate_series(cast({first} as int), {last}) n
  where a.job_type = 'echo' and t.name like 'tenant %'
  returning id, tenant_id, job_type, queue, position, created_at)
insert into cortex.queue_entry (job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at)
select id, tenant_id, queue, job_type, 'ready', 0, position, created_at, created_at from crowd;
set session_replication_role = default;
"""

CONTROLS = {
    "nothing": "select 1",
    "a limit of the queue": "insert into cortex.control (scope, name, max_running) values ('queue', 'default', 1000)",
    "a limit of the agent": "insert into cortex.control (scope, name, max_running) values ('agent', 'echo', 1000)",
    "fair share": "insert into cortex.control (scope, name, fair_share) values ('queue', 'default', true)",
}


@pytest.fixture(scope="module")
def crowded_url(cluster: PostgresCluster) -> Iterator[str]:
    url = cluster.create_database("test_crowded", template="cortex_template")
    yield url
    cluster.drop_database("test_crowded")


@pytest.fixture(scope="module")
async def pages_read(crowded_url: str, anyio_backend: str) -> dict[str, tuple[int, int]]:
    """By control: what a claim reads while 1,000 jobs wait, and while 60,000 do."""
    store: Any = open_store(crowded_url)
    await store.open()
    scene = Scene(store, ManualClock())
    await scene.agent()
    for number in range(50):
        await scene.tenant(f"tenant {number}")
    worker = await scene.worker(lease_seconds=1000)
    async with sessions(crowded_url, 1) as [session]:
        for table in ("job", "queue_entry"):
            await session.connection.execute(f"alter table cortex.{table} set (autovacuum_enabled = false)")
        await session.connection.execute(CROWD.format(first=1, last=20))
        few = {name: await read_by_a_claim(session, worker, control) for name, control in CONTROLS.items()}
        await session.connection.execute(CROWD.format(first=21, last=1200))
        many = {name: await read_by_a_claim(session, worker, control) for name, control in CONTROLS.items()}
    await store.close()
    return {name: (few[name], many[name]) for name in CONTROLS}


async def read_by_a_claim(session: Session, worker: str, control: str) -> int:
    """Pages, of the second claim: the first makes the plans."""
    for _ in range(2):
        await session.begin()
        await session.connection.execute(control)
        wanted = statement("queue/claim", "postgres")
        values = {
            "worker_id": worker,
            "actor": "test",
            "queues": ["default"],
            "job_types": ["echo"],
            "run_ids": run_ids(CLAIMED),
            "free": CLAIMED,
        }
        asked = [values[name] for name in wanted.parameters]
        [(plan,)] = await session.connection.fetch(
            f"explain (analyze, buffers, format json) {wanted.sql.rstrip().rstrip(';')}", *asked
        )
        await session.rollback()
    told = json.loads(plan)[0]["Plan"]
    assert told["Actual Rows"] == CLAIMED
    return int(told["Shared Hit Blocks"] + told["Shared Read Blocks"])


@pytest.mark.parametrize("control", CONTROLS)
async def test_what_a_claim_reads_does_not_grow_with_the_jobs_that_wait(
    pages_read: dict[str, tuple[int, int]], control: str
) -> None:
    few, many = pages_read[control]

    assert many - few < MOST_PAGES_MORE, (few, many)
