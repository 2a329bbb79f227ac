"""Lists of one queue, agent or tenant read their own rows only, though statistics say that many of the newest are theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from cortex_plane.storage.statements import statement
from cortex_plane.testing import ManualClock, PostgresCluster
from cortex_plane.wiring import open_store
from tests.contract.sessions import sessions
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

LIMIT = 100
OTHERS = 20_000
TOP = "ffffffff-ffff-ffff-ffff-ffffffffffff"

# A tenth of all jobs are of one queue, agent and tenant. They are the oldest: the newest are of others.
FILL = f"""
set session_replication_role = replica;
insert into cortex.tenant (id, name) values (gen_random_uuid(), 'quiet');
insert into cortex.agent (id, job_type, skill_config) select gen_random_uuid(), 'quiet', skill_config from cortex.agent;
insert into cortex.job (id, tenant_id, agent_id, job_type, queue, status, finished_at, cause)
  select cortex.uuid7(), t.id, a.id, 'quiet', 'quiet', 'COMPLETED', cortex.now(), 'test'
  from generate_series(1, {OTHERS // 10}) n, cortex.tenant t, cortex.agent a where t.name = 'quiet' and a.job_type = 'quiet';
insert into cortex.job (id, agent_id, job_type, status, finished_at, cause)
  select overlay(cast(cortex.uuid7() as text) placing 'f' from 1)::uuid, a.id, 'echo', 'COMPLETED', cortex.now(), 'test'
  from generate_series(1, {OTHERS}) n, cortex.agent a where a.job_type = 'echo';
insert into cortex.approval_request
  (id, job_id, run_id, tenant_id, gate_key, token_hash, requested_by_agent_id, designated, approvers, escalate_to,
   action_summary, digest, decision, used_at, outcome, closed_at, ttl_seconds, expires_at)
  select id, id, id, tenant_id, 'approval', lpad(position::text, 64, '0'), agent_id, false, '{{}}', '{{}}',
    'Deploy', repeat('0', 64), 'approved', cortex.now(), 'approved', cortex.now(), 60, cortex.now()
  from cortex.job;
set session_replication_role = default;
analyze cortex.job;
analyze cortex.approval_request;
"""


@pytest.fixture(scope="module")
def analyzed_url(cluster: PostgresCluster) -> Iterator[str]:
    url = cluster.create_database("test_analyzed", template="cortex_template")
    yield url
    cluster.drop_database("test_analyzed")


@pytest.fixture(scope="module")
async def quiet(analyzed_url: str, anyio_backend: str) -> dict[str, Any]:
    clock = ManualClock()
    await clock.rule(analyzed_url)
    store = open_store(analyzed_url)
    await store.open()
    await Scene(store, clock).agent()
    await store.close()
    connection = await asyncpg.connect(analyzed_url)
    await connection.execute(FILL)
    tenant = await connection.fetchval("select id from cortex.tenant where name = 'quiet'")
    agent = await connection.fetchval("select id from cortex.agent where job_type = 'quiet'")
    await connection.close()
    return {"queue": "quiet", "tenant_id": str(tenant), "agent_id": str(agent), "status": None}


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    "name",
    [
        "search/of_queue",
        "search/of_agent",
        "search/of_tenant",
        "jobs/list_of_queue",
        "jobs/list_of_agent",
        "approvals/list_of_tenant",
    ],
)
async def test_a_list_reads_only_what_it_shows(quiet: dict[str, Any], analyzed_url: str, name: str, mode: str) -> None:
    values = {**quiet, "before": TOP, "limit": LIMIT}
    if name == "jobs/list_of_agent":
        values["queue"] = None
    async with sessions(analyzed_url, 1) as [session]:
        await session.begin()
        await session.connection.execute(f"set local plan_cache_mode = {mode}")
        found = await session.read(name, **{one: values[one] for one in statement(name, "postgres").parameters})
        read = await session.connection.fetchval(
            "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_user_tables where schemaname = 'cortex'"
        )
        ids = [str(row["id"]) for row in found]

    assert len(ids) == LIMIT
    assert ids == sorted(ids, reverse=True)
    assert read <= LIMIT
