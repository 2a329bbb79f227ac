"""What LangGraph's conformance suite does not ask of a saver: threads, batches, branches, and data that could run code."""

from __future__ import annotations

import asyncio
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from cortex_plane.errors import InvalidInput
from cortex_plane.integrations.langgraph import PlaneSaver
from cortex_plane.integrations.langgraph.saver import StrictSerializer
from cortex_plane.stores import Store

pytestmark = pytest.mark.anyio

PLACE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


class Counting:
    """The port, which counts its transactions."""

    def __init__(self, real: Any) -> None:
        self._real, self.saves = real, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def save(self, *values: Any) -> None:
        self.saves += 1
        await self._real.save(*values)


async def test_what_tasks_write_at_the_same_time_is_one_transaction(store: Store) -> None:
    counting: Any = Counting(store.graphs)
    saver = PlaneSaver(counting)
    place = await saver.aput(PLACE, empty_checkpoint(), {}, {})

    await asyncio.gather(*(saver.aput_writes(place, [("poem", number)], f"task {number}") for number in range(20)))

    found = await saver.aget_tuple(PLACE)
    assert found is not None
    assert found.pending_writes is not None
    assert sorted(value for _, _, value in found.pending_writes) == list(range(20))
    assert counting.saves == 2


async def test_threads_may_use_it_and_its_own_event_loop_may_not_block_on_it(store: Store) -> None:
    saver = PlaneSaver(store.graphs)

    def in_thread() -> Any:
        place = saver.put(PLACE, empty_checkpoint(), {"step": 1}, {})
        saver.put_writes(place, [("poem", "x")], "task")
        return saver.get_tuple(PLACE), list(saver.list(None, filter={"step": 1}, limit=5))

    found, listed = await asyncio.to_thread(in_thread)

    assert found.pending_writes == [("task", "poem", "x")]
    assert listed == [found]
    with pytest.raises(InvalidInput, match="Use ainvoke"):
        saver.get_tuple(PLACE)


async def test_two_branches_from_one_checkpoint_never_share_a_version(store: Store) -> None:
    saver = PlaneSaver(store.graphs)
    version = saver.get_next_version(None, None)

    left, right = saver.get_next_version(version, None), saver.get_next_version(version, None)

    assert version < left
    assert version < right
    assert left != right


async def test_every_thread_is_listed_up_to_the_limit(store: Store) -> None:
    saver = PlaneSaver(store.graphs)
    for number in range(3):
        for _ in range(2):
            await saver.aput({"configurable": {"thread_id": f"t{number}", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})

    assert len([one async for one in saver.alist(None)]) == 6
    assert len([one async for one in saver.alist(None, limit=5)]) == 5
    assert [one async for one in saver.alist(PLACE, limit=0)] == []


async def test_an_unknown_way_of_pruning_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="keep_latest"):
        await PlaneSaver(store.graphs).aprune(["t"], strategy="everything")


def packed_call(module: str, name: str, argument: Any) -> tuple[str, bytes]:
    """What somebody who can write to the database would plant."""
    return "msgpack", ormsgpack.packb([ormsgpack.Ext(0, ormsgpack.packb((module, name, argument)))])


@pytest.mark.parametrize(
    "planted",
    [
        packed_call("os", "system", "true"),
        packed_call("builtins", "eval", "1"),
        ("pickle", b"cos\nsystem\n(S'true'\ntR."),
        ("json", b'{"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["true"]}'),
    ],
)
def test_planted_state_that_would_run_code_is_refused_and_runs_nothing(planted: tuple[str, bytes]) -> None:
    with pytest.raises(InvalidInput, match="tate of a graph"):
        StrictSerializer().loads_typed(planted)


def test_langgraphs_own_serializer_would_take_what_is_refused_here() -> None:
    """The test above must be able to fail."""
    assert JsonPlusSerializer().loads_typed(packed_call("builtins", "len", "four")) == [4]
