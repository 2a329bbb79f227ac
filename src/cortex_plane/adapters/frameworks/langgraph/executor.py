"""Runs one compiled LangGraph graph in a thread, to its end or to its interrupts."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command, StateSnapshot

from cortex_plane.adapters.frameworks.langgraph.interrupts import plain, question_of, resume_value
from cortex_plane.adapters.frameworks.langgraph.messages import ModelListener
from cortex_plane.adapters.frameworks.langgraph.packing import StrictSerializer, types_in
from cortex_plane.adapters.frameworks.langgraph.saver import PlaneSaver
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.graphs import Answer, Asks, Ended, Reached
from cortex_plane.ports.graphs import GraphThread

AnyGraph = Pregel[Any, Any, Any, Any]

BREAKPOINTS = (
    "A graph that stops at nodes (interrupt_before, interrupt_after) cannot be an agent: where it stopped cannot be told from "
    "where it crashed. Call interrupt() inside the node instead."
)


class LangGraphExecutor:
    def __init__(self, graph: AnyGraph) -> None:
        self._graph = graph
        for one in (graph, *(inner for _, inner in graph.get_subgraphs(recurse=True))):
            if getattr(one, "interrupt_before_nodes", ()) or getattr(one, "interrupt_after_nodes", ()):
                raise InvalidInput(BREAKPOINTS, field="compiled")
        self._serializer = StrictSerializer(types_in(graph))

    async def run(self, thread: GraphThread, input: Mapping[str, Any]) -> Reached:  # noqa: A002 - the users' word
        graph, config = self._opened(thread)
        state = await graph.aget_state(config)
        if state.created_at is None:
            return await self._advanced(graph, config, thread, dict(input))
        # Not `next`: a task whose result is kept is no longer in it, though its step is not over.
        if state.interrupts or not state.tasks:
            return self._reached(state)
        return await self._advanced(graph, config, thread, None)

    async def resume(self, thread: GraphThread, answers: Mapping[str, Answer]) -> Reached:
        graph, config = self._opened(thread)
        state = await graph.aget_state(config)
        values = {one.id: resume_value(one, answers[one.id]) for one in state.interrupts if one.id in answers}
        return await self._advanced(graph, config, thread, Command(resume=values))

    def _opened(self, thread: GraphThread) -> tuple[AnyGraph, RunnableConfig]:
        """The graph with a saver of its own, which writes on behalf of this run only."""
        graph = copy.copy(self._graph)
        graph.checkpointer = PlaneSaver(thread.checkpoints, thread, self._serializer)
        return graph, {
            "configurable": {"thread_id": thread.thread_id},
            "metadata": {"job_id": thread.holder.job_id, "run_id": thread.holder.run_id},
            "callbacks": [ModelListener(thread.listener)],
        }

    async def _advanced(self, graph: AnyGraph, config: RunnableConfig, thread: GraphThread, given: Any) -> Reached:
        """`sync`: what a step did is durable before the next one begins."""
        async for path, update in graph.astream(given, config, stream_mode="updates", subgraphs=True, durability="sync"):
            for node in _finished(update):
                thread.listener.finished(node, [part.partition(":")[0] for part in path])
        return self._reached(await graph.aget_state(config))

    def _reached(self, state: StateSnapshot) -> Reached:
        if state.interrupts:
            return Asks([question_of(one) for one in state.interrupts])
        if state.tasks:
            names = ", ".join(task.name for task in state.tasks)
            raise InvalidInput(f"The graph stopped before {names}. {BREAKPOINTS}", field="compiled")
        return Ended(plain(self._output(state.values)))

    def _output(self, values: Any) -> Any:
        """What the graph's output schema names."""
        wanted = self._graph.output_channels
        if isinstance(wanted, str) or not isinstance(values, Mapping):
            return values
        return {name: values[name] for name in wanted if name in values}


def _finished(update: Any) -> list[str]:
    """Nodes that have finished now: not what is told again of those that finished before the thread went on."""
    if (update.get("__metadata__") or {}).get("cached"):
        return []
    return [node for node in update if not node.startswith("__")]
