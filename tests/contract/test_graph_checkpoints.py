"""The state of graphs: kept whole, by the job's open run only, and gone with the job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cortex_plane.errors import LeaseLost
from cortex_plane.graphs.model import GraphQuery, GraphWrite, Holder, NewGraphCheckpoint, Packed
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed
from cortex_plane.jobs.outcomes import Done
from tests.contract.support import BOOM, Raw, Scene

pytestmark = pytest.mark.anyio

TABLES = ("graph_checkpoint", "graph_value", "graph_write")


def checkpoint(thread_id: str, checkpoint_id: str = "1", **fields: Any) -> NewGraphCheckpoint:
    values: dict[str, Any] = {
        "namespace": "",
        "parent_id": None,
        "run_id": None,
        "body": Packed("msgpack", b"body " + checkpoint_id.encode()),
        "channels": {"poem": f"v{checkpoint_id}"},
        "metadata": "{}",
        "values": {"poem": Packed("msgpack", b"poem " + checkpoint_id.encode())},
        **fields,
    }
    return NewGraphCheckpoint(thread_id, checkpoint_id=checkpoint_id, **values)


def write(thread_id: str, checkpoint_id: str = "1", place: int = 0, content: bytes = b"w", **fields: Any) -> GraphWrite:
    values = {"namespace": "", "task_id": "task", "channel": "poem", "task_path": "", **fields}
    return GraphWrite(thread_id, checkpoint_id=checkpoint_id, place=place, packed=Packed("msgpack", content), **values)


def held_by(claimed: Claimed) -> Holder:
    return Holder(claimed.job_id, claimed.run_id)


async def rows(raw: Raw) -> dict[str, int]:
    return {table: (await raw(f"select count(*) from cortex.{table}"))[0][0] for table in TABLES}


async def test_a_checkpoint_comes_back_with_its_values_and_what_was_written_after_it(scene: Scene) -> None:
    graphs = scene.store.graphs
    empty = Packed("null", b"")
    new = checkpoint("t", values={"poem": Packed("msgpack", b"\x00\xff"), "title": empty}, channels={"poem": "1", "title": "1"})
    await graphs.save([new], [write("t", place=1, content=b"second"), write("t", place=0, content=b"")])

    found = await graphs.get("t", "")

    assert found is not None
    assert (found.checkpoint_id, found.body, found.metadata) == ("1", new.body, "{}")
    assert found.values == {"poem": Packed("msgpack", b"\x00\xff"), "title": empty}
    assert [written.packed.content for written in found.writes] == [b"", b"second"]
    assert await graphs.get("t", "", "1") == found
    assert await graphs.get("t", "other") is None
    assert await graphs.get("t", "", "2") is None


async def test_contents_may_all_be_empty(scene: Scene) -> None:
    nothing = Packed("null", b"")
    await scene.store.graphs.save([checkpoint("t", body=nothing, values={"poem": nothing})], [])
    await scene.store.graphs.save([], [write("t", content=b"")])

    found = await scene.store.graphs.get("t", "")

    assert found is not None
    assert (found.body, found.values, len(found.writes)) == (nothing, {"poem": nothing}, 1)


async def test_a_value_is_shared_by_all_checkpoints_that_have_its_version(scene: Scene, raw: Raw) -> None:
    first = checkpoint("t", "1")
    await scene.store.graphs.save([first, checkpoint("t", "2", channels=first.channels, values={})], [])

    found = await scene.store.graphs.page(GraphQuery("t"), 10)

    assert [(one.checkpoint_id, one.values) for one in found] == [("2", first.values), ("1", first.values)]
    assert (await rows(raw))["graph_value"] == 1


async def test_what_a_task_wrote_stays_but_of_its_marks_the_last_one_counts(scene: Scene) -> None:
    graphs = scene.store.graphs
    await graphs.save([checkpoint("t")], [write("t", place=0, content=b"a"), write("t", place=-3, content=b"asks")])
    await graphs.save(
        [], [write("t", place=0, content=b"b"), write("t", place=-3, content=b"x"), write("t", place=-3, content=b"y")]
    )

    found = await graphs.get("t", "")

    assert found is not None
    assert {written.place: written.packed.content for written in found.writes} == {0: b"a", -3: b"y"}


async def test_the_open_run_of_a_job_may_write(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()

    await scene.store.graphs.save([checkpoint(claimed.job_id)], [write(claimed.job_id)], held_by(claimed))

    assert await rows(raw) == dict.fromkeys(TABLES, 1)


@pytest.mark.parametrize("end", ["finished", "retried", "cancelled", "taken over"])
async def test_a_run_that_is_no_longer_the_jobs_open_one_writes_nothing(scene: Scene, raw: Raw, end: str) -> None:
    claimed = await scene.running()
    match end:
        case "finished":
            await scene.finish(claimed, Done("1"))
        case "retried":
            await scene.finish(claimed, BOOM)
        case "cancelled":
            await scene.store.jobs.cancel(claimed.job_id, None, None)
        case "taken over":
            await scene.finish(claimed, BOOM)
            await scene.clock.advance(hours=1)
            await scene.store.queue.promote_due(10)
            [again] = await scene.claim(await scene.worker())
            assert again.job_id == claimed.job_id

    with pytest.raises(LeaseLost):
        await scene.store.graphs.save([checkpoint(claimed.job_id)], [write(claimed.job_id)], held_by(claimed))

    assert await rows(raw) == dict.fromkeys(TABLES, 0)


async def test_a_job_takes_its_graph_with_it_and_no_other(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()
    for thread_id in (claimed.job_id, new_id()):
        await scene.store.graphs.save([checkpoint(thread_id)], [write(thread_id)])
    await scene.finish(claimed, Done("1"))

    await raw(f"delete from cortex.job where id = '{claimed.job_id}'")

    assert await rows(raw) == dict.fromkeys(TABLES, 1)
    assert await scene.store.graphs.get(claimed.job_id, "") is None


async def test_pages_follow_each_other_newest_first_and_hold_what_the_metadata_has(scene: Scene) -> None:
    graphs = scene.store.graphs
    odd = '{"kind":"odd","step":1}'
    await graphs.save([checkpoint("t", str(number), metadata=odd if number % 2 else "{}") for number in range(1, 8)], [])
    await graphs.save([checkpoint("t", "3", namespace="inner"), checkpoint("other", "9")], [])

    first = await graphs.page(GraphQuery("t", filter='{"kind":"odd"}'), 2)
    second = await graphs.page(GraphQuery("t", filter='{"kind":"odd"}', before=(first[-1].checkpoint_id, "")), 9)

    assert [one.checkpoint_id for one in first + second] == ["7", "5", "3", "1"]
    assert [one.checkpoint_id for one in await graphs.page(GraphQuery("t", "inner"), 9)] == ["3"]
    assert len(await graphs.page(GraphQuery("t"), 9)) == 8
    assert await graphs.page(GraphQuery("t", filter='{"kind":"odd","step":2}'), 9) == []
    assert len(await graphs.page(GraphQuery("t", filter='{"kind":null}'), 9)) == 4
    assert await graphs.threads("", 9) == ["other", "t"]
    assert await graphs.threads("other", 9) == ["t"]


async def test_pruning_keeps_the_newest_and_what_belongs_to_it(scene: Scene, raw: Raw) -> None:
    graphs = scene.store.graphs
    await graphs.save(
        [checkpoint("t", str(number)) for number in range(1, 4)], [write("t", str(number)) for number in range(1, 4)]
    )
    await graphs.save([checkpoint("untouched", "1"), checkpoint("untouched", "2")], [])
    newest = await graphs.get("t", "")

    await graphs.prune(["t"])

    assert await graphs.get("t", "") == newest
    assert await rows(raw) == {"graph_checkpoint": 3, "graph_value": 3, "graph_write": 1}


async def test_pruning_leaves_state_alone_that_is_stored_as_differences(scene: Scene) -> None:
    graphs = scene.store.graphs
    deltas = '{"counters_since_delta_snapshot":{"poem":[1,1]}}'
    await graphs.save([checkpoint("t", "1"), checkpoint("t", "2", metadata=deltas)], [])

    await graphs.prune(["t"])

    assert len(await graphs.page(GraphQuery("t"), 9)) == 2


async def test_what_a_run_made_is_deleted_and_what_others_share_with_it_stays(scene: Scene, raw: Raw) -> None:
    graphs = scene.store.graphs
    first = checkpoint("t", "1", run_id="mine")
    shared = checkpoint("t", "2", run_id="other", channels=first.channels, values={})
    await graphs.save([first, shared, replace(first, namespace="inner")], [write("t", "1"), write("t", "2")])

    await graphs.delete_runs(["mine"])

    assert [one.checkpoint_id for one in await graphs.page(GraphQuery("t"), 9)] == ["2"]
    assert await rows(raw) == dict.fromkeys(TABLES, 1)
