"""`plane.runs`: the executions of jobs. `await plane.runs(job_id)` lists those of one job, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_plane.core.jobs import JobId, Run
from cortex_plane.core.states import RunStatus
from cortex_plane.operations.find_run import find_run
from cortex_plane.operations.list_runs import list_runs

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class Runs:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def __call__(self, job_id: str) -> list[Run]:
        return await (await self._plane.store).jobs.runs(JobId(job_id))

    async def list(
        self,
        *,
        job: str | None = None,
        status: RunStatus | str | None = None,
        worker: str | None = None,
        limit: int = 50,
    ) -> list[Run]:
        """The newest first. Without a job, all that are RUNNING are found, and of the others those of the latest jobs."""
        return await list_runs(await self._plane.store, job=job, status=status, worker=worker, limit=limit)

    async def get(self, id_or_prefix: str, *, job: str | None = None) -> Run:
        """One run; with its job, however long ago it was."""
        return await find_run(await self._plane.store, id_or_prefix, job)
