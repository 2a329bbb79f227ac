"""The queue, as workers see it: claim, finish, and what falls due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.core.checkpoints import Checkpoint
from cortex_plane.core.jobs import Claimed, JobId, RunId, TenantId, WorkerId
from cortex_plane.core.outcomes import BrokenJob, Transition
from cortex_plane.core.why import Standing
from cortex_plane.core.workers import actor_of
from cortex_plane.ports.json_text import dumps, embedded

Letter = TypeVar("Letter", Checkpoint, Transition)


class SqlQueue:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self, worker_id: WorkerId, queues: Sequence[str], job_types: Sequence[str], run_ids: Sequence[RunId]
    ) -> list[Claimed]:
        array = self._database.array
        found = await self._claimed_rows(
            worker_id=worker_id,
            actor=actor_of(worker_id),
            queues=array(dict.fromkeys(queues)),  # Naming one twice means it once.
            job_types=array(dict.fromkeys(job_types)),
            run_ids=array(run_ids),
        )
        # Run ids are handed out in queue order, so this restores it where RETURNING does not. A run that was taken over
        # keeps its own id, and comes in the place of the one that was given for it.
        place = {run_id: index for index, run_id in enumerate(run_ids)}
        return [rows.claimed(row) for row in sorted(found, key=lambda row: place[RunId(str(row["claimed_as"]))])]

    async def _claimed_rows(self, **values: Any) -> Sequence[Row]:
        return await self._database.write_once("queue/claim", **values)

    async def open_runs(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        found = await self._database.read("runs/open", worker_id=worker_id, run_ids=self._database.array(run_ids))
        return [rows.claimed(row) for row in found]

    async def finish(self, transitions: Sequence[Transition], actor: str) -> set[RunId]:
        applied: set[RunId] = set()
        for batch in one_for_each_job(transitions):
            write = self._database.write_small if len(batch) == 1 else self._database.write
            document = dumps([_as_json(transition) for transition in batch])
            applied |= runs_of(batch, await write("runs/finish", actor=actor, batch=document))
        return applied

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

    async def settle_stuck_keys(self) -> None:
        await self._database.write("queue/settle_stuck")

    async def next_due_in(self) -> float | None:
        found = await self._database.read("queue/next_due")
        return float(found[0]["seconds"]) if found else None

    async def standing(self, job_id: JobId) -> Standing | None:
        for row in await self._database.read("queue/place", id=job_id):
            return Standing(
                state=row["state"],
                due_at=rows.moment(row["due_at"]),
                ahead=row["ahead"],
                key_held_by=rows.text_or_none(row["key_held_by"]),
                key_next=rows.text_or_none(row["key_next"]),
            )
        return None

    async def running(self) -> list[tuple[str, str, TenantId, int]]:
        return [
            (row["queue"], row["job_type"], TenantId(str(row["tenant_id"])), row["runs"])
            for row in await self._database.read("queue/running")
        ]

    async def depths(self) -> dict[str, dict[str, int]]:
        depths: dict[str, dict[str, int]] = {}
        for row in await self._database.read("queue/depths"):
            depths.setdefault(row["queue"], {})[row["state"]] = row["entries"]
        return depths


def one_for_each_job(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """Batches in which no job stands twice, sorted, so that two batches lock their jobs in the same order.

    An answer names jobs. A superseded run and its successor in one batch would both be taken for applied."""
    rest = list(letters)
    if len(rest) == 1:
        yield rest
        return
    while rest:
        first: dict[JobId, Letter] = {}
        for letter in rest:
            first.setdefault(letter.job_id, letter)
        yield [first[job_id] for job_id in sorted(first)]
        rest = [letter for letter in rest if first[letter.job_id] is not letter]


def runs_of(batch: Sequence[Letter], found: Sequence[Row]) -> set[RunId]:
    """Of a batch, the runs of the jobs that came back."""
    jobs = {str(row["id"]) for row in found}
    return {letter.run_id for letter in batch if letter.job_id in jobs}


def _as_json(transition: Transition) -> dict[str, Any]:
    """What is nothing is left out: most jobs complete, and every name would be read for each of them."""
    document = {
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
        "cost_cents": transition.cost_cents or None,
        "cause": transition.cause,
        "note": transition.note,
        "checkpoint": transition.checkpoint,
        "checkpoint_id": transition.checkpoint_id,
    }
    return {name: value for name, value in document.items() if value is not None}
