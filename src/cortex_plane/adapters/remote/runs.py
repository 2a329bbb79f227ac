"""Runs through a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cortex_plane.adapters.remote.ids import whole_id
from cortex_plane.adapters.remote.pages import read_pages
from cortex_plane.adapters.remote.server import Server
from cortex_plane.core.errors import AmbiguousRun, RunNotFound
from cortex_plane.core.jobs import Run
from cortex_plane.core.states import RunStatus
from cortex_plane.operations.list_runs import run_status_named
from cortex_plane.runs import Runs

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


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
        if job is None:
            return await read_pages(self._server, Run, "runs", limit=limit, status=wanted, worker=worker_id)
        runs = await self._of_job(job)
        fitting = [run for run in runs if wanted in {None, run.status} and worker_id in {None, run.worker_id}]
        return fitting[:limit]

    async def get(self, id_or_prefix: str, *, job: str | None = None) -> Run:
        if job is None:
            return await self._server.get(Run, "runs", await whole_id(self._server, "run", id_or_prefix))
        beginning = id_or_prefix.strip().lower()
        found = [run for run in await self._of_job(job) if run.id.startswith(beginning)]
        if len(found) > 1:
            raise AmbiguousRun(beginning, [run.id for run in found])
        if not found:
            raise RunNotFound(beginning, of_a_job=True)
        return found[0]

    async def _of_job(self, job: str) -> Sequence[Run]:
        return (await self(await whole_id(self._server, "job", job)))[::-1]
