"""Moving waiting jobs: any series of moves equals moving the items of a list."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cortex_plane.errors import Conflict, InvalidInput, JobNotFound, JobNotQueued
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.queues.model import Place, between, make_room
from cortex_plane.queues.service import move_job, set_priority
from tests.contract.support import Raw, Refused, Scene

pytestmark = pytest.mark.anyio

UNKNOWN = JobId("01900000-0000-7000-8000-000000000000")


async def order(raw: Raw, queue: str = "default") -> list[str]:
    """As the stored fields alone say."""
    rows = await raw(
        f"select id from cortex.job where status in ('PENDING', 'RETRY') and queue = '{queue}' "
        "order by priority desc, position, created_at, id"
    )
    return [str(row[0]) for row in rows]


async def claimed_order(scene: Scene) -> list[str]:
    return [one.job_id for one in await scene.claim(await scene.worker(), 100)]


def moved(jobs: list[JobId], index: int, place: Place, anchor: int) -> list[JobId]:
    """The same with a list."""
    rest = [job for job in jobs if job != jobs[index]]
    where = {
        Place.FRONT: 0,
        Place.BACK: len(rest),
        Place.BEFORE: rest.index(jobs[anchor]) if anchor != index else 0,
        Place.AFTER: rest.index(jobs[anchor]) + 1 if anchor != index else 0,
    }[place]
    return [*rest[:where], jobs[index], *rest[where:]]


MOVES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(Place), st.integers(0, 5)), max_size=25)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=MOVES)
async def test_any_series_of_moves_equals_a_list(scene: Scene, raw: Raw, moves: list[tuple[int, Place, int]]) -> None:
    for leftover in await order(raw):
        await scene.store.jobs.cancel(JobId(leftover), None, None)
    model = [await scene.submit() for _ in range(6)]

    for index, place, anchor in moves:
        if place in (Place.BEFORE, Place.AFTER) and anchor == index:
            continue
        beside = model[anchor] if place in (Place.BEFORE, Place.AFTER) else None
        await move_job(scene.store, model[index], place, beside)
        model = moved(model, index, place, anchor)

    assert await order(raw) == model
    assert await claimed_order(scene) == model


@given(low=st.integers(-10_000, 10_000), gap=st.integers(0, 1_000), room_above=st.booleans())
def test_between_is_strictly_between_or_nothing(low: int, gap: int, room_above: bool) -> None:
    found = between(low, low + gap, room_above=room_above)

    assert found is None if gap < 2 else found is not None and low < found < low + gap


@given(
    below=st.lists(st.integers(0, 30), min_size=1, max_size=20),
    above=st.lists(st.integers(0, 30), min_size=1, max_size=20),
    is_open=st.booleans(),
)
@example(below=[0], above=[0, 2], is_open=False)
@example(below=[0], above=[0, 3], is_open=False)
@example(below=[0], above=[1, 2], is_open=False)
def test_room_is_made_without_changing_the_order(below: list[int], above: list[int], is_open: bool) -> None:
    lower, upper = [-sum(below[:count]) for count in range(1, len(below) + 1)], list(accumulate(above))
    shift = make_room(lower, upper, below_is_open=is_open)

    if shift is None:
        lacking = max(0, 2 - (upper[0] - lower[0]))
        assert not is_open
        assert all(lower[0] - one - count < lacking for count, one in enumerate(lower) if count)
        assert all(one - upper[0] - count < lacking for count, one in enumerate(upper) if count)
        return
    side = lower if shift.down else upper
    changed = [*shift.positions, *side[len(shift.positions) :]]
    lower, upper = (changed, upper) if shift.down else (lower, changed)
    assert upper[0] - lower[0] >= 2
    assert shift.down is False or is_open or len(shift.positions) < len(side), "the last one stays"
    shifted = [*reversed(lower[: len(shift.positions) + 1])] if shift.down else upper[: len(shift.positions) + 1]
    assert shifted == sorted({*shifted}), "all apart, in their order"


async def changed_by(raw: Raw, move: Awaitable[None]) -> int:
    """How many jobs have another position after a move."""
    before = dict(await raw("select id, position from cortex.job"))
    await move
    after = dict(await raw("select id, position from cortex.job"))
    return sum(after[job] != before[job] for job in after)


async def test_a_move_writes_one_row_while_numbers_are_free(scene: Scene, raw: Raw) -> None:
    first, *others = [await scene.submit() for _ in range(12)]

    assert await changed_by(raw, move_job(scene.store, others[5], Place.AFTER, first)) == 1
    assert await changed_by(raw, move_job(scene.store, others[7], Place.FRONT)) == 1
    assert await changed_by(raw, move_job(scene.store, others[2], Place.BACK)) == 1


async def many(scene: Scene, count: int) -> list[JobId]:
    new = await scene.new_job()
    return await scene.store.jobs.submit([replace(new, id=JobId(new_id())) for _ in range(count)])


@pytest.mark.parametrize("pattern", ["before the same", "after the same", "before the last", "on both sides of the last"])
async def test_moves_to_one_place_never_rewrite_the_queue(scene: Scene, raw: Raw, pattern: str) -> None:
    jobs = await many(scene, 400)
    middle, model, written = jobs[200], list(jobs), 0
    last = middle
    for number, job in enumerate(jobs[-120:]):
        beside = middle if pattern.endswith("same") else last
        place = Place.BEFORE if pattern.startswith("before") or (pattern.startswith("on") and number % 2) else Place.AFTER
        rows = await changed_by(raw, move_job(scene.store, job, place, beside))
        assert rows <= 100
        written += rows
        model = moved(model, model.index(job), place, model.index(beside))
        last = job

    assert await order(raw) == model
    assert written <= 10 * 120, "a move writes a few rows, on average"


async def test_what_is_moved_to_the_back_stays_before_what_is_submitted_later(scene: Scene, raw: Raw) -> None:
    first, second, third = [await scene.submit() for _ in range(3)]
    for job in (first, second, third, first):
        await move_job(scene.store, job, Place.BACK)
    later = await scene.submit()

    assert await order(raw) == [second, third, first, later]


async def test_an_approved_job_keeps_its_place_when_others_are_shifted(scene: Scene, raw: Raw) -> None:
    """It has a run already, so its position is fixed; the others go around it."""
    jobs = await many(scene, 60)
    await fix(raw, jobs[30])
    for job in reversed(jobs[40:]):
        await move_job(scene.store, job, Place.AFTER, jobs[29])
        await move_job(scene.store, job, Place.BEFORE, jobs[31])
        await move_job(scene.store, job, Place.BEFORE, jobs[30])

    rows = await raw("select job_id from cortex.queue_entry order by rank, position, created_at, job_id")
    assert [str(row[0]) for row in rows] == [*jobs[:30], *reversed(jobs[40:]), *jobs[30:40]]


async def fix(raw: Raw, job: JobId) -> None:
    """Makes it what an approved job is that no worker has taken over yet: RUNNING, with a place in the queue."""
    [(position,)] = await raw(f"select position from cortex.queue_entry where job_id = '{job}'")
    columns = "id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at"
    await raw(f"create table kept as select * from cortex.queue_entry where job_id = '{job}'")
    await raw(
        f"update cortex.job set status = 'RUNNING', run_id = id, attempt = 1, revision = revision + 1, updated_at = {raw.now} "
        f"where id = '{job}'"
    )
    await raw(f"insert into cortex.queue_entry ({columns}) select {columns} from kept")
    assert position


async def test_a_job_takes_the_priority_of_its_new_neighbour(scene: Scene, raw: Raw) -> None:
    high, low = await scene.submit(priority=9), await scene.submit(priority=1)
    middle = await scene.submit(priority=5)
    await move_job(scene.store, low, Place.BEFORE, high)
    await move_job(scene.store, high, Place.BACK)

    assert await order(raw) == [low, middle, high]
    assert [(await scene.job(job)).priority for job in (low, middle, high)] == [9, 5, 5]


async def test_the_priority_of_a_waiting_job_can_be_changed(scene: Scene, raw: Raw) -> None:
    first, second = await scene.submit(), await scene.submit()
    await set_priority(scene.store, second, 3, actor="ada", reason="urgent")

    assert await order(raw) == [second, first]
    assert await claimed_order(scene) == [second, first]
    [record] = await scene.store.audit.list(second)
    assert (record.entry.action, record.entry.actor, record.entry.reason) == ("JOB_PRIORITY_SET", "ada", "urgent")


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED])
async def test_a_job_that_does_not_wait_cannot_be_moved(scene: Scene, raw: Raw, status: JobStatus) -> None:
    job, other = await scene.in_state(status, raw), await scene.submit()
    for attempt in (move_job(scene.store, job, Place.FRONT), move_job(scene.store, other, Place.BEFORE, job)):
        with pytest.raises(JobNotQueued, match=f"is {status}; only a waiting job"):
            await attempt
    with pytest.raises(Conflict):
        await set_priority(scene.store, job, 5)
    with pytest.raises(Refused, match=r"[oO]nly a job that waits"):
        await raw(f"update cortex.job set position = position + 1, updated_at = updated_at + {tick(raw)} where id = '{job}'")


def tick(raw: Raw) -> str:
    return "1" if raw.kind == "sqlite" else "interval '1 second'"


async def test_impossible_moves_change_nothing(scene: Scene, raw: Raw) -> None:
    job, other = await scene.submit(), await scene.submit(queue="elsewhere")
    before = await raw("select id, priority, position from cortex.job order by id")

    with pytest.raises(InvalidInput, match="before or after itself"):
        await move_job(scene.store, job, Place.BEFORE, job)
    with pytest.raises(InvalidInput, match='waits in queue "elsewhere"'):
        await move_job(scene.store, job, Place.AFTER, other)
    with pytest.raises(JobNotFound):
        await move_job(scene.store, UNKNOWN, Place.FRONT)
    with pytest.raises(JobNotFound):
        await move_job(scene.store, job, Place.BEFORE, UNKNOWN)
    with pytest.raises(InvalidInput, match="need an anchor job"):
        await move_job(scene.store, job, Place.BEFORE)
    assert await raw("select id, priority, position from cortex.job order by id") == before


async def test_the_only_job_of_a_queue_is_first_and_last_already(scene: Scene, raw: Raw) -> None:
    job = await scene.submit()
    for place in (Place.FRONT, Place.BACK):
        await move_job(scene.store, job, place)

    assert await order(raw) == [job]


async def test_moving_a_job_of_a_serial_key_changes_which_one_is_next(scene: Scene) -> None:
    first, second = [await scene.submit(serial_key="k") for _ in range(2)]
    await move_job(scene.store, second, Place.BEFORE, first)

    assert await claimed_order(scene) == [second]
