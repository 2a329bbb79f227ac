"""Submits jobs of which some have a key: a key belongs to the last job that was submitted with it.

replace            the holder is cancelled if it is still PENDING, and the new job takes the key
preserve_run_at    the same, and the new job keeps the time for which the holder was planned
unsafe_dedupe      while the holder has not ended, no new job is made: its id is the answer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Row
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.adapters.storage.submissions import submit
from cortex_plane.core.instants import instant
from cortex_plane.core.jobs import JobId, NewJob
from cortex_plane.core.states import TERMINAL, JobStatus
from cortex_plane.ports.json_text import dumps


def submit_keyed(jobs: Sequence[NewJob]) -> Script[list[JobId]]:
    ids: list[JobId] = []
    for job in jobs:
        ids.append((yield from _submit(job)))
    return ids


def _submit(job: NewJob) -> Script[JobId]:
    if job.job_key is not None:
        [taken] = yield from ask("keys/take", tenant_id=job.tenant_id, job_key=job.job_key, job_id=job.id)
        holder = JobId(str(taken["job_id"]))
        if holder != job.id:
            if (yield from ask("jobs/status", id=job.id)):
                return job.id  # It was submitted before, and has lost its key to another since.
            found = yield from ask("keys/holder", id=holder)
            if found and job.key_mode == "unsafe_dedupe" and JobStatus(found[0]["status"]) not in TERMINAL:
                return holder
            job = yield from _take_over(job, holder, found)
    yield from submit([job])
    return job.id


def _take_over(job: NewJob, holder: JobId, found: Sequence[Row]) -> Script[NewJob]:
    yield from ask("keys/give", tenant_id=job.tenant_id, job_key=job.job_key, job_id=job.id)
    if not found or found[0]["status"] != JobStatus.PENDING:
        return job
    reason = dumps({"reason": f"replaced by {job.id}"})
    replaced = yield from ask("jobs/cancel", id=holder, cause="replace", actor=job.created_by, note=reason, revision=None)
    if replaced and job.key_mode == "preserve_run_at" and found[0]["run_at"] is not None:
        return replace(job, run_at=instant(rows.moment(found[0]["run_at"])), delay_seconds=None)
    return job
