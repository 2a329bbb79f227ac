"""What a graph may not be, and what its state may not hold: refused by name, with advice."""

from __future__ import annotations

import operator
from enum import Enum
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from cortex_plane import InvalidInput, JobFailed
from cortex_plane.graphs.model import GraphAnswer
from cortex_plane.testing import TestPlane
from tests.graphs.test_agents import People, State, line_of, says

pytestmark = pytest.mark.anyio


class Colour(Enum):
    RED = "red"


class Hidden:
    def __init__(self) -> None:
        self.value = 1


async def test_types_that_the_state_names_come_back_as_they_were(plane: TestPlane) -> None:
    class Painted(TypedDict):
        colours: Annotated[list[Colour], operator.add]

    seen: list[Any] = []
    builder = StateGraph(Painted)
    builder.add_node("paint", lambda state: {"colours": [Colour.RED]})
    builder.add_node("look", lambda state: seen.append((interrupt("Look?"), state["colours"])))
    builder.add_edge(START, "paint")
    builder.add_edge("paint", "look")
    people = People()
    job = await plane.graph("graph", builder.compile(), ask=people.ask).submit()
    await plane.work()

    people.answers["Look?"] = GraphAnswer(True)
    await plane.clock.advance(minutes=2)
    await plane.work()

    assert (await plane.jobs.get(job.id)).status == "COMPLETED"
    assert [colours for _, colours in seen] == [[Colour.RED]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Hidden(), "must be data, and this is not"),
        (Colour.RED, "may hold tests.graphs.test_refusals.Colour only if the annotations of the state name it"),
        (lambda: None, "must be data, and this is not"),
    ],
)
async def test_state_that_could_not_be_read_back_is_refused_by_the_name_of_its_channel(
    plane: TestPlane, value: Any, message: str
) -> None:
    job = await plane.graph("graph", line_of(("write", lambda state: {"lines": [value]}))).submit(topic="x")

    await plane.work()

    with pytest.raises(JobFailed, match=f'Channel "lines": .*{message}'):
        await job.result(timeout=5)


async def test_a_step_that_adds_more_than_a_checkpoint_may_hold_is_refused(plane: TestPlane) -> None:
    too_much = "x" * plane.settings.checkpoint_limit_bytes
    job = await plane.graph("graph", line_of(("write", lambda state: {"lines": [too_much]}))).submit(topic="x")

    await plane.work()

    with pytest.raises(JobFailed, match="lines"):
        await job.result(timeout=5)


async def test_what_is_no_compiled_graph_is_refused_with_advice(plane: TestPlane) -> None:
    compiled = line_of(("write", says("write")))
    stops = StateGraph(State).add_node("write", says("write")).add_edge(START, "write").compile(interrupt_before=["write"])

    for wrong, advice in [
        (StateGraph(State), "must be compiled first"),
        (lambda: None, r"pip install 'cortex-plane\[langgraph\]'"),
        (stops, "Call interrupt\\(\\) inside the node instead"),
        (line_of(("inner", stops)), "Call interrupt\\(\\) inside the node instead"),
    ]:
        with pytest.raises(InvalidInput, match=advice):
            plane.graph("wrong", wrong)
    plane.graph("right", compiled)
