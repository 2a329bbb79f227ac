"""Lists runs: of one job, of one worker, of one status, or simply the newest."""

from __future__ import annotations

from cortex_plane.core.errors import InvalidInput, did_you_mean
from cortex_plane.core.jobs import Run
from cortex_plane.core.states import RunStatus
from cortex_plane.operations.find_job import find_job
from cortex_plane.operations.find_worker import find_worker
from cortex_plane.ports.store import Store


async def list_runs(
    store: Store, *, job: str | None = None, status: RunStatus | str | None = None, worker: str | None = None, limit: int = 50
) -> list[Run]:
    """The newest first. Without a job, only runs of the latest jobs are looked at, and all that are RUNNING."""
    wanted = None if status is None else run_status_named(status)
    worker_id = None if worker is None else (await find_worker(store, worker)).id
    if job is None:
        return (await store.runs.page(status=wanted, worker_id=worker_id, limit=limit)).runs
    runs = await store.jobs.runs((await find_job(store, job)).id)
    fitting = [run for run in runs if wanted in {None, run.status} and worker_id in {None, run.worker_id}]
    return fitting[::-1][:limit]


def run_status_named(text: str) -> RunStatus:
    name = text.strip().upper()
    if name not in RunStatus.__members__:
        known = [status.lower() for status in RunStatus]
        raise InvalidInput(
            f'"{text}" is not a status of runs.{did_you_mean(text.lower(), known)} There are: {", ".join(known)}.',
            field="status",
        )
    return RunStatus[name]
