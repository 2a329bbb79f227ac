"""`plane.runs`: the runs of jobs, and their store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cortex_plane.errors import AmbiguousRun, InvalidInput, RunNotFound, did_you_mean
from cortex_plane.ids import DASHES, PART_OF_AN_ID
from cortex_plane.jobs.lookup import find_job, find_job_id
from cortex_plane.jobs.model import JobId, Run, RunId, RunPage, RunPlace, TenantId, WorkerId
from cortex_plane.jobs.states import RunStatus
from cortex_plane.storage import rows
from cortex_plane.storage.rows import LOOKED_AT, NEWER_THAN_ALL, NO_DIGITS
from cortex_plane.worker.service import find_worker

if TYPE_CHECKING:
    from cortex_plane.plane import Plane
    from cortex_plane.storage.database import Database
    from cortex_plane.stores import Store


async def find_run(store: Store, id_or_prefix: str, job: str | None = None) -> Run:
    prefix = id_or_prefix.strip().lower()
    if not PART_OF_AN_ID.fullmatch(prefix) or any((char == "-") != (place in DASHES) for place, char in enumerate(prefix)):
        raise InvalidInput(
            f"{id_or_prefix!r:.60} is not the id of a run, nor the first four or more characters of one.", field="id"
        )
    if job is None:
        found = await store.runs.find(prefix)
    else:
        runs = await store.jobs.runs(await find_job_id(store, job))
        found = [(run.job_id, run.id) for run in runs if run.id.startswith(prefix)]
    if len(found) > 1:
        raise AmbiguousRun(prefix, [run_id for _, run_id in found])
    for job_id, run_id in found:
        if run := await store.runs.get(job_id, RunId(run_id)):
            return run
    raise RunNotFound(prefix, of_a_job=job is not None)


# -- list runs ---------------------------------------------------------------------------------
# Lists runs: of one job, of one worker, of one status, or simply the newest.


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


# -- runs --------------------------------------------------------------------------------------
# `plane.runs`: list and find runs. Those of one job, in order: `await plane.jobs.runs(job_id)`.


class RunService:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def list(
        self,
        *,
        job: str | None = None,
        status: RunStatus | str | None = None,
        worker: str | None = None,
        limit: int = 50,
    ) -> list[Run]:
        """The newest first. Without a job, all that are RUNNING are found, and of the others those of the latest jobs."""
        return await list_runs(self._plane.store, job=job, status=status, worker=worker, limit=limit)

    async def get(self, id_or_prefix: str, *, job: str | None = None) -> Run:
        """One run; with its job, however long ago it was."""
        return await find_run(self._plane.store, id_or_prefix, job)


# -- runs --------------------------------------------------------------------------------------
# Runs, one by one and a page at a time: places come from the index, a batch at a time, and the rest is asked of those.


BATCH = 500
NEWEST = RunPlace(JobId(NEWER_THAN_ALL), RunId(NEWER_THAN_ALL))


class RunStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, job_id: JobId, run_id: RunId) -> Run | None:
        found = await self._database.read("runs/get", job_id=job_id, id=run_id)
        return rows.run(found[0]) if found else None

    async def trace(self, job_id: JobId) -> tuple[str | None, str | None]:
        """What was kept of the trace that a job belongs to, and of that of the job that it retries."""
        for row in await self._database.read("runs/trace", id=job_id):
            return row["trace_id"], row["retried"]
        return None, None

    async def find(self, prefix: str, tenant_id: TenantId | None = None) -> list[tuple[JobId, RunId]]:
        """At most five whose ids begin with the prefix: of those that are open, and of the newest 10,000."""
        low, high = prefix + NO_DIGITS[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        found = await self._database.read(
            "runs/find", low=low, high=high, before=NEWER_THAN_ALL, looked_at=LOOKED_AT, tenant_id=tenant_id
        )
        return [(JobId(str(row["job_id"])), RunId(str(row["id"]))) for row in found]

    async def page(
        self,
        *,
        tenant_id: TenantId | None = None,
        status: RunStatus | None = None,
        worker_id: WorkerId | None = None,
        before: RunPlace | None = None,
        limit: int = 50,
    ) -> RunPage:
        """Those of the newest jobs first, without the plane's own. Those that are RUNNING come in their own order,
        newest first; for others 10,000 are looked at for a page, which may be short and still have a next one."""
        wanted = {"tenant_id": tenant_id, "worker_id": worker_id}
        if status is RunStatus.RUNNING:
            return await self._open(before or NEWEST, limit, wanted)
        return await self._any(before or NEWEST, limit, {**wanted, "status": status})

    async def _open(self, before: RunPlace, limit: int, wanted: dict[str, Any]) -> RunPage:
        read = await self._database.read("runs/list_open", before=before.run_id, limit=limit, **wanted)
        found = [rows.run(row) for row in read]
        return RunPage(found, _place(found[-1]) if len(found) == limit else None)

    async def _any(self, before: RunPlace, limit: int, wanted: dict[str, Any]) -> RunPage:
        found: list[Run] = []
        looked, batch = 0, min(2 * limit, BATCH)  # Mostly, nearly all of the newest fit.
        while looked < LOOKED_AT:
            places = await self._places(before, batch)
            found += await self._pick(before, places, limit - len(found), wanted)
            if len(found) == limit:
                more = len(places) == batch or _place(found[-1]) != places[-1]
                return RunPage(found, _place(found[-1]) if more else None)
            if len(places) < batch:
                return RunPage(found, None)
            before, looked, batch = places[-1], looked + batch, BATCH
        return RunPage(found, before)

    async def _places(self, before: RunPlace, limit: int) -> list[RunPlace]:
        read = await self._database.read("runs/places", job_id=before.job_id, id=before.run_id, limit=limit)
        return [RunPlace(JobId(str(row["job_id"])), RunId(str(row["id"]))) for row in read]

    async def _pick(self, before: RunPlace, places: list[RunPlace], limit: int, wanted: dict[str, Any]) -> list[Run]:
        if not places:
            return []
        first = {"before_job_id": before.job_id, "before_id": before.run_id}
        last = {"last_job_id": places[-1].job_id, "last_id": places[-1].run_id}
        return [rows.run(row) for row in await self._database.read("runs/pick", limit=limit, **first, **last, **wanted)]


def _place(run: Run) -> RunPlace:
    return RunPlace(run.job_id, run.id)
