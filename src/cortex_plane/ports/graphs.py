"""What we need to run graphs: somebody who executes them, and a place where they keep their state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from cortex_plane.core.graphs import (
    Answer,
    GraphCheckpoint,
    GraphQuery,
    GraphWrite,
    Holder,
    NewGraphCheckpoint,
    Reached,
)


class GraphCheckpoints(Protocol):
    async def save(
        self, checkpoints: Sequence[NewGraphCheckpoint], writes: Sequence[GraphWrite], holder: Holder | None = None
    ) -> None:
        """All of them in one transaction. Raises LeaseLost, and keeps nothing, when the holder was superseded."""

    async def get(self, thread_id: str, namespace: str, checkpoint_id: str | None = None) -> GraphCheckpoint | None:
        """This one, or the newest."""

    async def page(self, query: GraphQuery, limit: int) -> list[GraphCheckpoint]:
        """Newest first."""

    async def threads(self, after: str, limit: int) -> list[str]: ...

    async def delete_threads(self, thread_ids: Sequence[str]) -> None: ...

    async def delete_runs(self, run_ids: Sequence[str]) -> None:
        """The checkpoints that these runs made, with what belongs to them alone."""

    async def copy_thread(self, source_id: str, target_id: str) -> None: ...

    async def prune(self, thread_ids: Sequence[str]) -> None:
        """Keeps the newest checkpoint of each graph; every one of a graph that stores its state as differences."""


class GraphListener(Protocol):
    """Is told what happens while a graph runs."""

    def finished(self, node: str, path: Sequence[str]) -> None:
        """`path`: the graphs that it is inside of, outermost first."""

    def used(self, message_id: str | None, prompt_tokens: int, completion_tokens: int, cost: float) -> None:
        """A model's answer, and its cost in dollars if it is known. The same message may be told more than once."""

    async def before_write(self) -> None:
        """What was used is to be durable before what came of it."""


@dataclass(frozen=True, slots=True)
class GraphThread:
    thread_id: str
    holder: Holder
    checkpoints: GraphCheckpoints
    listener: GraphListener
    limit_bytes: int
    """Of what one step may add to the state."""


@runtime_checkable
class GraphExecutor(Protocol):
    """One graph. What a finished node did is kept before the next begins, and is never done again in the thread."""

    async def run(self, thread: GraphThread, input: Mapping[str, Any]) -> Reached:  # noqa: A002 - the users' word
        """Begins the graph, or goes on where the thread stands, to its end or until it asks."""

    async def resume(self, thread: GraphThread, answers: Mapping[str, Answer]) -> Reached:
        """Goes on with the answers to everything that it asks, by the ids of the questions."""
