"""LangGraph with its own checkpointers, a node for each step: at the strictest durability that it has, and as it comes."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, ClassVar, TypedDict

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres import PostgresSaver  # type: ignore[import-not-found]
from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt
from psycopg.rows import dict_row

from conformance.agent import CALLS, QUESTIONS, STEPS, Doings, Refused
from conformance.boundaries import Boundaries
from conformance.systems import Recorded

THREAD = {"configurable": {"thread_id": "probe"}}
REPEATED = RetryPolicy(initial_interval=0.01, retry_on=Refused)


class State(TypedDict):
    results: Annotated[list[str], operator.add]


class LangGraph:
    options: ClassVar[dict[str, Any]] = {"durability": "sync"}

    def __init__(self) -> None:
        self._boundaries: Boundaries | None = None

    def watch(self, boundaries: Boundaries) -> None:
        self._boundaries = boundaries

    def prepare(self, database: str) -> None:
        self._saver(database).setup()

    def run(self, database: str, doings: Doings) -> list[str]:
        graph = _graph({step: partial(_step, doings, step) for step in STEPS}, self._saver(database))
        return self._invoke(graph)

    def resume(self, database: str, doings: Doings) -> list[str]:
        """`invoke(None)` goes on from the last checkpoint: the same call as after a crash."""
        return self.run(database, doings)

    def pay(self, database: str, doings: Doings) -> list[str]:
        """The key is the namespace of the task, which LangGraph derives from the checkpoint and the node."""

        def payment(state: State, config: RunnableConfig) -> dict[str, list[str]]:
            return {"results": [doings.pay(config["metadata"]["langgraph_checkpoint_ns"])]}

        return self._invoke(_graph({"pay": payment}, self._saver(database)))

    def spread(self, database: str, doings: Doings) -> list[str]:
        graph = StateGraph(State)
        for name in CALLS:
            graph.add_node(name, partial(_called, doings, name), retry_policy=REPEATED)
            graph.add_edge(START, name)
            graph.add_edge(name, END)
        return self._invoke(graph.compile(checkpointer=self._saver(database)))

    def _invoke(self, graph: Any) -> list[str]:
        begun = graph.get_state(THREAD).created_at is not None
        results: list[str] = graph.invoke(None if begun else {"results": []}, THREAD, **self.options)["results"]
        return results

    def recorded(self, database: str) -> Recorded:
        """Its snapshot includes what a node has written whose step has not been closed yet."""
        graph = _graph(dict.fromkeys(STEPS, lambda state: {}), self._saver(database))
        return [(result.split()[0], result) for result in graph.get_state(THREAD).values.get("results", [])]

    def ask(self, database: str, doings: Doings) -> list[str]:
        graph = _graph({question: partial(_question, question) for question in QUESTIONS}, self._saver(database))
        given: Any = None if graph.get_state(THREAD).created_at else {"results": []}
        asked = ""
        while True:
            state = graph.invoke(given, THREAD, **self.options)
            if asked:
                doings.note_given(asked)
            if not state.get("__interrupt__"):
                answers: list[str] = state["results"]
                return answers
            asked = state["__interrupt__"][0].value
            if doings.was_given(asked):
                return [f"asked again for the {asked} answer, which had been taken"]
            given = Command(resume=doings.answer(asked))

    def alter(self, database: str, old: str, new: str) -> bool:
        """On PostgreSQL lists are in `checkpoint_blobs`, on SQLite in the checkpoint itself; both are msgpack."""
        if not database.startswith("sqlite"):
            return _alter_postgres(database, old, new)
        file = sqlite3.connect(_path(database))
        changed = False
        for number, blob in file.execute("select rowid, checkpoint from checkpoints").fetchall():
            if old.encode() in blob:
                file.execute(
                    "update checkpoints set checkpoint = ? where rowid = ?", (blob.replace(old.encode(), new.encode()), number)
                )
                changed = True
        file.commit()
        file.close()
        return changed

    def _saver(self, database: str) -> Any:
        if database.startswith("sqlite"):
            file = sqlite3.connect(_path(database), check_same_thread=False, factory=_sqlite_class(self._boundaries))
            return SqliteSaver(file)
        connection = _postgres_class(self._boundaries).connect(
            database, autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        return PostgresSaver(connection)


class LangGraphAsItComes(LangGraph):
    """Its default is to write while the next step runs already."""

    options: ClassVar[dict[str, Any]] = {}


def _graph(nodes: dict[str, Callable[..., Any]], saver: Any) -> Any:
    graph = StateGraph(State)
    for name, node in nodes.items():
        graph.add_node(name, node, retry_policy=REPEATED)
    for before, after in zip([START, *nodes], [*nodes, END], strict=True):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


def _step(doings: Doings, step: str, state: State) -> dict[str, list[str]]:
    return {"results": [doings.perform(step)]}


def _called(doings: Doings, name: str, state: State) -> dict[str, list[str]]:
    return {"results": [doings.call(name)]}


def _question(question: str, state: State) -> dict[str, list[str]]:
    return {"results": [interrupt(question)]}


def _sqlite_class(boundaries: Boundaries | None) -> type[sqlite3.Connection]:
    class Watched(sqlite3.Connection):
        def commit(self) -> None:
            if boundaries is None or not self.in_transaction:
                super().commit()
                return
            with boundaries.around("commit"):
                super().commit()

    return Watched


def _postgres_class(boundaries: Boundaries | None) -> Any:
    """Its writes go through pipelines, which commit when they are left."""

    class Watched(psycopg.Connection[Any]):
        @contextmanager
        def pipeline(self) -> Iterator[Any]:
            with super().pipeline() as pipeline:
                yield pipeline
                if boundaries is not None:
                    boundaries.reach("before commit")
            if boundaries is not None:
                boundaries.reach("after commit")

    return Watched


def _alter_postgres(database: str, old: str, new: str) -> bool:
    with psycopg.connect(database) as connection:
        sql = "select ctid::text, blob from checkpoint_blobs where position(%s::bytea in blob) > 0"
        found = connection.execute(sql, (old.encode(),)).fetchall()
        for place, blob in found:
            changed = bytes(blob).replace(old.encode(), new.encode())
            connection.execute("update checkpoint_blobs set blob = %s where ctid = %s::tid", (changed, place))
    return bool(found)


def _path(database: str) -> str:
    return database.removeprefix("sqlite:///")
