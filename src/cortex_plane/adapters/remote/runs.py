"""Runs through a server, which knows without their job only those that have not ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cortex_plane.adapters.remote.ids import whole_id
from cortex_plane.adapters.remote.pages import LARGEST_PAGE, read_pages
from cortex_plane.adapters.remote.server import Server
from cortex_plane.core.errors import AmbiguousRun, InvalidInput, RunNotFound
from cortex_plane.core.jobs import Run
from cortex_plane.core.states import RunStatus
from cortex_plane.operations.list_runs import run_status_named
from cortex_plane.runs import Runs

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


OPEN_ONLY = "that has not ended. To find one that has, name its job too: --job ID"


class RemoteRuns(Runs):
    def __init__(self, plane: Plane, server: Server) -> None:
        super().__init__(plane)
        self._server = server

    async def __call__(self, job_id: str) -> list[Run]:
        return await self._server.get(list[Run], "jobs", job_id, "runs")

    async def list(
        self,
        *,
        job: str | None = None,
        status: RunStatus | str | None = None,
        worker: str | None = None,
        limit: int = 50,
    ) -> list[Run]:
        wanted = None if status is None else run_status_named(status)
        worker_id = None if worker is None else (await self._plane.workers.get(worker)).id
        if job is None and wanted not in {None, RunStatus.RUNNING}:
            raise InvalidInput(
                "Through a server, runs that have ended are found by their job only. Name it: --job ID", field="status"
            )
        runs = await self._of_job(job) if job is not None else await self._open(LARGEST_PAGE if worker_id else limit)
        fitting = [run for run in runs if wanted in {None, run.status} and worker_id in {None, run.worker_id}]
        return fitting[:limit]

    async def get(self, id_or_prefix: str, *, job: str | None = None) -> Run:
        beginning = id_or_prefix.strip().lower()
        runs = await self._of_job(job) if job is not None else await self._open(LARGEST_PAGE)
        found = [run for run in runs if run.id.startswith(beginning)]
        if len(found) > 1:
            raise AmbiguousRun(beginning, [run.id for run in found])
        if not found:
            raise RunNotFound(beginning, of_a_job=job is not None, otherwise=OPEN_ONLY)
        return found[0]

    async def _of_job(self, job: str) -> Sequence[Run]:
        return (await self(await whole_id(self._server, "job", job)))[::-1]

    async def _open(self, limit: int) -> Sequence[Run]:
        return await read_pages(self._server, Run, "runs", limit=limit)
