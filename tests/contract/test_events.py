"""What runs tell: kept in order, read from any number on, gone with the job."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.events import EventKind, NewEvent
from cortex_plane.jobs.model import Claimed, JobId, RunId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.json import dumps
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio


def told(scene: Scene, claimed: Claimed, data: Any, kind: EventKind = "log") -> NewEvent:
    return NewEvent(claimed.job_id, claimed.run_id, scene.clock.now(), kind, dumps(data))


async def test_events_are_listed_in_the_order_in_which_they_were_told(scene: Scene) -> None:
    claimed, other = await scene.running(), await scene.running()
    lines = [told(scene, claimed if n % 3 else other, {"n": n}) for n in range(100)]
    await scene.store.events.add(lines[:60])
    await scene.store.events.add(lines[60:])

    found = await scene.store.events.list(claimed.job_id)

    assert [event.data["n"] for event in found] == [n for n in range(100) if n % 3]
    assert [event.seq for event in found] == sorted({event.seq for event in found})


async def test_an_event_comes_back_as_it_was_told(scene: Scene) -> None:
    claimed = await scene.running()
    at = scene.now
    data = {"text": "half done: ä", "share": 0.5, "none": None}
    event = told(scene, claimed, data, "progress")
    await scene.clock.advance(seconds=3)
    await scene.store.events.add([event])

    [found] = await scene.store.events.list(claimed.job_id)
    assert (found.job_id, found.run_id, found.at, found.kind, found.data) == (
        claimed.job_id,
        claimed.run_id,
        at,
        "progress",
        data,
    )


async def test_events_are_read_page_by_page(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.events.add([told(scene, claimed, n, "progress") for n in range(5)])

    first = await scene.store.events.list(claimed.job_id, limit=3)
    rest = await scene.store.events.list(claimed.job_id, after=first[-1].seq)

    assert [event.data for event in first + rest] == [0, 1, 2, 3, 4]
    assert await scene.store.events.list(claimed.job_id, after=rest[-1].seq) == []


async def test_what_is_told_of_a_job_that_is_gone_is_forgotten(scene: Scene) -> None:
    claimed = await scene.running()
    gone = claimed._replace(job_id=JobId(new_id()), run_id=RunId(new_id()))
    await scene.store.events.add([told(scene, gone, 1), told(scene, claimed, 2), told(scene, gone, 3)])

    assert [event.data for event in await scene.store.events.list(claimed.job_id)] == [2]
    assert await scene.store.events.list(gone.job_id) == []


async def test_nothing_told_is_no_trouble(scene: Scene) -> None:
    claimed = await scene.running()

    await scene.store.events.add([])

    assert await scene.store.events.list(claimed.job_id) == []


async def test_events_go_with_their_job(scene: Scene, raw: Raw) -> None:
    gone, kept = await scene.running(), await scene.running()
    await scene.store.events.add([told(scene, gone, 1), told(scene, kept, 2)])
    await scene.finish(gone, Done())
    await raw(f"delete from cortex.job where id = '{gone.job_id}'")

    assert [str(row[0]) for row in await raw("select job_id from cortex.job_event")] == [kept.job_id]
