"""Runs LangGraph graphs as durable agents; interrupts become approvals.

What people are shown of an interrupt, and what `interrupt()` returns in the node when they have decided.

a text                        shown as it is
{"action_request": …}         LangChain's HumanInterrupt, alone or in a list: answered by HumanResponse, alone or in a list
{"action_requests": […]}      LangChain's middleware: answered by {"decisions": […]}
anything else                 shown as details

Where no convention says otherwise the node gets {"approved", "decided_by", "reason", "details"}, also when it was denied.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt, StateSnapshot

from cortex_plane.errors import InvalidInput
from cortex_plane.graphs.model import Asks, Ended, GraphAnswer, Question, Reached
from cortex_plane.graphs.store import GraphThread
from cortex_plane.integrations.langgraph.saver import ModelListener, PlaneSaver, StrictSerializer, types_in

SUMMARY_LIMIT = 200


def question_of(interrupt: Interrupt[Any]) -> Question:
    value = plain(interrupt.value)
    actions = _actions(value)
    if actions:
        names = ", ".join(str(_name(action)) for action in actions)
        described = next((str(one["description"]) for one in _requests(value) if one.get("description")), None)
        summary = described or f"Approve {names}"
        details = actions[0] if len(actions) == 1 else actions
        return Question(interrupt.id, _short(summary), details, editable=_may_edit(value))
    if isinstance(value, str):
        return Question(interrupt.id, _short(value), None if len(value) <= SUMMARY_LIMIT else value)
    return Question(interrupt.id, _summary(value), value)


def resume_value(interrupt: Interrupt[Any], answer: GraphAnswer) -> Any:
    value = plain(interrupt.value)
    if isinstance(value, Mapping) and "action_requests" in value:
        return {"decisions": [_decision(place, action, value, answer) for place, action in enumerate(_actions(value))]}
    if _actions(value):
        responses = [_response(place, value, answer) for place in range(len(_actions(value)))]
        return responses if isinstance(value, list) else responses[0]
    return dataclasses.asdict(answer)


def _requests(value: Any) -> list[Mapping[str, Any]]:
    """The requests of an interrupt that follows one of LangChain's conventions; none if it does not."""
    if isinstance(value, Mapping) and isinstance(value.get("action_requests"), list):
        return [one for one in value["action_requests"] if isinstance(one, Mapping)]
    listed = value if isinstance(value, list) else [value]
    follows = bool(listed) and all(isinstance(one, Mapping) and isinstance(one.get("action_request"), Mapping) for one in listed)
    return listed if follows else []


def _actions(value: Any) -> list[Mapping[str, Any]]:
    return [one.get("action_request", one) for one in _requests(value)]


def _name(action: Mapping[str, Any]) -> Any:
    return action.get("action", action.get("name", "this"))


def _may_edit(value: Any) -> bool:
    """Only where every request allows it: one approval answers for all of them."""
    if isinstance(value, Mapping) and "action_requests" in value:
        configs = value.get("review_configs") or []
        return bool(configs) and all("edit" in config.get("allowed_decisions", ()) for config in configs)
    return all((request.get("config") or {}).get("allow_edit", False) for request in _requests(value))


def _edited(place: int, value: Any, answer: GraphAnswer) -> Mapping[str, Any] | None:
    """The action as edited by the approver; None if it is unchanged."""
    actions = _actions(value)
    if not _may_edit(value) or answer.details is None:
        return None
    details = [answer.details] if len(actions) == 1 else answer.details
    if not isinstance(details, list) or len(details) != len(actions) or details[place] == actions[place]:
        return None
    return details[place] if isinstance(details[place], Mapping) else None


def _response(place: int, value: Any, answer: GraphAnswer) -> dict[str, Any]:
    config = _requests(value)[place].get("config") or {}
    if not answer.approved:
        may_say = answer.reason and config.get("allow_respond", False)
        return {"type": "response", "args": answer.reason} if may_say else {"type": "ignore", "args": None}
    edited = _edited(place, value, answer)
    return {"type": "edit", "args": dict(edited)} if edited is not None else {"type": "accept", "args": None}


def _decision(place: int, action: Mapping[str, Any], value: Any, answer: GraphAnswer) -> dict[str, Any]:
    if not answer.approved:
        return {"type": "reject", **({"message": answer.reason} if answer.reason else {})}
    edited = _edited(place, value, answer)
    if edited is None:
        return {"type": "approve"}
    return {"type": "edit", "edited_action": {"name": edited.get("name", _name(action)), "args": edited.get("args", {})}}


def _summary(value: Any) -> str:
    if isinstance(value, Mapping):
        for key in ("question", "summary", "message", "task", "prompt", "description"):
            if isinstance(value.get(key), str) and value[key]:
                return _short(value[key])
    return "The graph asks for a decision"


def _short(text: str) -> str:
    return text if len(text) <= SUMMARY_LIMIT else f"{text[: SUMMARY_LIMIT - 1]}…"


def plain(value: Any) -> Any:
    """Values of a graph as JSON can keep them: messages, models and dataclasses as their fields."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    return value


# -- executor ----------------------------------------------------------------------------------
# Runs one compiled LangGraph graph in a thread, to its end or to its interrupts.


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

    async def resume(self, thread: GraphThread, answers: Mapping[str, GraphAnswer]) -> Reached:
        graph, config = self._opened(thread)
        state = await graph.aget_state(config)
        values = {one.id: resume_value(one, answers[one.id]) for one in state.interrupts if one.id in answers}
        return await self._advanced(graph, config, thread, Command(resume=values))

    def _opened(self, thread: GraphThread) -> tuple[AnyGraph, RunnableConfig]:
        """The graph with its own saver, which writes for this run only."""
        graph = copy.copy(self._graph)
        graph.checkpointer = PlaneSaver(thread.checkpoints, thread, self._serializer)
        return graph, {
            "configurable": {"thread_id": thread.thread_id},
            "metadata": {"job_id": thread.holder.job_id, "run_id": thread.holder.run_id},
            "callbacks": [ModelListener(thread.listener)],
        }

    async def _advanced(self, graph: AnyGraph, config: RunnableConfig, thread: GraphThread, given: Any) -> Reached:
        """`sync`: the result of a step is saved before the next begins."""
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
        """The part of the state in the graph's output schema."""
        wanted = self._graph.output_channels
        if isinstance(wanted, str) or not isinstance(values, Mapping):
            return values
        return {name: values[name] for name in wanted if name in values}


def _finished(update: Any) -> list[str]:
    """Nodes that finished now, without those replayed from before the thread was resumed."""
    if (update.get("__metadata__") or {}).get("cached"):
        return []
    return [node for node in update if not node.startswith("__")]
