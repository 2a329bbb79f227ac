"""A worker with a graph, run as a process of its own and killed.

        ┌── rhyme ──┐
plan ───┤           ├── [review: polish] ── publish
        └── metre ──┘

Each node appends one line to a file. `publish` asks whether it may; a decision is a file named like the question.
"""

from __future__ import annotations

import json
import operator
import os
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

from cortex_plane import Context, Plane, Settings
from cortex_plane.clock import after
from cortex_plane.durable.suspension import SleepUntil
from cortex_plane.graphs.model import GraphAnswer, Question
from tests.durable.app import append
from tests.end_to_end.app import die_now

NODES = ["plan", "rhyme", "metre", "polish", "publish"]
NAME = "langgraph:poet"


class Poem(TypedDict):
    topic: str
    lines: Annotated[list[str], operator.add]
    messages: Annotated[list[AnyMessage], add_messages]


def poet(effects: str, die: list[Any] | None = None, *, asks: bool = False) -> Any:
    """The graph; `die` names the node in which the process ends."""

    def reached(node: str) -> None:
        append(effects, node)
        if die == ["node", node]:
            die_now()

    async def plan(state: Poem) -> dict[str, Any]:
        answer = AIMessage("a plan", usage_metadata={"input_tokens": 10, "output_tokens": 3, "total_tokens": 13})
        message = await GenericFakeChatModel(messages=iter([answer])).ainvoke(state["topic"])
        reached("plan")
        return {"lines": [f"plan of {state['topic']}"], "messages": [message]}

    def rhyme(state: Poem) -> dict[str, Any]:
        reached("rhyme")
        return {"lines": ["rhyme"]}

    async def metre(state: Poem) -> dict[str, Any]:
        reached("metre")
        return {"lines": ["metre"]}

    async def polish(state: Poem) -> dict[str, Any]:
        reached("polish")
        return {"lines": [f"polished {len(state['lines'])}"]}

    async def publish(state: Poem) -> dict[str, Any]:
        by = interrupt("Publish the poem?")["decided_by"] if asks else "nobody"
        reached("publish")
        return {"lines": [f"published by {by}"]}

    review = StateGraph(Poem)
    review.add_node("polish", polish)
    review.add_edge(START, "polish")

    builder = StateGraph(Poem)
    builder.add_node("plan", plan)
    builder.add_node("rhyme", rhyme)
    builder.add_node("metre", metre)
    builder.add_node("review", _lines_of(review.compile()))
    builder.add_node("publish", publish)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "rhyme")
    builder.add_edge("plan", "metre")
    builder.add_edge(["rhyme", "metre"], "review")
    builder.add_edge("review", "publish")
    builder.add_edge("publish", END)
    return builder.compile()


def _lines_of(graph: Any) -> Any:
    """A node that runs a graph of its own, and takes over what that has added."""

    async def review(state: Poem) -> dict[str, Any]:
        after = await graph.ainvoke(state)
        return {"lines": after["lines"][len(state["lines"]) :], "messages": after["messages"]}

    return review


def ask_in(folder: str) -> Any:
    """Decisions are files. Without one the job sleeps for a moment, and looks again."""

    async def ask(ctx: Context, question: Question) -> GraphAnswer:
        recorder, path = ctx._durable, Path(folder) / question.id
        if f"answer {question.id}#1" not in recorder.journal.entries and not path.exists():
            append(str(Path(folder) / "asked"), f"{os.getpid()} {question.id}")
            recorder.suspend(SleepUntil(after(recorder.services.clock.now(), 0.1)))
        return GraphAnswer(**await ctx.step(f"answer {question.id}", lambda: json.loads(path.read_text())))

    return ask


class DyingGraphs:
    """The port, which ends the process around its n-th transaction."""

    def __init__(self, real: Any, moment: str, count: int) -> None:
        self._real, self._moment, self._left = real, moment, count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def save(self, *values: Any) -> None:
        self._left -= 1
        if self._left == 0 and self._moment == "before":
            die_now()
        await self._real.save(*values)
        if self._left == 0:
            die_now()


def register(plane: Plane, effects: str, die: list[Any] | None = None, folder: str | None = None) -> None:
    ask = {} if folder is None else {"ask": ask_in(folder)}
    plane.graph(NAME, poet(effects, die, asks=folder is not None), crash_limit=1000, max_retries=0, **ask)


async def main(url: str, effects: str, die: list[Any], folder: str | None = None) -> None:
    settings = Settings(database_url=url, lease_seconds=0.6, data_dir=f"{effects}.files")
    async with Plane(settings=settings) as plane:
        register(plane, effects, die, folder)
        store: Any = plane.store
        if die and die[0] == "save":
            store.graphs = DyingGraphs(store.graphs, *die[1:])
        await plane.run_worker(concurrency=1)
