"""The queue, as workers see it: claim, finish, and what falls due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.core.jobs import Claimed, JobId, RunId, WorkerId
from cortex_plane.core.outcomes import BrokenJob, Checkpoint, Transition
from cortex_plane.core.workers import actor_of
from cortex_plane.ports.json_text import dumps, embedded


class SqlQueue:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self, worker_id: WorkerId, queues: Sequence[str], job_types: Sequence[str], run_ids: Sequence[RunId]
    ) -> list[Claimed]:
        array = self._database.array
        found = await self._database.write_once(
            "queue/claim",
            worker_id=worker_id,
            actor=actor_of(worker_id),
            queues=array(queues),
            job_types=array(job_types),
            run_ids=array(run_ids),
        )
        taken = [rows.claimed(row) for row in found]
        # Run ids are handed out in queue order, so this restores it where RETURNING does not.
        place = {run_id: index for index, run_id in enumerate(run_ids)}
        return sorted(taken, key=lambda claimed: place[claimed.run_id])

    async def open_runs(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        found = await self._database.read("runs/open", worker_id=worker_id, run_ids=self._database.array(run_ids))
        return [rows.claimed(row) for row in found]

    async def finish(self, transitions: Sequence[Transition], actor: str) -> set[RunId]:
        # Sorted, so that two batches lock their jobs in the same order.
        in_order = sorted(transitions, key=lambda transition: transition.job_id)
        batch = dumps([_as_json(transition) for transition in in_order])
        applied = {str(row["id"]) for row in await self._database.write("runs/finish", actor=actor, batch=batch)}
        return {transition.run_id for transition in in_order if transition.job_id in applied}

    async def save_checkpoints(self, checkpoints: Sequence[Checkpoint]) -> set[RunId]:
        in_order = sorted(checkpoints, key=lambda checkpoint: checkpoint.job_id)
        batch = dumps([{"job_id": c.job_id, "run_id": c.run_id, "checkpoint": embedded(c.document)} for c in in_order])
        applied = {str(row["id"]) for row in await self._database.write("runs/checkpoint", batch=batch)}
        return {checkpoint.run_id for checkpoint in in_order if checkpoint.job_id in applied}

    async def closed_runs(self, runs: Sequence[tuple[JobId, RunId]]) -> dict[RunId, str | None]:
        found = await self._database.read(
            "runs/closed",
            job_ids=self._database.array(job_id for job_id, _ in runs),
            run_ids=self._database.array(run_id for _, run_id in runs),
        )
        return {RunId(str(row["run_id"])): row["closed_by"] for row in found}

    async def broken_jobs(self, limit: int) -> list[BrokenJob]:
        return [rows.broken_job(row) for row in await self._database.read("runs/broken", limit=limit)]

    async def open_missing_run(self, job_id: JobId) -> None:
        await self._database.write("runs/open_missing", id=job_id)

    async def promote_due(self, limit: int) -> int:
        return sum(row["promoted"] for row in await self._database.write("queue/promote_due", limit=limit))

    async def next_due_in(self) -> float | None:
        found = await self._database.read("queue/next_due")
        return float(found[0]["seconds"]) if found else None

    async def depths(self) -> dict[str, dict[str, int]]:
        depths: dict[str, dict[str, int]] = {}
        for row in await self._database.read("queue/depths"):
            depths.setdefault(row["queue"], {})[row["state"]] = row["entries"]
        return depths


def _as_json(transition: Transition) -> dict[str, Any]:
    return {
        "job_id": transition.job_id,
        "run_id": transition.run_id,
        "status": transition.status,
        "output": None if transition.output is None else embedded(transition.output),
        "error": transition.error,
        "error_message": transition.error_message,
        "wait_reason": transition.wait_reason,
        "delay_seconds": transition.delay_seconds,
        "retry_count": transition.retry_count,
        "crash_count": transition.crash_count,
        "cause": transition.cause,
        "note": transition.note,
    }
