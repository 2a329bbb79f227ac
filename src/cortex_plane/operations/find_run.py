"""Finds a run by its id, or by the first part of one; with its job, however long ago it was."""

from __future__ import annotations

from cortex_plane.core.errors import AmbiguousRun, InvalidInput, RunNotFound
from cortex_plane.core.jobs import Run, RunId
from cortex_plane.operations.find_job import DASHES, PART_OF_AN_ID, find_job_id
from cortex_plane.ports.store import Store


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
