"""Saving checkpoints on SQLite: one statement for a batch, and one for its large results, in one transaction.

The writer's thread runs no Python for each of them: that would be taken from the thread in which the handlers run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cortex_plane.adapters.storage.checkpoints import SqlCheckpoints
from cortex_plane.adapters.storage.database import Row
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.checkpoints import Checkpoint
from cortex_plane.ports.json_text import dumps

Place = tuple[int, int]


EVEN_LENGTH = 3072


class SqliteCheckpoints(SqlCheckpoints):
    async def _saved_rows(self, batch: Sequence[Checkpoint]) -> Sequence[Row]:
        if len(batch) == 1 and not batch[0].blobs:
            return await self._saved_row(batch[0])
        documents, places = _laid_out(checkpoint.added or checkpoint.document for checkpoint in batch)
        saves = dumps([_save(checkpoint, place) for checkpoint, place in zip(batch, places, strict=True)])
        blobs = [(checkpoint, blob) for checkpoint in batch for blob in checkpoint.blobs]
        contents, places = _laid_out(blob.content for _, blob in blobs)
        kept = [
            [checkpoint.job_id, checkpoint.checkpoint_id, blob.sha256, *place]
            for (checkpoint, blob), place in zip(blobs, places, strict=True)
        ]

        def script() -> Script[Sequence[Row]]:
            yield from ask("checkpoints/save_batch", documents=documents, batch=saves)
            if kept:
                yield from ask("checkpoints/add_blobs", contents=contents, batch=dumps(kept))
            [found] = yield from ask("checkpoints/count_saved", batch=saves)
            if found["saved"] == len(batch):
                return [{"id": checkpoint.job_id} for checkpoint in batch]
            return (yield from ask("checkpoints/which_saved", batch=saves))

        return await self._database.transact(script)

    def _in_row(self, checkpoint: Checkpoint) -> str:
        """With spaces at its end: of a long row that keeps its length, only the pages that differ are written."""
        text = super()._in_row(checkpoint)
        return text.ljust(-(-len(text) // EVEN_LENGTH) * EVEN_LENGTH) if len(checkpoint.document) > EVEN_LENGTH else text


def _save(checkpoint: Checkpoint, place: Place) -> list[str | int | None]:
    return [
        checkpoint.job_id,
        checkpoint.run_id,
        checkpoint.checkpoint_id,
        checkpoint.previous_id,
        checkpoint.cost_cents,
        *place,
        checkpoint.added is not None,
    ]


def _laid_out(texts: Iterable[str]) -> tuple[bytes, list[Place]]:
    """All texts one after the other, and where each of them begins (from 1) and how long it is."""
    parts, places, begin = [], [], 1
    for text in texts:
        part = text.encode()
        parts.append(part)
        places.append((begin, len(part)))
        begin += len(part)
    return b"".join(parts), places
