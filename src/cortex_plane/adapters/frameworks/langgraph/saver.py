"""LangGraph's checkpoint saver, over the store of the plane. What is written at the same time goes into one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import uuid4

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
from langgraph.checkpoint.serde.base import SerializerProtocol

from cortex_plane.adapters.frameworks.langgraph.batching import Batcher
from cortex_plane.adapters.frameworks.langgraph.messages import name_messages, tell_usage
from cortex_plane.adapters.frameworks.langgraph.packing import StrictSerializer
from cortex_plane.core.errors import CheckpointTooLarge, InvalidInput
from cortex_plane.core.graphs import LAST_TEXT, GraphCheckpoint, GraphQuery, GraphWrite, NewGraphCheckpoint, Packed
from cortex_plane.ports.graphs import GraphCheckpoints, GraphThread
from cortex_plane.ports.json_text import encode, loads

Result = TypeVar("Result")

PAGE = 50


class PlaneSaver(BaseCheckpointSaver[str]):
    """Made inside a running event loop, to which the methods that are not async hand over from other threads."""

    def __init__(
        self, checkpoints: GraphCheckpoints, thread: GraphThread | None = None, serde: SerializerProtocol | None = None
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
        """Increasing, and never that of another branch: two runs that go on from one checkpoint must not share a value."""
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
