"""Lists read only what they show: those of one queue, agent or tenant though statistics say that many of the newest are theirs,
and all while there are no statistics."""

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


# Nobody has counted these. All of the jobs have one tag, and wait for an approval.
FILL_UNCOUNTED = f"""
alter table cortex.job set (autovacuum_enabled = false);
alter table cortex.job_tag set (autovacuum_enabled = false);
alter table cortex.job_history set (autovacuum_enabled = false);
alter table cortex.queue_entry set (autovacuum_enabled = false);
alter table cortex.approval_request set (autovacuum_enabled = false);
set session_replication_role = replica;
insert into cortex.job (id, agent_id, job_type, status, finished_at, cause)
  select cortex.uuid7(), a.id, 'echo', 'FAILED', cortex.now(), 'test'
  from generate_series(1, {OTHERS}) n, cortex.agent a where a.job_type = 'echo';
insert into cortex.job_tag (tag, job_id) select 'invoice', id from cortex.job;
insert into cortex.job_history (job_id, revision, new_status, cause, created_at)
  select id, 1, 'FAILED', 'test', created_at from cortex.job;
insert into cortex.queue_entry (job_id, tenant_id, job_type, queue, state, rank, position, created_at, due_at)
  select id, tenant_id, job_type, 'default', 'ready', 0, position, created_at, created_at from cortex.job;
insert into cortex.approval_request
  (id, job_id, run_id, tenant_id, gate_key, token_hash, requested_by_agent_id, designated, approvers, escalate_to,
   action_summary, digest, ttl_seconds, expires_at)
  select id, id, id, tenant_id, 'approval', lpad(position::text, 64, '0'), agent_id, false, '{{}}', '{{}}',
    'Deploy', repeat('0', 64), 60, cortex.now() + interval '1 day'
  from cortex.job;
set session_replication_role = default;
"""


@pytest.fixture(scope="module")
def uncounted_url(cluster: PostgresCluster) -> Iterator[str]:
    url = cluster.create_database("test_uncounted", template="cortex_template")
    yield url
    cluster.drop_database("test_uncounted")


@pytest.fixture(scope="module")
async def uncounted(uncounted_url: str, anyio_backend: str) -> dict[str, Any]:
    clock = ManualClock()
    await clock.rule(uncounted_url)
    store = open_store(uncounted_url)
    await store.open()
    await Scene(store, clock).agent()
    await store.close()
    connection = await asyncpg.connect(uncounted_url)
    await connection.execute(FILL_UNCOUNTED)
    [job] = await connection.fetch("select tenant_id, agent_id from cortex.job limit 1")
    await connection.close()
    ids = {"tenant_id": str(job["tenant_id"]), "agent_id": str(job["agent_id"])}
    return {"tag": "invoice", "queue": "default", **ids}


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("limit", [LIMIT, 500])
@pytest.mark.parametrize(
    "name",
    [
        "approvals/list",
        "approvals/list_of_tenant",
        "approvals/list_open",
        "search/all",
        "search/asking",
        "search/of_agent",
        "search/of_queue",
        "search/of_tag",
        "search/of_tenant",
        "search/unsuccessful",
        "search/waiting",
    ],
)
async def test_a_list_reads_only_what_it_shows_before_its_tables_are_counted(
    uncounted: dict[str, Any], uncounted_url: str, name: str, limit: int, mode: str
) -> None:
    values = {**uncounted, "before": TOP, "limit": limit}
    if name == "approvals/list_open":
        values["tenant_id"] = None
    async with sessions(uncounted_url, 1) as [session]:
        await session.begin()
        await session.connection.execute(f"set local plan_cache_mode = {mode}")
        found = await session.read(name, **{one: values[one] for one in statement(name, "postgres").parameters})
        read = await session.connection.fetchval(
            "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_user_tables where schemaname = 'cortex'"
        )

    assert len(found) == limit
    assert read <= limit + 1
