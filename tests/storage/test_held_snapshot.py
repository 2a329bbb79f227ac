"""While somebody holds an old snapshot, a claim does not read again all that was claimed since; and it misses nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from cortex_plane import Context, JobHandle, Plane, Settings, Submission
from cortex_plane.jobs import queue_store as postgres_queue
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.queue_store import CHEAP_SECONDS, LAG_SECONDS, QueueHeads
from tests.contract.support import ended, run_ids
from tests.runtime.helpers import register_worker

pytestmark = pytest.mark.anyio

JOBS = 4_000
KEYED = 60
INDEXES_OF_KEYS = ["queue_entry_of_key", "queue_entry_one_ready_for_each_key", "open_run_one_for_each_serial_key"]
INDEX_ENTRIES_READ = "select pg_stat_get_xact_tuples_returned(('cortex.' || $1)::regclass)"
PAGES_OF_MARKS_READ = """
select pg_stat_get_xact_blocks_fetched('cortex.key_to_settle'::regclass)
  + pg_stat_get_xact_blocks_fetched('cortex.key_to_settle_pkey'::regclass)
"""
END = """
update cortex.job
set status = 'COMPLETED', revision = revision + 1, finished_at = cortex.now(), run_id = null, worker_id = null, cause = 'finish'
where id = $1
"""


class Watch:
    seconds = 100.0

    def elapsed(self) -> float:
        return self.seconds


def row(position: int, rank: int = 0) -> Any:
    lane = {"queue": "default", "job_type": "work", "rank": rank}
    return {**lane, "place": position, "created_at": datetime(2026, 1, 5, tzinfo=UTC), "job_id": f"job {position}"}


def positions(heads: str | None) -> Any:
    return None if heads is None else {head["rank"]: head["position"] for head in json.loads(heads)}


def test_where_to_read_on_is_where_it_was_read_half_a_second_ago() -> None:
    watch = Watch()
    heads = QueueHeads(watch.elapsed)
    heads.claimed([row(position) for position in range(3_000)])
    heads.claimed([row(7, rank=-1)])
    heads.looked_at_whole(1.0, 0)
    at_once = heads.heads()

    watch.seconds += LAG_SECONDS
    heads.claimed([row(5_000)])

    assert at_once is None
    assert positions(heads.heads()) == {0: 2_999, -1: 7}


def test_a_store_that_has_claimed_little_looks_at_the_whole() -> None:
    watch = Watch()
    heads = QueueHeads(watch.elapsed)
    heads.claimed([row(1)])
    heads.looked_at_whole(1.0, 0)
    watch.seconds += LAG_SECONDS

    assert heads.heads() is None


def test_the_whole_is_looked_at_as_often_as_that_is_cheap() -> None:
    watch = Watch()
    heads = QueueHeads(watch.elapsed)
    heads.claimed([row(position) for position in range(3_000)])
    watch.seconds += LAG_SECONDS
    heads.looked_at_whole(0.1, 0)

    watch.seconds += 1.9
    before = heads.heads()
    watch.seconds += 0.2

    assert before is not None
    assert heads.heads() is None


def test_after_a_look_that_took_long_a_claim_that_finds_nothing_puts_off_the_next() -> None:
    watch = Watch()
    heads = QueueHeads(watch.elapsed)

    heads.looked_at_whole(CHEAP_SECONDS / 2, 0)
    after_a_cheap_one = heads.put_off_seconds
    heads.looked_at_whole(0.05, 0)
    watch.seconds += 0.1
    after_a_long_one = heads.put_off_seconds
    watch.seconds += 0.4

    assert after_a_cheap_one == 0.0
    assert after_a_long_one == pytest.approx(0.4)
    assert heads.put_off_seconds == pytest.approx(0.0)


@pytest.fixture
async def held(postgres_url: str) -> AsyncIterator[Plane]:
    """A plane with one agent, since somebody began to hold a snapshot."""
    holder = await asyncpg.connect(postgres_url)
    holding = holder.transaction(isolation="repeatable_read")
    await holding.start()
    await holder.fetch("select 1 from cortex.job limit 1")
    async with Plane(settings=Settings(database_url=postgres_url)) as plane:

        @plane.agent("work")
        async def work(ctx: Context) -> None: ...

        await plane.open()
        yield plane
    await holding.rollback()
    await holder.close()


@pytest.fixture
async def drained(held: Plane, monkeypatch: pytest.MonkeyPatch) -> Plane:
    """It has claimed many jobs since then."""
    monkeypatch.setattr(postgres_queue, "WHOLE_LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(postgres_queue, "LAG_SECONDS", 0.0)
    await held.submit_many([Submission("work") for _ in range(JOBS)])
    store = held.store
    worker = await register_worker(store, lease_seconds=3600.0)
    for _ in range(JOBS // 500):
        assert len(await store.queue.claim(worker, ["default"], ["work"], run_ids(500))) == 500
    return held


async def test_a_claim_steps_over_nothing_that_was_claimed_before(drained: Plane) -> None:
    store: Any = drained.store
    jobs = await drained.submit_many([Submission("work"), Submission("work", priority=5), Submission("work")])
    [heads] = store.queue._heads.values()

    whole, ids = await _entries_read(drained, None)
    on, found = await _entries_read(drained, heads.heads())

    assert ids == found == [jobs[1].id, jobs[0].id, jobs[2].id]
    assert whole > JOBS
    assert on < 50


async def test_a_claim_whose_look_at_the_whole_is_put_off_has_workers_woken_for_it(drained: Plane) -> None:
    store: Any = drained.store
    other = await register_worker(store, lease_seconds=3600.0)
    await _stand_before_all(drained, await drained.submit("work"))
    [heads] = store.queue._heads.values()
    heads.looked_at_whole(0.1, 0)
    woken = asyncio.Event()
    store.signals.wake_all = woken.set

    found = await store.queue.claim(other, ["default"], ["work"], run_ids(5))
    async with asyncio.timeout(30):
        await woken.wait()

    assert found == []
    assert len(await store.queue.claim(other, ["default"], ["work"], run_ids(5))) == 1


async def test_a_worker_that_ends_when_nothing_is_left_looks_at_the_whole_first(drained: Plane) -> None:
    store: Any = drained.store
    other = await register_worker(store, lease_seconds=3600.0)
    await _stand_before_all(drained, await drained.submit("work"))
    [heads] = store.queue._heads.values()
    heads.looked_at_whole(3600.0, 0)

    assert await store.queue.claim(other, ["default"], ["work"], run_ids(5)) == []
    store.queue.miss_nothing()
    assert len(await store.queue.claim(other, ["default"], ["work"], run_ids(5))) == 1


async def test_what_enters_before_the_place_where_it_was_read_is_found_too(drained: Plane) -> None:
    store = drained.store
    other = await register_worker(store, lease_seconds=3600.0)
    [early, late] = await drained.submit_many([Submission("work"), Submission("work")])
    await _stand_before_all(drained, late)

    first = await store.queue.claim(other, ["default"], ["work"], run_ids(5))
    second = await store.queue.claim(other, ["default"], ["work"], run_ids(5))

    assert [one.job_id for one in (*first, *second)] in ([late.id, early.id], [early.id, late.id])


async def _stand_before_all(plane: Plane, job: JobHandle[Any]) -> None:
    connection = await asyncpg.connect(plane.settings.database_url)
    await connection.execute("update cortex.queue_entry set position = 1 where job_id = $1", job.id)
    await connection.close()


async def _entries_read(plane: Plane, heads: str | None) -> tuple[int, list[str]]:
    """How many entries of the index a claim looks at, and the jobs that it brings; it is undone."""
    connection = await asyncpg.connect(plane.settings.database_url)
    read = "select pg_stat_get_xact_tuples_returned('cortex.queue_entry_ready'::regclass)"
    undone = connection.transaction()
    await undone.start()
    worker = await connection.fetchval("select id from cortex.worker limit 1")
    before = await connection.fetchval(read)
    claim = "select job_id from cortex.claim($1, 'test', array['default'], array['work'], $2, 10, $3)"
    rows = await connection.fetch(claim, worker, run_ids(10), heads)
    after = await connection.fetchval(read)
    await undone.rollback()
    await connection.close()
    return after - before, [str(row[0]) for row in rows]


async def test_marks_of_keys_that_were_settled_are_not_read_again(held: Plane) -> None:
    worker = await register_worker(held.store, lease_seconds=3600.0)
    connection = await asyncpg.connect(held.settings.database_url)
    settle = "select cortex.settle_marked_keys(1000, true)"
    claim = "select 1 from cortex.claim($1, 'test', '{none}', '{work}', $2, 10, '[]')"
    settling, claiming = [], []
    for number in range(8):
        keys = [f"{number} {key}" for key in range(1_000)]
        await held.submit_many([Submission("work", serial_key=key) for key in keys])
        await connection.execute(settle)
        await asyncio.sleep(0.15)
        await connection.execute(settle)
        settling.append(await _pages_of_marks_read(connection, settle))
        claiming.append(await _pages_of_marks_read(connection, claim, worker, run_ids(10)))
    whole = await _pages_of_marks_read(connection, "select cortex.settle_marked_keys(1000)")
    await connection.close()

    assert max(settling[4:]) <= max(settling[:2]) + 2
    assert max(claiming[4:]) <= max(claiming[:2]) + 2
    assert whole > 10 * max(settling)


async def test_a_mark_of_a_transaction_that_took_long_is_found_by_a_look_at_all(held: Plane) -> None:
    """Its place is before that from which the session reads on."""
    store = held.store
    connection, slow = [await asyncpg.connect(held.settings.database_url) for _ in range(2)]
    await held.submit("work", serial_key="early")
    async with slow.transaction():
        late = await held.submit("work", serial_key="late", connection=slow)
        for number in range(4):
            await held.submit("work", serial_key=f"between {number}")
            await connection.execute("select cortex.settle_marked_keys(1000, true)")
            await asyncio.sleep(0.12)
    await connection.execute("select cortex.settle_marked_keys(1000, true)")
    state = "select state::text from cortex.queue_entry where job_id = $1"
    reading_on = await connection.fetchval(state, late.id)
    await store.queue.settle_stuck_keys()
    found = await connection.fetchval(state, late.id)
    await slow.close()
    await connection.close()

    assert (reading_on, found) == ("blocked", "ready")


async def test_a_key_whose_lock_is_held_keeps_the_place_where_marks_are_read(held: Plane) -> None:
    connection, other = [await asyncpg.connect(held.settings.database_url) for _ in range(2)]
    tenant = await connection.fetchval("select id from cortex.tenant limit 1")
    async with other.transaction():
        await other.execute("select cortex.try_serial_key($1, 'one')", tenant)
        job = await held.submit("work", serial_key="one")
        for number in range(3):
            await held.submit("work", serial_key=f"between {number}")
            await connection.execute("select cortex.settle_marked_keys(1000, true)")
            await asyncio.sleep(0.12)
    await connection.execute("select cortex.settle_marked_keys(1000, true)")
    state = await connection.fetchval("select state::text from cortex.queue_entry where job_id = $1", job.id)
    await other.close()
    await connection.close()

    assert state == "ready"


async def test_the_end_of_a_serial_job_reads_once_what_was_claimed_of_its_key(held: Plane) -> None:
    store = held.store
    worker = await register_worker(store, lease_seconds=3600.0)
    await held.submit_many([Submission("work", serial_key="one") for _ in range(KEYED + 2)])
    for _ in range(KEYED):
        [claimed] = await store.queue.claim(worker, ["default"], ["work"], run_ids(10))
        await store.queue.finish([ended(claimed, Done("1"))], "test")
    [last] = await store.queue.claim(worker, ["default"], ["work"], run_ids(10))

    connection = await asyncpg.connect(held.settings.database_url)
    async with connection.transaction():
        await connection.execute(END, last.job_id)
        read = [await connection.fetchval(INDEX_ENTRIES_READ, index) for index in INDEXES_OF_KEYS]
        ready = await connection.fetchval("select count(*) from cortex.queue_entry where state = 'ready'")
    await connection.close()

    assert ready == 1
    assert max(read) <= KEYED + 5


async def _pages_of_marks_read(connection: Any, sql: str, *values: Any) -> int:
    async with connection.transaction():
        await connection.execute("select 1")
        before = await connection.fetchval(PAGES_OF_MARKS_READ)
        await connection.fetch(sql, *values)
        return int(await connection.fetchval(PAGES_OF_MARKS_READ) - before)
