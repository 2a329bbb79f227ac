"""`python -m bench.steered`: what a claim costs among many tenants and agents, with and without controls.

Each claim is measured twice: by the clock, and by the processor time of the process that answers it, which other work on the
machine does not lengthen much. The target is for the latter. On PostgreSQL each claim is undone, so that every reading sees the
same crowd. On SQLite it is not: some hundred jobs are claimed.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import asyncpg

from bench.places import durable_cluster, fresh_database, fresh_folder
from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import RunId, WorkerId
from cortex_plane.queues.model import Control, Scope
from cortex_plane.storage.sqlite.connection import connect
from cortex_plane.storage.statements import statement
from cortex_plane.wiring import open_store
from cortex_plane.worker.model import NewWorker

LIMIT = 20
ROUNDS = 21
TARGET_MS = 20.0
SET_TARGET_MS = 200.0
Claim = Callable[[], Awaitable[tuple[float, float]]]
"""Claims once, and says how many seconds that took, and how many of them on a processor."""

FILL = """
insert into cortex.tenant (id, name) select cortex.uuid7(), 'tenant ' || n from generate_series(1, {tenants}) n;
insert into cortex.agent (id, job_type) select cortex.uuid7(), 'agent ' || n from generate_series(1, {agents}) n;
set session_replication_role = replica;
with crowd as (
  select cortex.uuid7() as id, 'agent ' || 1 + n % {agents} as job_type, 'tenant ' || 1 + (n / {agents}) % {tenants} as tenant, n
  from generate_series(1, {jobs}) n
), job as (
  insert into cortex.job (id, tenant_id, agent_id, job_type, queue, position)
  select c.id, t.id, a.id, c.job_type, 'default', 100 * n
  from crowd c join cortex.tenant t on t.name = c.tenant join cortex.agent a on a.job_type = c.job_type
  returning id, tenant_id, job_type, queue, position, created_at
)
insert into cortex.queue_entry (job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at)
select id, tenant_id, queue, job_type, 'ready', 0, position, created_at, created_at from job;
set session_replication_role = default;
"""

FILL_SQLITE = """
begin;
create temp table n as with recursive n (n) as (select 1 union all select n + 1 from n where n < {jobs}) select n from n;
insert into tenant (id, name, created_at)
  select printf('00000000-0000-7000-8001-%012x', n), 'tenant ' || n, 0 from n where n <= {tenants};
insert into agent (id, job_type, created_at, updated_at)
  select printf('00000000-0000-7000-8002-%012x', n), 'agent ' || n, 0, 0 from n where n <= {agents};
insert into job (id, tenant_id, agent_id, job_type, queue, position, created_at, queued_at, updated_at)
  select printf('00000000-0000-7000-8003-%012x', n), printf('00000000-0000-7000-8001-%012x', 1 + (n / {agents}) % {tenants}),
    printf('00000000-0000-7000-8002-%012x', 1 + n % {agents}), 'agent ' || (1 + n % {agents}), 'default', 100 * n, 0, 0, 0
  from n;
insert into queue_entry (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at)
  select position, id, tenant_id, queue, job_type, 'ready', 0, position, 0, 0 from job;
commit;
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.steered", description="What a claim costs under controls.")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres")
    given = parser.parse_args()
    print(f"{given.store}: {given.jobs:,} waiting jobs, {given.tenants:,} tenants, {given.agents:,} agents; claims of {LIMIT}")
    if given.store == "sqlite":
        with fresh_folder() as folder:
            asyncio.run(measure_sqlite(folder / "cortex.db", given.jobs, given.tenants, given.agents))
    else:
        with durable_cluster() as cluster, fresh_database(cluster) as url:
            asyncio.run(measure_postgres(url, given.jobs, given.tenants, given.agents))


async def measure_postgres(url: str, jobs: int, tenants: int, agents: int) -> None:
    store: Any = open_store(url)
    await store.open()
    connection = await asyncpg.connect(url)
    await connection.execute(FILL.format(jobs=jobs, tenants=tenants, agents=agents), timeout=900)
    tenant = await connection.fetchval("select id::text from cortex.tenant where name = 'tenant 7'")
    worker, names = await _worker(store), _agents(agents)
    claim, server = statement("queue/claim", "postgres"), connection.get_server_pid()

    async def undone() -> tuple[float, float]:
        values = {
            "worker_id": worker,
            "actor": "bench",
            "queues": ["default"],
            "job_types": names,
            "run_ids": [new_id() for _ in range(LIMIT)],
            "free": LIMIT,
        }
        await connection.execute("begin")
        begun, used = time.perf_counter(), _processor_seconds(server)
        found = await connection.fetch(claim.sql, *[values[name] for name in claim.parameters], timeout=300)
        taken = time.perf_counter() - begun, _processor_seconds(server) - used
        await connection.execute("rollback")
        assert len(found) == LIMIT, len(found)
        return taken

    await _measure(store, undone, tenant)
    await connection.close()
    await store.close()


async def measure_sqlite(path: Path, jobs: int, tenants: int, agents: int) -> None:
    store: Any = open_store(f"sqlite:///{path}")
    await store.open()
    await store.close()
    filler = connect(path, for_writing=True)
    filler.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    filler.execute(FILL_SQLITE.format(jobs=jobs, tenants=tenants, agents=agents))
    filler.close()
    await store.open()
    worker, names = await _worker(store), _agents(agents)

    async def claim() -> tuple[float, float]:
        begun, used = time.perf_counter(), time.process_time()
        found = await store.queue.claim(worker, ["default"], names, [RunId(new_id()) for _ in range(LIMIT)])
        taken = time.perf_counter() - begun, time.process_time() - used
        assert len(found) == LIMIT, len(found)
        return taken

    await _measure(store, claim, "00000000-0000-7000-8001-000000000007")
    await store.close()


def _processor_seconds(process: int) -> float:
    """As the scheduler of Linux counts it, in nanoseconds."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


def _agents(count: int) -> list[str]:
    return [f"agent {number}" for number in range(1, count + 1)]


async def _worker(store: Any) -> WorkerId:
    worker = WorkerId(new_id())
    await store.workers.register(NewWorker(worker, "bench", ("default",), (), 1, 36_000))
    return worker


async def _measure(store: Any, claim: Claim, tenant: str) -> None:
    await _claims("nothing is set", claim)
    for label, scope, name, fields in (
        ("a limit of another queue", Scope.QUEUE, "other", {"max_running": 10}),
        ("a limit of this queue", Scope.QUEUE, "default", {"max_running": 100_000}),
        ("an agent is paused", Scope.AGENT, "agent 7", {"paused": True, "paused_by": "bench"}),
        ("a tenant is paused", Scope.TENANT, tenant, {"paused": True, "paused_by": "bench"}),
        ("the queue shares fairly", Scope.QUEUE, "default", {"fair_share": True}),
    ):
        seconds = await _set(store, scope, name, fields)
        await _claims(f"{label} ({_took('set', seconds)})", claim)
        await _move_lanes(store, claim)
        seconds = await _set(store, scope, name, {})
        await _claims(f"  it is lifted ({_took('done', seconds)})", claim)
        await _move_lanes(store, claim)


async def _move_lanes(store: Any, claim: Claim) -> None:
    """What a worker does by itself after a control was set or lifted."""
    begun, pages = time.perf_counter(), 0
    while await store.controls.move_lanes():
        pages += 1
    if pages:
        await _claims(f"  when all stand in their lanes (after {time.perf_counter() - begun:,.0f} s)", claim)


async def _set(store: Any, scope: Scope, name: str, fields: dict[str, Any]) -> float:
    begun = time.perf_counter()
    entry = AuditEntry("BENCH", str(scope), name, actor="bench")
    await store.controls.change(scope, name, lambda now: Control(now.scope, now.name, **fields), entry)
    return time.perf_counter() - begun


def _took(verb: str, seconds: float) -> str:
    late = "" if 1000 * seconds < SET_TARGET_MS else f", over {SET_TARGET_MS:.0f}"
    return f"{verb} in {1000 * seconds:,.0f} ms{late}"


async def _claims(label: str, claim: Claim) -> None:
    readings = [await claim() for _ in range(ROUNDS)]
    clock, processor = ([1000 * one for one in times] for times in zip(*readings, strict=True))
    verdict = "ok" if median(processor) < TARGET_MS else f"over {TARGET_MS:.0f} ms"
    on_a_processor, by_the_clock = f"{median(processor):>8.1f} ms on a processor", f"{median(clock):>8.1f} by the clock"
    print(f"  {label:<58}{on_a_processor}{by_the_clock} ({min(clock):,.1f} to {max(clock):,.1f})  {verdict}", flush=True)


if __name__ == "__main__":
    main()
