"""Checkpoints: written by the run that holds the job, read by whoever goes on with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.jobs import NO_DIGITS
from cortex_plane.adapters.storage.queue import one_for_each_job, runs_of
from cortex_plane.core.checkpoints import Checkpoint, StoredCheckpoint
from cortex_plane.core.jobs import AgentId, JobId, RunId


class SqlCheckpoints:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, checkpoints: Sequence[Checkpoint]) -> set[RunId]:
        saved: set[RunId] = set()
        for batch in one_for_each_job(checkpoints):
            saved |= runs_of(batch, await self._saved_rows(batch))
        return saved

    async def _saved_rows(self, batch: Sequence[Checkpoint]) -> Sequence[Row]:
        if len(batch) == 1 and not batch[0].blobs:
            return await self._saved_row(batch[0])
        blobs = [(checkpoint.job_id, blob) for checkpoint in batch for blob in checkpoint.blobs]
        return await self._database.write(
            "checkpoints/save",
            job_ids=[checkpoint.job_id for checkpoint in batch],
            run_ids=[checkpoint.run_id for checkpoint in batch],
            ids=[checkpoint.checkpoint_id for checkpoint in batch],
            previous_ids=[checkpoint.previous_id for checkpoint in batch],
            documents=[checkpoint.whole for checkpoint in batch],
            added=[checkpoint.added for checkpoint in batch],
            costs=[checkpoint.cost_cents for checkpoint in batch],
            blob_job_ids=[job_id for job_id, _ in blobs],
            blob_digests=[blob.sha256 for _, blob in blobs],
            blob_contents=[blob.content for _, blob in blobs],
        )

    async def _saved_row(self, checkpoint: Checkpoint) -> Sequence[Row]:
        """An agent that is alone waits for this: the way of a batch is longer."""
        fence: dict[str, Any] = {
            "job_id": checkpoint.job_id,
            "run_id": checkpoint.run_id,
            "id": checkpoint.checkpoint_id,
            "previous_id": checkpoint.previous_id,
            "cost_cents": checkpoint.cost_cents,
        }
        if checkpoint.added is None:
            return await self._database.write_small("checkpoints/save_one", document=self._in_row(checkpoint), **fence)
        return await self._database.write_small("checkpoints/save_added", added=self._in_row(checkpoint), **fence)

    def _in_row(self, checkpoint: Checkpoint) -> str:
        """What of it is written, as it is to stand there."""
        return checkpoint.added or checkpoint.document

    async def load(self, job_id: JobId) -> StoredCheckpoint | None:
        found = await self._database.read("checkpoints/load", job_id=job_id)
        return _stored(found[0]) if found else None

    async def blobs(self, job_id: JobId, digests: Sequence[str]) -> dict[str, str]:
        if not digests:
            return {}
        found = await self._database.read("checkpoints/blobs", job_id=job_id, digests=self._database.array(digests))
        return {row["sha256"]: row["content"] for row in found}

    async def live(self, after: JobId | None, limit: int) -> list[StoredCheckpoint]:
        found = await self._database.read("checkpoints/live", after=after or NO_DIGITS, limit=limit)
        return [_stored(row) for row in found]


def _stored(row: Row) -> StoredCheckpoint:
    return StoredCheckpoint(
        job_id=JobId(str(row["id"])),
        agent_id=AgentId(str(row["agent_id"])),
        job_type=row["job_type"],
        checkpoint_id=rows.text_or_none(row["checkpoint_id"]),
        document=row["checkpoint"],
        added=row["checkpoint_added"],
    )
