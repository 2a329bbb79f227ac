"""PostgreSQL answers from its indexes on large tables, before any ANALYZE and with any kind of plan."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from cortex_plane import Context, Plane
from cortex_plane.approvals.decisions import Decided
from cortex_plane.durable.schema import Blob
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.queue_store import SqlQueue
from cortex_plane.jobs.store import JobStore
from cortex_plane.storage.statements import statement
from cortex_plane.testing import ManualClock, PostgresCluster
from cortex_plane.wiring import open_store
from tests.contract.sessions import Session, sessions
from tests.contract.support import BOOM, Scene, ended, run_ids, snapshot
from tests.storage.plans import FINISHED, INDEXES, LARGE, populate, questions

pytestmark = pytest.mark.anyio

# Rows that a statement may touch in a large table; each batch here has at most 10 jobs.
FEW = 300
MANY_JOBS = 2_000

FILL = f"""
set session_replication_role = replica;
insert into cortex.job (id, agent_id, job_type, status, error_message, finished_at, worker_job_id, cause)
  select cortex.uuid7(), (select id from cortex.agent), 'echo',
    (array['COMPLETED', 'COMPLETED', 'COMPLETED', 'FAILED', 'CANCELLED']::cortex.job_status[])[1 + n % 5],
    case when n % 5 = 3 then 'boom' end, cortex.now(), null, 'test'
  from generate_series(1, {FINISHED}) n;
insert into cortex.job_run
  (id, job_id, attempt, tenant_id, queue, job_type, params_snapshot, status, started_at, finished_at, worker_id)
  select gen_random_uuid(), id, 1, tenant_id, queue, job_type, payload, 'COMPLETED', created_at, finished_at,
    gen_random_uuid()
  from cortex.job;
insert into cortex.job_history (job_id, revision, new_status, cause, created_at)
  select id, 3, status, 'test', created_at from cortex.job
  union all select id, 2, 'RUNNING', 'claim', created_at from cortex.job
  union all select id, 1, 'PENDING', 'submit', created_at from cortex.job;
insert into cortex.job_blob (job_id, sha256, content) select id, repeat('0', 64), '{{}}' from cortex.job;
insert into cortex.job_event (job_id, run_id, at, kind, data) select id, id, created_at, 'log', '{{}}' from cortex.job;
insert into cortex.approval_request
  (id, job_id, run_id, tenant_id, gate_key, token_hash, requested_by_agent_id, designated, approvers, escalate_to,
   action_summary, digest, decision, used_at, outcome, closed_at, ttl_seconds, expires_at)
  select id, id, id, tenant_id, 'approval', lpad(position::text, 64, '0'), agent_id, position % 200 = 0, '{{}}', '{{}}',
    'Deploy', repeat('0', 64), 'approved', cortex.now(), 'approved', cortex.now(), 60, cortex.now()
  from cortex.job;
insert into cortex.graph_checkpoint (thread_id, namespace, checkpoint_id, run_id, kind, content, channels, metadata)
  select id, '', '1', id, 'null', '', '{{"poem":"1"}}', '{{}}' from cortex.job;
insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
  select id, '', 'poem', '1', 'null', '' from cortex.job;
insert into cortex.graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
  select id, '', '1', 'task', 0, 'poem', '', 'null', '' from cortex.job;
set session_replication_role = default;
"""


@pytest.fixture(scope="module")
def large_url(cluster: PostgresCluster) -> Iterator[str]:
    url = cluster.create_database("test_plans", template="cortex_template")
    yield url
    cluster.drop_database("test_plans")


@pytest.fixture(scope="module")
async def facts(large_url: str, anyio_backend: str) -> dict[str, Any]:
    """Tables as they are when work has just begun to pour in: large, and nobody has counted them yet."""
    clock = ManualClock()
    await clock.rule(large_url)
    store: Any = open_store(large_url)
    await store.open()
    scene = Scene(store, clock)
    await scene.agent()
    connection = await asyncpg.connect(large_url)
    for table in LARGE:
        await connection.execute(f"alter table cortex.{table} set (autovacuum_enabled = false)")
    await connection.execute(FILL)
    found = await populate(scene)
    found["scene"] = scene
    counted = await connection.fetchval(
        "select count(*) from pg_stats where schemaname = 'cortex' and tablename = any ($1)", LARGE
    )
    assert counted == 0, "nobody has analysed the tables"
    await connection.close()
    await store.close()
    return found


@pytest.fixture
async def session(large_url: str) -> AsyncIterator[Session]:
    """Everything that a test does here is undone."""
    async with sessions(large_url, 1) as [session]:
        await session.begin()
        yield session


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_every_question_is_answered_from_an_index(facts: dict[str, Any], session: Session, mode: str) -> None:
    await session.connection.execute(f"set local plan_cache_mode = {mode}")
    wrong = []
    # Lists may wait for autovacuum to count the tables; nothing that a worker does may.
    for question, (name, values) in sorted(questions(facts, "postgres").items(), key=lambda item: item[0].startswith("list")):
        if question.startswith("list"):
            await count_the_tables(session)
        wanted = statement(name, "postgres")
        arguments = [values[parameter] for parameter in wanted.parameters]
        [(plan,)] = await session.connection.fetch(f"explain (format json) {wanted.sql.rstrip().rstrip(';')}", *arguments)
        nodes = list(walk(json.loads(plan)[0]["Plan"]))
        wrong += [f"{question}: Seq Scan on {node['Relation Name']}" for node in nodes if is_scan_of_large(node)]
        used = {node.get("Index Name") for node in nodes}
        if question in INDEXES and INDEXES[question] not in used:
            wrong.append(f"{question}: {INDEXES[question]} is not among {used}")
    assert not wrong, "\n".join(wrong)


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from walk(child)


def is_scan_of_large(node: dict[str, Any]) -> bool:
    return node["Node Type"] == "Seq Scan" and node["Relation Name"] in LARGE


async def touched(session: Session) -> dict[str, tuple[int, int]]:
    """Sequential scans of each large table in this transaction, and rows that were read."""
    rows = await session.connection.fetch(
        "select relname, seq_scan, seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables "
        "where schemaname = 'cortex' and relname = any ($1)",
        LARGE,
    )
    return {row[0]: (row[1], row[2]) for row in rows}


async def assert_few_rows(session: Session, what: str, before: dict[str, tuple[int, int]] | None = None) -> None:
    for table, (scans, rows) in (await touched(session)).items():
        scans_before, rows_before = (before or {}).get(table, (0, 0))
        assert scans == scans_before, f"{what} scans {table}"
        assert rows - rows_before <= FEW, f"{what} reads {rows} rows of {table}"


async def count_the_tables(session: Session) -> None:
    for table in LARGE:
        await session.connection.execute(f"analyze cortex.{table}")


async def test_the_counting_notices_a_scan(facts: dict[str, Any], session: Session) -> None:
    await session.connection.fetch("select count(*) from cortex.job where priority = 7")

    assert (await touched(session))["job"] == (1, (await session.connection.fetchval("select count(*) from cortex.job")))


@pytest.mark.parametrize(
    "question",
    [
        "list",
        "list of agent",
        "list waiting",
        "list running",
        "list failed",
        "next due",
        "entry before",
        "entry after",
        "first entry",
        "last entry",
        "lost runs",
        "open runs",
        "list open approvals",
        "list approvals of job",
        "list approvals for user",
        "next approval",
        "voter",
    ],
)
async def test_a_question_reads_only_the_rows_that_it_answers_with(
    facts: dict[str, Any], session: Session, question: str
) -> None:
    name, values = questions(facts, "postgres")[question]
    if question.startswith("list"):
        await count_the_tables(session)
    before = await touched(session)
    await session.read(name, **values)

    await assert_few_rows(session, question, before)


@pytest.mark.parametrize("mode", ["auto", "force_generic_plan"])
async def test_a_claim_reads_only_what_it_takes(facts: dict[str, Any], session: Session, mode: str) -> None:
    await session.connection.execute(f"set local plan_cache_mode = {mode}")
    for _ in range(2):
        assert len(await session.claim(facts["worker"], 10)) == 10

    await assert_few_rows(session, "claim")


LANES = """
update cortex.queue_entry
set queue = 'queue-' || ((position / 100) % {queues}), job_type = 'agent-' || ((position / 700) % {agents})
where state = 'ready' and serial_key is null
"""


@pytest.mark.parametrize(("queues", "agents"), [(1, 50), (50, 1), (30, 30)])
async def test_a_claim_costs_what_it_takes_and_not_queues_times_agents(
    facts: dict[str, Any], session: Session, queues: int, agents: int
) -> None:
    await session.connection.execute(LANES.format(queues=queues, agents=agents))
    before, names = await touched(session), [f"queue-{number}" for number in range(queues)]
    claimed = await session.queue.claim(facts["worker"], names, [f"agent-{number}" for number in range(agents)], run_ids(20))

    assert len(claimed) == 20
    await assert_few_rows(session, "claim", before)


@pytest.mark.parametrize("mode", ["auto", "force_generic_plan"])
async def test_an_end_a_checkpoint_and_a_cancel_read_only_their_own_rows(
    facts: dict[str, Any], session: Session, mode: str
) -> None:
    await session.connection.execute(f"set local plan_cache_mode = {mode}")
    first, second, third, fourth, *_ = facts["running"]
    queue = SqlQueue(session)  # type: ignore[arg-type]
    assert len(await session.save(snapshot(first, blobs=(Blob("a" * 64, "{}"),)), snapshot(second))) == 2
    assert len(await queue.finish([ended(first, Done("1")), ended(second, BOOM), ended(third, Done("1"))], "test")) == 3
    assert await session.cancel(fourth.job_id)

    await assert_few_rows(session, "finish")


async def test_a_decision_reads_only_its_own_rows(facts: dict[str, Any], session: Session) -> None:
    before = await touched(session)
    answer = await session.approvals.decide(facts["request"].id, facts["user"], "approved", door="test")

    assert isinstance(answer, Decided)
    await assert_few_rows(session, "decide", before)


async def test_serial_keys_are_settled_without_reading_all(facts: dict[str, Any], session: Session) -> None:
    for _ in range(3):
        claimed = await session.claim(facts["worker"], 50)
        assert await session.finish(*(ended(one, Done("1")) for one in claimed)) == {one.run_id for one in claimed}

    for table, (scans, rows) in (await touched(session)).items():
        assert scans == 0, table
        assert rows <= 10 * FEW, (table, rows)


async def test_a_submission_reads_nothing_but_itself(facts: dict[str, Any], session: Session) -> None:
    scene = facts["scene"]
    await session.submit(*[await scene.new_job(serial_key="key-0") for _ in range(5)])

    await assert_few_rows(session, "submit")


async def test_a_promotion_reads_only_what_is_due(facts: dict[str, Any], session: Session) -> None:
    await session.connection.execute(
        "update cortex.queue_entry set due_at = cortex.now() where state = 'later' and due_at <= cortex.now() + interval '65 s'"
    )
    before = await touched(session)
    assert await SqlQueue(session).promote_due(100) >= 5  # type: ignore[arg-type]

    after = await touched(session)
    assert after["queue_entry"][0] == before["queue_entry"][0]
    assert after.get("job", (0, 0))[0] == 0


async def test_a_retry_finds_its_job_by_id(facts: dict[str, Any], session: Session) -> None:
    [(finished,)] = await session.connection.fetch("select id from cortex.job where status = 'FAILED' limit 1")
    before = await touched(session)
    assert await JobStore(session).retry(str(finished), "01890000-0000-7000-8000-000000000001", None)  # type: ignore[arg-type]

    assert (await touched(session))["job"][0] == before["job"][0]


async def test_the_consequences_of_a_batch_are_hashed_though_whoever_ends_runs_forbids_that(session: Session) -> None:
    """Without it, the rows of a batch would be compared with each other: five times slower for a batch of 500."""
    settings = "select unnest(proconfig) from pg_proc where oid = 'cortex.{}'::regproc"
    of_finish = {row[0] for row in await session.connection.fetch(settings.format("finish"))}
    of_consequences = {row[0] for row in await session.connection.fetch(settings.format("job_updated"))}

    assert "enable_hashjoin=off" in of_finish
    assert {"enable_hashjoin=on", "enable_nestloop=off"} <= of_consequences


async def test_claims_and_ends_are_updates_in_place_also_when_whole_pages_change_at_once(postgres_url: str) -> None:
    """HOT: no index of job_run or job names a column that claims and ends change, and pages have room for the new rows.
    `python -m bench.upkeep` shows it with 60,000 jobs."""
    plane = Plane(postgres_url)

    @plane.agent("noop")
    async def noop(ctx: Context, at: float) -> None: ...

    async with plane:
        await plane.submit_many([noop.submission(at=0.0)] * MANY_JOBS)
        await plane.run_worker(concurrency=500, until_idle=True)

    connection = await asyncpg.connect(postgres_url)
    async with asyncio.timeout(30):
        while not (updates := await hot_updates(connection)) or min(count for count, _ in updates.values()) < MANY_JOBS:
            await asyncio.sleep(0.1)  # A session tells what it did when it ends, and a moment may pass until that is seen.
    await connection.close()
    shares = {table: hot / updated for table, (updated, hot) in updates.items()}
    assert min(shares.values()) >= 0.85, shares
    assert shares["job_run"] >= 0.9, shares


async def hot_updates(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, tuple[int, int]]:
    found = await connection.fetch(
        "select relname, n_tup_upd, n_tup_hot_upd from pg_stat_user_tables"
        " where schemaname = 'cortex' and relname in ('job', 'job_run')"
    )
    return {row[0]: (row[1], row[2]) for row in found}
