"""Saving checkpoints on SQLite: one by one in the writer's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.adapters.storage.checkpoints import SqlCheckpoints
from cortex_plane.adapters.storage.database import Row
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.checkpoints import Checkpoint


class SqliteCheckpoints(SqlCheckpoints):
    async def _saved_rows(self, batch: Sequence[Checkpoint]) -> Sequence[Row]:
        return await self._database.transact(lambda: _save(batch))


def _save(batch: Sequence[Checkpoint]) -> Script[Sequence[Row]]:
    saved: list[Row] = []
    for checkpoint in batch:
        found = yield from ask(
            "checkpoints/save_one",
            job_id=checkpoint.job_id,
            run_id=checkpoint.run_id,
            id=checkpoint.checkpoint_id,
            previous_id=checkpoint.previous_id,
            document=checkpoint.document,
            cost_cents=checkpoint.cost_cents,
        )
        if found:
            saved += found
            yield from _keep_blobs(checkpoint)
    return saved


def _keep_blobs(checkpoint: Checkpoint) -> Script[None]:
    for blob in checkpoint.blobs:
        yield from ask("checkpoints/add_blob", job_id=checkpoint.job_id, digest=blob.sha256, content=blob.content)
