"""A LangGraph checkpoint saver over the store."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar, get_args, get_type_hints
from uuid import uuid4

import ormsgpack
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT, EXT_NUMPY_ARRAY, JsonPlusSerializer

from cortex_plane.errors import CheckpointTooLarge, InvalidInput
from cortex_plane.graphs.model import LAST_TEXT, GraphCheckpoint, GraphQuery, GraphWrite, NewGraphCheckpoint, Packed
from cortex_plane.graphs.store import GraphListener, GraphStore, GraphThread
from cortex_plane.json import encode, loads


class ModelListener(BaseCallbackHandler):
    """Hears every model that answers while the graph runs, also where its message does not become part of the state."""

    run_inline = True  # Runs in the model's thread: usage must be known before the node ends.

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


# -- batching ----------------------------------------------------------------------------------
# Collects the writes of a graph's tasks while a transaction is in progress, and writes them with the next.


New = NewGraphCheckpoint | GraphWrite


class Batcher:
    def __init__(self, checkpoints: GraphStore, thread: GraphThread | None) -> None:
        self._checkpoints, self._thread = checkpoints, thread
        self._waiting: list[tuple[New, asyncio.Future[None]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def add(self, *items: New) -> None:
        """Returns when all of them are durable."""
        if not items:
            return
        durable = asyncio.get_running_loop().create_future()
        self._waiting += [(item, durable) for item in items]
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())
        await durable

    async def _send(self) -> None:
        """Begins in the next turn of the event loop: tasks that end together write together."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            futures = dict.fromkeys(future for _, future in batch)
            try:
                await self._save([item for item, _ in batch])
            except BaseException as error:
                for future in futures:
                    if not future.done():
                        future.set_exception(error)
            else:
                for future in futures:
                    if not future.done():
                        future.set_result(None)

    async def _save(self, items: list[New]) -> None:
        if self._thread is not None:
            await self._thread.listener.before_write()
        await self._checkpoints.save(
            [item for item in items if isinstance(item, NewGraphCheckpoint)],
            [item for item in items if isinstance(item, GraphWrite)],
            self._thread.holder if self._thread is not None else None,
        )


# -- packing -----------------------------------------------------------------------------------
# The serializer: msgpack with an allowlist of types, and nothing that could run code on reading.
#
# Refused, at the write and at the read alike: pickle, and every type that is neither one of LangGraph's safe ones (messages,
# documents, dates, uuids, sets, …) nor named in the annotations of the graph's state.


KINDS = frozenset({"null", "bytes", "bytearray", "msgpack"})
WITHOUT_TYPE = frozenset({EXT_DELTA_SNAPSHOT, EXT_NUMPY_ARRAY})


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer, except that a type outside the allowlist raises, where LangGraph would return its raw content."""

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


# -- saver -------------------------------------------------------------------------------------
# LangGraph's checkpoint saver, over the store of the plane. Concurrent writes share a transaction.


Result = TypeVar("Result")

PAGE = 50


class PlaneSaver(BaseCheckpointSaver[str]):
    """Made inside a running event loop, to which the methods that are not async hand over from other threads."""

    def __init__(
        self, checkpoints: GraphStore, thread: GraphThread | None = None, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde or StrictSerializer())
        self._checkpoints, self._thread = checkpoints, thread
        self._loop = asyncio.get_running_loop()
        self._batcher = Batcher(checkpoints, thread)

    # -- writing ---------------------------------------------------------------------------------

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        thread_id, namespace, parent_id = _place(config)
        body: dict[str, Any] = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        told = get_serializable_checkpoint_metadata(config, metadata)
        values = {name: self._pack(checkpoint["channel_values"][name], name) for name in _changed(checkpoint, new_versions)}
        new = NewGraphCheckpoint(
            thread_id=thread_id,
            namespace=namespace,
            checkpoint_id=checkpoint["id"],
            parent_id=parent_id,
            run_id=_text_or_none(told.get("run_id")),
            body=Packed(*self.serde.dumps_typed(body)),
            channels={name: str(version) for name, version in {**checkpoint["channel_versions"], **new_versions}.items()},
            metadata=encode(told, "metadata"),
            values=values,
        )
        self._check_size(values)
        await self._batcher.add(new)
        return _config(thread_id, namespace, checkpoint["id"])

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread_id, namespace, checkpoint_id = _place(config)
        if checkpoint_id is None:
            raise InvalidInput("Writes belong to a checkpoint; the configuration names none.", field="checkpoint_id")
        new: dict[int, GraphWrite] = {}
        for place, (channel, value) in enumerate(writes):
            name_messages(value)
            packed, special = self._pack(value, channel), WRITES_IDX_MAP.get(channel, place)
            new[special] = GraphWrite(thread_id, namespace, checkpoint_id, task_id, special, channel, task_path, packed)
            if self._thread is not None:
                tell_usage(value, self._thread.listener)
        self._check_size({write.channel: write.packed for write in new.values()})
        await self._batcher.add(*new.values())

    def _pack(self, value: Any, channel: str) -> Packed:
        try:
            return Packed(*self.serde.dumps_typed(value))
        except InvalidInput as error:
            raise InvalidInput(f'Channel "{channel}": {error}', field=error.field) from error

    def _check_size(self, values: Mapping[str, Packed]) -> None:
        size = sum(len(packed.content) for packed in values.values())
        if self._thread is not None and size > self._thread.limit_bytes:
            largest = max(values, key=lambda name: len(values[name].content))
            raise CheckpointTooLarge(size, self._thread.limit_bytes, largest)

    def get_next_version(self, current: Any, channel: None) -> str:
        """Increasing, and unique per branch: two runs that continue from one checkpoint must not share a version."""
        last = int(str(current).partition(".")[0]) if current is not None else 0
        return f"{last + 1:032}.{uuid4().hex}"

    # -- reading ---------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = await self._checkpoints.get(*_place(config))
        return None if found is None else self._tuple(found)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's word
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        left = limit
        async for thread_id in self._threads(config):
            query = _query(thread_id, config, filter, before)
            while page := await self._checkpoints.page(query, PAGE if left is None else min(PAGE, left)):
                for one in page:
                    yield self._tuple(one)
                left = None if left is None else left - len(page)
                query = _query(thread_id, config, filter, before, page[-1])
            if left == 0:
                return

    async def _threads(self, config: RunnableConfig | None) -> AsyncIterator[str]:
        if config is not None:
            yield config["configurable"]["thread_id"]
            return
        after = ""
        while page := await self._checkpoints.threads(after, PAGE):
            for thread_id in page:
                yield thread_id
            after = page[-1]

    def _tuple(self, found: GraphCheckpoint) -> CheckpointTuple:
        values = {channel: self.serde.loads_typed(packed) for channel, packed in found.values.items()}
        checkpoint: Any = {**self.serde.loads_typed(found.body), "channel_values": values}
        parent = None if found.parent_id is None else _config(found.thread_id, found.namespace, found.parent_id)
        return CheckpointTuple(
            config=_config(found.thread_id, found.namespace, found.checkpoint_id),
            checkpoint=checkpoint,
            metadata=loads(found.metadata),
            parent_config=parent,
            pending_writes=[(write.task_id, write.channel, self.serde.loads_typed(write.packed)) for write in found.writes],
        )

    # -- keeping house ---------------------------------------------------------------------------

    async def adelete_thread(self, thread_id: str) -> None:
        await self._checkpoints.delete_threads([thread_id])

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._checkpoints.delete_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._checkpoints.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        match strategy:
            case "keep_latest":
                await self._checkpoints.prune(thread_ids)
            case "delete":
                await self._checkpoints.delete_threads(thread_ids)
            case _:
                raise InvalidInput(f'strategy must be "keep_latest" or "delete", not {strategy!r:.40}.', field="strategy")

    # -- the same for threads --------------------------------------------------------------------

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        return self._wait(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        self._wait(self.aput_writes(config, writes, task_id, task_path))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._wait(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's word
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        async def collected() -> Any:
            return [one async for one in self.alist(config, filter=filter, before=before, limit=limit)]

        yield from self._wait(collected())

    def delete_thread(self, thread_id: str) -> None:
        self._wait(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._wait(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._wait(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._wait(self.aprune(thread_ids, strategy=strategy))

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        work.close()
        where = "the event loop of the saver" if here is self._loop else "an event loop"
        raise InvalidInput(f"This would block {where}. Use ainvoke, aget_state and the like inside of async code.", field="saver")


def _place(config: RunnableConfig) -> tuple[str, str, str | None]:
    chosen = config["configurable"]
    return chosen["thread_id"], chosen.get("checkpoint_ns", ""), get_checkpoint_id(config)


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def _changed(checkpoint: Checkpoint, new_versions: ChannelVersions) -> list[str]:
    """A channel that was emptied has a new version, and no value."""
    return [name for name in new_versions if name in checkpoint["channel_values"]]


def _query(
    thread_id: str,
    config: RunnableConfig | None,
    filter: Mapping[str, Any] | None,  # noqa: A002 - LangGraph's word
    before: RunnableConfig | None,
    after: GraphCheckpoint | None = None,
) -> GraphQuery:
    """`after` is the last one of the page before."""
    end = (get_checkpoint_id(before), "") if before is not None else (None, "")
    return GraphQuery(
        thread_id=thread_id,
        namespace=config["configurable"].get("checkpoint_ns") if config is not None else None,
        checkpoint_id=get_checkpoint_id(config) if config is not None else None,
        before=(after.checkpoint_id, after.namespace) if after is not None else (end[0] or LAST_TEXT, end[1]),
        filter=encode(dict(filter or {}), "filter"),
    )


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
