"""The state of graphs: checkpoints, the values of their channels, and what tasks have written since.

A batch goes in as two parameters: what is text as JSON, and all packed contents as bytes one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.errors import LeaseLost
from cortex_plane.core.graphs import GraphCheckpoint, GraphQuery, GraphWrite, Holder, NewGraphCheckpoint, Packed
from cortex_plane.ports.json_text import dumps, embedded, loads


class SqlGraphs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(
        self, checkpoints: Sequence[NewGraphCheckpoint], writes: Sequence[GraphWrite], holder: Holder | None = None
    ) -> None:
        await self._database.transact(lambda: _save(checkpoints, writes, holder))

    async def get(self, thread_id: str, namespace: str, checkpoint_id: str | None = None) -> GraphCheckpoint | None:
        if checkpoint_id is None:
            found = await self._database.read("graphs/latest", thread_id=thread_id, namespace=namespace)
        else:
            place = {"thread_id": thread_id, "namespace": namespace, "checkpoint_id": checkpoint_id}
            found = await self._database.read("graphs/get", **place)
        whole = await self._whole(thread_id, found)
        return whole[0] if whole else None

    async def page(self, query: GraphQuery, limit: int) -> list[GraphCheckpoint]:
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
        await self._database.transact(lambda: _delete_runs(sorted({*run_ids})))

    async def copy_thread(self, source_id: str, target_id: str) -> None:
        await self._database.transact(lambda: _copy(source_id, target_id))

    async def prune(self, thread_ids: Sequence[str]) -> None:
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


def _save(checkpoints: Sequence[NewGraphCheckpoint], writes: Sequence[GraphWrite], holder: Holder | None) -> Script[None]:
    if holder is not None and not (yield from ask("graphs/hold", job_id=holder.job_id, run_id=holder.run_id)):
        raise LeaseLost(holder.job_id, holder.run_id)
    values = [(checkpoint, channel) for checkpoint in checkpoints for channel in checkpoint.values]
    if values:
        batch = {_value_key(*value): value for value in reversed(values)}  # Of equal versions the first one stays.
        yield from ask("graphs/add_values", **_batch(batch, (one.values[channel] for one, channel in batch.values())))
    if checkpoints:
        yield from _add_checkpoints(checkpoints)
    if writes:
        yield from _add_writes(writes)


def _value_key(checkpoint: NewGraphCheckpoint, channel: str) -> tuple[str, ...]:
    return checkpoint.thread_id, checkpoint.namespace, channel, checkpoint.channels[channel]


def _add_checkpoints(checkpoints: Sequence[NewGraphCheckpoint]) -> Script[None]:
    last = {(one.thread_id, one.namespace, one.checkpoint_id): one for one in checkpoints}
    batch = {(*key, one.parent_id, one.run_id): one for key, one in last.items()}
    rest = [(dumps(dict(one.channels)), one.metadata) for one in batch.values()]
    yield from ask("graphs/add_checkpoints", **_batch(batch, (one.body for one in batch.values()), rest))


def _add_writes(writes: Sequence[GraphWrite]) -> Script[None]:
    kept: dict[tuple[Any, ...], GraphWrite] = {}
    for write in writes:
        key = (write.thread_id, write.namespace, write.checkpoint_id, write.task_id, write.place)
        if write.place < 0 or key not in kept:
            kept[key] = write
    batch = [(*key, write.channel, write.task_path) for key, write in kept.items()]
    yield from ask("graphs/add_writes", **_batch(batch, (write.packed for write in kept.values())))


def _batch(
    keys: Iterable[tuple[Any, ...]], contents: Iterable[Packed], documents: Sequence[tuple[str, ...]] | None = None
) -> dict[str, Any]:
    """Each row: its key, how its content is written, where that begins (from 1), how long it is, and its JSON documents."""
    rows, parts, begin = [], [], 1
    for place, (key, packed) in enumerate(zip(keys, contents, strict=True)):
        texts = documents[place] if documents else ()
        rows.append([*key, packed.kind, begin, len(packed.content), *map(embedded, texts)])
        parts.append(packed.content)
        begin += len(packed.content)
    return {"batch": dumps(rows), "contents": b"".join(parts)}


def _delete_threads(thread_ids: Sequence[str]) -> Script[None]:
    for thread_id in thread_ids:
        for statement in ("graphs/delete_checkpoints", "graphs/delete_writes", "graphs/delete_values"):
            yield from ask(statement, thread_id=thread_id)


def _delete_runs(run_ids: Sequence[str]) -> Script[None]:
    threads: set[str] = set()
    for run_id in run_ids:
        threads |= {row["thread_id"] for row in (yield from ask("graphs/delete_run", run_id=run_id))}
    yield from _sweep(sorted(threads))


def _prune(thread_ids: Sequence[str]) -> Script[None]:
    for thread_id in thread_ids:
        yield from ask("graphs/prune", thread_id=thread_id)
    yield from _sweep(thread_ids)


def _sweep(thread_ids: Sequence[str]) -> Script[None]:
    for thread_id in thread_ids:
        yield from ask("graphs/sweep_writes", thread_id=thread_id)
        yield from ask("graphs/sweep_values", thread_id=thread_id)


def _copy(source_id: str, target_id: str) -> Script[None]:
    for statement in ("graphs/copy_checkpoints", "graphs/copy_values", "graphs/copy_writes"):
        yield from ask(statement, source_id=source_id, target_id=target_id)


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
