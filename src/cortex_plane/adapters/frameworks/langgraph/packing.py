"""How the state of a graph is written: msgpack with a list of types, and nothing that could run code when it is read.

Refused, at the write and at the read alike: pickle, and every type that is neither one of LangGraph's safe ones (messages,
documents, dates, uuids, sets, …) nor named in the annotations of the graph's state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, get_args, get_type_hints

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT, EXT_NUMPY_ARRAY, JsonPlusSerializer

from cortex_plane.core.errors import InvalidInput

KINDS = frozenset({"null", "bytes", "bytearray", "msgpack"})
WITHOUT_TYPE = frozenset({EXT_DELTA_SNAPSHOT, EXT_NUMPY_ARRAY})


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's own, but a type that may not be read back is refused, where that one would give its raw content instead."""

    def __init__(self, types: Iterable[type] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=tuple(types))

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        try:
            kind, content = super().dumps_typed(obj)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"The state of a graph must be data, and this is not: {error}.", field="state") from error
        self._check(kind, content)
        return kind, content

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        self._check(*data)
        return super().loads_typed(data)

    def _check(self, kind: str, content: bytes) -> None:
        if kind not in KINDS:
            raise InvalidInput(f"State of a graph that is written as {kind!r:.40} is not read: it could run code.", field="state")
        if kind == "msgpack" and (refused := self._refused(content)):
            raise InvalidInput(
                f"The state of a graph may hold {refused[0]} only if the annotations of the state name it. "
                "Name it there, or keep plain data instead.",
                field="state",
            )

    def _refused(self, content: bytes) -> list[str]:
        """Types of objects in the state that would not be read back, looked for without making any of them."""
        refused: list[str] = []

        def look(code: int, packed: bytes) -> None:
            inside = unpacked(packed)
            if code not in WITHOUT_TYPE and not self._is_allowed(str(inside[0]), str(inside[1])):
                refused.append(f"{inside[0]}.{inside[1]}")

        def unpacked(packed: bytes) -> Any:
            return ormsgpack.unpackb(packed, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)

        unpacked(content)
        return refused

    def _is_allowed(self, module: str, name: str) -> bool:
        named = self._allowed_msgpack_modules
        return (module, name) in SAFE_MSGPACK_TYPES or (isinstance(named, set) and (module, name) in named)


def types_in(graph: Any) -> set[type]:
    """The types that a graph's author has named for its state, and for that of the graphs inside of it."""
    found: set[type] = set()
    for one in (graph, *(inner for _, inner in graph.get_subgraphs(recurse=True))):
        for hint in _hints(one):
            _collect(hint, found)
    return found


def _hints(graph: Any) -> Iterator[Any]:
    for channel in graph.channels.values():
        yield getattr(channel, "ValueType", None)
        yield getattr(channel, "UpdateType", None)
    builder = getattr(graph, "builder", None)
    for node in getattr(builder, "nodes", {}).values():
        yield getattr(node, "input_schema", None)


def _collect(hint: Any, found: set[type], seen: set[int] | None = None) -> None:
    seen = set() if seen is None else seen
    if id(hint) in seen:
        return
    seen.add(id(hint))
    for part in get_args(hint):
        _collect(part, found, seen)
    if not isinstance(hint, type):
        return
    if dataclasses.is_dataclass(hint) or issubclass(hint, Enum) or hasattr(hint, "model_fields") or hasattr(hint, "_fields"):
        found.add(hint)
    for field in _fields_of(hint):
        _collect(field, found, seen)


def _fields_of(hint: type) -> list[Any]:
    if not getattr(hint, "__annotations__", None) or hint.__module__ == "builtins":
        return []
    try:
        return list(get_type_hints(hint, include_extras=True).values())
    except Exception:  # An annotation that cannot be resolved names nothing.
        return []
