"""Tokens and costs that the messages of models tell of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import LLMResult

from cortex_plane.ports.graphs import GraphListener


class ModelListener(BaseCallbackHandler):
    """Hears every model that answers while the graph runs, also where its message does not become part of the state."""

    run_inline = True  # In the thread of the model: the node must not end before what it used is known.

    def __init__(self, listener: GraphListener) -> None:
        self._listener = listener

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        for generations in response.generations:
            for generation in generations:
                tell_usage(getattr(generation, "message", None), self._listener)


def tell_usage(value: Any, listener: GraphListener) -> None:
    """Of the messages in a value that a node has written."""
    for message in _messages_in(value):
        usage = message.usage_metadata
        if usage:
            listener.used(
                message.id, _count(usage.get("input_tokens")), _count(usage.get("output_tokens")), _cost(usage.get("total_cost"))
            )


def name_messages(value: Any) -> None:
    """Gives ids to messages that have none, before they become part of the state: by its id a message is counted once."""
    for message in _messages_in(value):
        message.id = message.id or str(uuid4())


def _messages_in(value: Any) -> Iterator[AIMessage]:
    if isinstance(value, AIMessage):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _messages_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _messages_in(inner)


def _count(tokens: Any) -> int:
    return tokens if isinstance(tokens, int) and tokens > 0 else 0


def _cost(dollars: Any) -> float:
    return float(dollars) if isinstance(dollars, int | float) and 0 < dollars < 1e9 else 0.0
