"""Stores checkpoints, results by reference, sealed segments and held jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cortex_plane.durable.schema import Blob, Checkpoint, Hold, StoredCheckpoint
from cortex_plane.jobs.model import AgentId, JobId, RunId
from cortex_plane.jobs.queue_store import one_for_each_job, runs_of
from cortex_plane.json import dumps, loads
from cortex_plane.storage import rows
from cortex_plane.storage.rows import NO_DIGITS
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.audit.model import AuditEntry
    from cortex_plane.storage.database import Database, Row


class CheckpointStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, checkpoints: Sequence[Checkpoint]) -> set[RunId]:
        """Saves checkpoints with their blobs and costs, in one transaction, and returns the runs whose checkpoint was saved.
        A checkpoint is saved only if its run is open and its predecessor is the job's current checkpoint. Idempotent."""
        saved: set[RunId] = set()
        for batch in one_for_each_job(checkpoints):
            saved |= runs_of(batch, await self._saved_rows(batch))
        return saved

    async def _saved_rows(self, batch: Sequence[Checkpoint]) -> Sequence[Row]:
        if len(batch) == 1 and not batch[0].blobs and self._database.bounds_waits:
            return await self._saved_row(batch[0])
        blobs = [(checkpoint.job_id, blob) for checkpoint in batch for blob in checkpoint.blobs]
        return await self._database.write_batch(
            "checkpoints/save",
            job_ids=[checkpoint.job_id for checkpoint in batch],
            run_ids=[checkpoint.run_id for checkpoint in batch],
            ids=[checkpoint.checkpoint_id for checkpoint in batch],
            previous_ids=[checkpoint.previous_id for checkpoint in batch],
            documents=[checkpoint.document for checkpoint in batch],
            costs=[checkpoint.cost_cents for checkpoint in batch],
            blob_job_ids=[job_id for job_id, _ in blobs],
            blob_digests=[blob.sha256 for _, blob in blobs],
            blob_contents=[blob.content for _, blob in blobs],
            blob_seqs=[blob.seq for _, blob in blobs],
        )

    async def _saved_row(self, checkpoint: Checkpoint) -> Sequence[Row]:
        """An agent that is alone waits for this: the way of a batch is longer."""
        return await self._database.write_small(
            "checkpoints/save_one",
            job_id=checkpoint.job_id,
            run_id=checkpoint.run_id,
            id=checkpoint.checkpoint_id,
            previous_id=checkpoint.previous_id,
            document=checkpoint.document,
            cost_cents=checkpoint.cost_cents,
        )

    async def load(self, job_id: JobId, after_segment: int = 0) -> StoredCheckpoint | None:
        """The checkpoint with its segments, or only the segments after a given one. None if the job or its checkpoint does
        not exist."""
        found = await self._database.read("checkpoints/load", job_id=job_id, after_segment=after_segment)
        return _stored(found[0], _segments(found[0]["segments"])) if found else None

    async def blobs(self, job_id: JobId, digests: Sequence[str]) -> dict[str, str]:
        """The contents that are there, by their digests."""
        if not digests:
            return {}
        found = await self._database.read("checkpoints/blobs", job_id=job_id, digests=self._database.array(digests))
        return {row["sha256"]: row["content"] for row in found}

    async def live(self, after: JobId | None, limit: int) -> list[StoredCheckpoint]:
        """The checkpoints of live jobs in the order of job ids, without their segments."""
        found = await self._database.read("checkpoints/live", after=after or NO_DIGITS, limit=limit)
        return [_stored(row) for row in found]


def _stored(row: Row, segments: tuple[Blob, ...] | None = None) -> StoredCheckpoint:
    return StoredCheckpoint(
        job_id=JobId(str(row["id"])),
        agent_id=AgentId(str(row["agent_id"])),
        job_type=row["job_type"],
        checkpoint_id=rows.text_or_none(row["checkpoint_id"]),
        document=row["checkpoint"],
        segments=segments,
        hold=_hold(row),
    )


def _hold(row: Row) -> Hold | None:
    if row.get("hold_codes") is None:
        return None
    codes, offered = loads(row["hold_codes"]), loads(row["hold_offered"])
    return Hold(frozenset(codes), bool(offered), row["handed_back"], rows.json_or_none(row["hold_error"]))


def _segments(found: str | None) -> tuple[Blob, ...]:
    listed = sorted(loads(found), key=lambda row: int(row[0])) if found else []
    return tuple(Blob(sha256, content, seq) for seq, sha256, content in listed)


# -- checkpoints -------------------------------------------------------------------------------
# Saving checkpoints on SQLite: one statement for a batch, and one for its large results, in one transaction.
#
# The writer's thread runs no Python for each of them: that would be taken from the thread in which the handlers run.


Place = tuple[int, int]


class SqliteCheckpoints(CheckpointStore):
    async def _saved_rows(self, batch: Sequence[Checkpoint]) -> Sequence[Row]:
        if len(batch) == 1 and not batch[0].blobs:
            return await self._saved_row(batch[0])
        documents, places = _laid_out(checkpoint.document for checkpoint in batch)
        saves = dumps([_save(checkpoint, place) for checkpoint, place in zip(batch, places, strict=True)])
        blobs = [(checkpoint, blob) for checkpoint in batch for blob in checkpoint.blobs]
        contents, places = _laid_out(blob.content for _, blob in blobs)
        kept = [
            [checkpoint.job_id, checkpoint.checkpoint_id, blob.sha256, *place, blob.seq]
            for (checkpoint, blob), place in zip(blobs, places, strict=True)
        ]

        def script() -> Transaction[Sequence[Row]]:
            yield from query("checkpoints/save_batch", documents=documents, batch=saves)
            if kept:
                yield from query("checkpoints/add_blobs", contents=contents, batch=dumps(kept))
            [found] = yield from query("checkpoints/count_saved", batch=saves)
            if found["saved"] == len(batch):
                return [{"id": checkpoint.job_id} for checkpoint in batch]
            return (yield from query("checkpoints/which_saved", batch=saves))

        return await self._database.transact(script)


def _save(checkpoint: Checkpoint, place: Place) -> list[str | int | None]:
    return [
        checkpoint.job_id,
        checkpoint.run_id,
        checkpoint.checkpoint_id,
        checkpoint.previous_id,
        checkpoint.cost_cents,
        *place,
    ]


def _laid_out(texts: Iterable[str]) -> tuple[bytes, list[Place]]:
    """Concatenates all texts; returns the start (from 1) and length of each."""
    parts, places, begin = [], [], 1
    for text in texts:
        part = text.encode()
        parts.append(part)
        places.append((begin, len(part)))
        begin += len(part)
    return b"".join(parts), places


# -- holds -------------------------------------------------------------------------------------
# Jobs whose record does not fit the code: offered once to workers with other code, and released by operators.


class HoldStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def offer(self, codes: Mapping[str, str], limit: int) -> int:
        """One transaction for each job: with several in one, their locks could be waited for in a circle."""
        array = self._database.array
        found = await self._database.read(
            "holds/waiting", job_types=array(list(codes)), codes=array(list(codes.values())), limit=limit
        )
        return sum([await self._offer(JobId(str(row["job_id"])), row["code"]) for row in found])

    async def _offer(self, job_id: JobId, code: str) -> bool:
        return await self._database.transact(lambda: _offer(job_id, code))

    async def release(self, job_id: JobId, entry: AuditEntry) -> bool:
        """Makes a held job due for any code, including code that did not fit. False if it is not held."""
        return await self._database.transact(lambda: _release(job_id, entry))


def _offer(job_id: JobId, code: str) -> Transaction[bool]:
    """Only a job that was made due counts as offered; a job whose entry is locked is offered at the next pass."""
    if (yield from _make_due(job_id)):
        yield from query("holds/offer", job_id=job_id, code=code)
        return True
    return bool((yield from query("holds/forget", job_id=job_id, always=False)))


def _release(job_id: JobId, entry: AuditEntry) -> Transaction[bool]:
    if not (yield from _make_due(job_id)):
        return False
    yield from query("holds/forget", job_id=job_id, always=True)
    yield from query("audit/record", entries=dumps([entry.to_json()]))
    return True


def _make_due(job_id: JobId) -> Transaction[bool]:
    """False if a claim has taken the job, or if it is no longer held."""
    if not (yield from query("holds/lock_entry", job_id=job_id)):
        return False
    for row in (yield from query("holds/make_due", job_id=job_id)):
        yield from query("holds/make_entry_due", job_id=job_id, due_at=row["next_retry_at"])
        return True
    return False
