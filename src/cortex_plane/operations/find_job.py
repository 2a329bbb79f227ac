"""Finds a job by its id, or by the first part of one, as people type it."""

from __future__ import annotations

import re

from cortex_plane.core.errors import AmbiguousJob, InvalidInput, JobNotFound
from cortex_plane.core.jobs import Job, JobId
from cortex_plane.ports.store import Store

PART_OF_AN_ID = re.compile(r"[0-9a-f-]{4,36}")
ID_LENGTH = 36
DASHES = (8, 13, 18, 23)


async def find_job(store: Store, id_or_prefix: str) -> Job:
    job_id = await find_job_id(store, id_or_prefix)
    job = await store.jobs.get(job_id)
    if job is None:
        raise JobNotFound(job_id)
    return job


async def find_job_id(store: Store, id_or_prefix: str) -> JobId:
    prefix = id_or_prefix.strip().lower()
    if not PART_OF_AN_ID.fullmatch(prefix) or any((char == "-") != (place in DASHES) for place, char in enumerate(prefix)):
        raise InvalidInput(f"{id_or_prefix!r:.60} is not a job id, nor the first four or more characters of one.", field="id")
    if len(prefix) == ID_LENGTH:
        return JobId(prefix)
    found = await store.jobs.find(prefix)
    if not found:
        raise JobNotFound(prefix)
    if len(found) > 1:
        raise AmbiguousJob(prefix, found)
    return found[0]
