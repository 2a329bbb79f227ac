"""Stores checkpoints and writes of graphs; the protocol of graph executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from cortex_plane.errors import LeaseLost
from cortex_plane.graphs.model import (
    GraphAnswer,
    GraphCheckpoint,
    GraphQuery,
    GraphWrite,
    Holder,
    NewGraphCheckpoint,
    Packed,
    Reached,
)
from cortex_plane.json import dumps, embedded, loads
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.storage.database import Database, Row


class GraphListener(Protocol):
    """Receives events of a running graph."""

    def finished(self, node: str, path: Sequence[str]) -> None:
        """`path`: the graphs that contain the node, outermost first."""

    def used(self, message_id: str | None, prompt_tokens: int, completion_tokens: int, cost: float) -> None:
        """A model's answer, with its cost in dollars if known. The same message may be reported more than once."""

    async def before_write(self) -> None:
        """Called before a write: usage must be saved before the results that depend on it."""


@dataclass(frozen=True, slots=True)
class GraphThread:
    thread_id: str
    holder: Holder
    checkpoints: GraphStore
    listener: GraphListener
    limit_bytes: int
    """The limit for the state that one step adds."""


@runtime_checkable
class GraphExecutor(Protocol):
    """One graph. The result of a finished node is saved before the next node begins, and the node never runs again in the
    thread."""

    async def run(self, thread: GraphThread, input: Mapping[str, Any]) -> Reached:  # noqa: A002 - the users' word
        """Starts the graph, or resumes it at the thread's state, until it ends or has questions."""

    async def resume(self, thread: GraphThread, answers: Mapping[str, GraphAnswer]) -> Reached:
        """Resumes with the answers to all open questions, by question id."""


# -- graphs ------------------------------------------------------------------------------------
# The state of graphs: checkpoints, the values of their channels, and pending writes of tasks.
#
# A batch is passed in two parameters: texts as JSON, and all packed contents concatenated as bytes.


class GraphStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(
        self, checkpoints: Sequence[NewGraphCheckpoint], writes: Sequence[GraphWrite], holder: Holder | None = None
    ) -> None:
        """All of them in one transaction. Raises LeaseLost, and keeps nothing, when the holder was superseded."""
        await self._database.transact(lambda: _save(checkpoints, writes, holder))

    async def get(self, thread_id: str, namespace: str, checkpoint_id: str | None = None) -> GraphCheckpoint | None:
        """This one, or the newest."""
        if checkpoint_id is None:
            found = await self._database.read("graphs/latest", thread_id=thread_id, namespace=namespace)
        else:
            place = {"thread_id": thread_id, "namespace": namespace, "checkpoint_id": checkpoint_id}
            found = await self._database.read("graphs/get", **place)
        whole = await self._whole(thread_id, found)
        return whole[0] if whole else None

    async def page(self, query: GraphQuery, limit: int) -> list[GraphCheckpoint]:
        """Newest first."""
        found = await self._database.read(
            "graphs/list",
            thread_id=query.thread_id,
            namespace=query.namespace,
            checkpoint_id=query.checkpoint_id,
            before_id=query.before[0],
            before_namespace=query.before[1],
            filter=query.filter,
            limit=limit,
        )
        return await self._whole(query.thread_id, found)

    async def threads(self, after: str, limit: int) -> list[str]:
        return [row["thread_id"] for row in await self._database.read("graphs/threads", after=after, limit=limit)]

    async def delete_threads(self, thread_ids: Sequence[str]) -> None:
        await self._database.transact(lambda: _delete_threads(sorted({*thread_ids})))

    async def delete_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of these runs, and the values that only those use."""
        await self._database.transact(lambda: _delete_runs(sorted({*run_ids})))

    async def copy_thread(self, source_id: str, target_id: str) -> None:
        await self._database.transact(lambda: _copy(source_id, target_id))

    async def prune(self, thread_ids: Sequence[str]) -> None:
        """Keeps the newest checkpoint of each graph; every one of a graph that stores its state as differences."""
        await self._database.transact(lambda: _prune(sorted({*thread_ids})))

    async def _whole(self, thread_id: str, found: Sequence[Row]) -> list[GraphCheckpoint]:
        """With their values and writes, each read once for all of them."""
        if not found:
            return []
        versions = [(row["namespace"], *version) for row in found for version in loads(row["channels"]).items()]
        places = [(row["namespace"], row["checkpoint_id"]) for row in found]
        wanted = dumps(sorted({*versions}))
        values = await self._database.read("graphs/values", thread_id=thread_id, wanted=wanted) if versions else []
        writes = await self._database.read("graphs/writes", thread_id=thread_id, wanted=dumps(places))
        return [_checkpoint(row, values, [_write(thread_id, write) for write in writes]) for row in found]


def _save(checkpoints: Sequence[NewGraphCheckpoint], writes: Sequence[GraphWrite], holder: Holder | None) -> Transaction[None]:
    if holder is not None and not (yield from query("graphs/hold", job_id=holder.job_id, run_id=holder.run_id)):
        raise LeaseLost(holder.job_id, holder.run_id)
    values = [(checkpoint, channel) for checkpoint in checkpoints for channel in checkpoint.values]
    if values:
        batch = {_value_key(*value): value for value in reversed(values)}  # Of equal versions the first one stays.
        yield from query("graphs/add_values", **_batch(batch, (one.values[channel] for one, channel in batch.values())))
    if checkpoints:
        yield from _add_checkpoints(checkpoints)
    if writes:
        yield from _add_writes(writes)


def _value_key(checkpoint: NewGraphCheckpoint, channel: str) -> tuple[str, ...]:
    return checkpoint.thread_id, checkpoint.namespace, channel, checkpoint.channels[channel]


def _add_checkpoints(checkpoints: Sequence[NewGraphCheckpoint]) -> Transaction[None]:
    last = {(one.thread_id, one.namespace, one.checkpoint_id): one for one in checkpoints}
    batch = {(*key, one.parent_id, one.run_id): one for key, one in last.items()}
    rest = [(dumps(dict(one.channels)), one.metadata) for one in batch.values()]
    yield from query("graphs/add_checkpoints", **_batch(batch, (one.body for one in batch.values()), rest))


def _add_writes(writes: Sequence[GraphWrite]) -> Transaction[None]:
    kept: dict[tuple[Any, ...], GraphWrite] = {}
    for write in writes:
        key = (write.thread_id, write.namespace, write.checkpoint_id, write.task_id, write.place)
        if write.place < 0 or key not in kept:
            kept[key] = write
    batch = [(*key, write.channel, write.task_path) for key, write in kept.items()]
    yield from query("graphs/add_writes", **_batch(batch, (write.packed for write in kept.values())))


def _batch(
    keys: Iterable[tuple[Any, ...]], contents: Iterable[Packed], documents: Sequence[tuple[str, ...]] | None = None
) -> dict[str, Any]:
    """For each row: key, encoding, start (from 1) and length of its content, and its JSON documents."""
    rows, parts, begin = [], [], 1
    for place, (key, packed) in enumerate(zip(keys, contents, strict=True)):
        texts = documents[place] if documents else ()
        rows.append([*key, packed.kind, begin, len(packed.content), *map(embedded, texts)])
        parts.append(packed.content)
        begin += len(packed.content)
    return {"batch": dumps(rows), "contents": b"".join(parts)}


def _delete_threads(thread_ids: Sequence[str]) -> Transaction[None]:
    for thread_id in thread_ids:
        for statement in ("graphs/delete_checkpoints", "graphs/delete_writes", "graphs/delete_values"):
            yield from query(statement, thread_id=thread_id)


def _delete_runs(run_ids: Sequence[str]) -> Transaction[None]:
    threads: set[str] = set()
    for run_id in run_ids:
        threads |= {row["thread_id"] for row in (yield from query("graphs/delete_run", run_id=run_id))}
    yield from _sweep(sorted(threads))


def _prune(thread_ids: Sequence[str]) -> Transaction[None]:
    for thread_id in thread_ids:
        yield from query("graphs/prune", thread_id=thread_id)
    yield from _sweep(thread_ids)


def _sweep(thread_ids: Sequence[str]) -> Transaction[None]:
    for thread_id in thread_ids:
        yield from query("graphs/sweep_writes", thread_id=thread_id)
        yield from query("graphs/sweep_values", thread_id=thread_id)


def _copy(source_id: str, target_id: str) -> Transaction[None]:
    for statement in ("graphs/copy_checkpoints", "graphs/copy_values", "graphs/copy_writes"):
        yield from query(statement, source_id=source_id, target_id=target_id)


def _checkpoint(row: Row, values: Sequence[Row], writes: Sequence[GraphWrite]) -> GraphCheckpoint:
    namespace, versions = row["namespace"], loads(row["channels"])
    return GraphCheckpoint(
        thread_id=row["thread_id"],
        namespace=namespace,
        checkpoint_id=row["checkpoint_id"],
        parent_id=row["parent_id"],
        body=Packed(row["kind"], row["content"]),
        metadata=row["metadata"],
        values={
            value["channel"]: Packed(value["kind"], value["content"])
            for value in values
            if value["namespace"] == namespace and versions.get(value["channel"]) == value["version"]
        },
        writes=[write for write in writes if (write.namespace, write.checkpoint_id) == (namespace, row["checkpoint_id"])],
    )


def _write(thread_id: str, row: Row) -> GraphWrite:
    return GraphWrite(
        thread_id=thread_id,
        namespace=row["namespace"],
        checkpoint_id=row["checkpoint_id"],
        task_id=row["task_id"],
        place=row["place"],
        channel=row["channel"],
        task_path=row["task_path"],
        packed=Packed(row["kind"], row["content"]),
    )
