"""Moving waiting jobs: any series of moves equals moving the items of a list."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex_plane.core.errors import Conflict, InvalidInput, JobNotFound, NotWaiting
from cortex_plane.core.jobs import JobId
from cortex_plane.core.order import Place, between
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.move_job import move_job, set_priority
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


@given(low=st.integers(-10_000, 10_000), gap=st.integers(0, 1_000))
def test_between_is_strictly_between_or_nothing(low: int, gap: int) -> None:
    found = between(low, low + gap)

    assert found is None if gap < 2 else found is not None and low < found < low + gap


async def test_a_move_writes_one_row_and_renumbers_only_when_the_gap_is_used_up(scene: Scene, raw: Raw) -> None:
    first, second, *others = [await scene.submit() for _ in range(12)]
    before = dict(await raw("select id, position from cortex.job"))
    await move_job(scene.store, others[0], Place.AFTER, first)
    after = dict(await raw("select id, position from cortex.job"))
    assert [str(job) for job in after if after[job] != before[job]] == [others[0]]

    for job in others[1:]:  # Each halves the gap; the gap of a hundred is used up before all are through.
        await move_job(scene.store, job, Place.AFTER, first)
    assert await order(raw) == [first, *reversed(others), second]
    assert sorted(row[0] for row in await raw("select position from cortex.job"))[:2] != [first, second]


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
        with pytest.raises(NotWaiting, match=f"is {status}; only a job that waits"):
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
    with pytest.raises(InvalidInput, match="need another job"):
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
