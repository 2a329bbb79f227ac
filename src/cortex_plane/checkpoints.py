"""`plane.checkpoints`: look at what is recorded of jobs, check it, try migrations on it, fork and replay."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cortex_plane.core.checkpoints import StoredCheckpoint
from cortex_plane.core.errors import CheckpointCorrupted, InvalidInput
from cortex_plane.core.jobs import BornWith, JobId
from cortex_plane.handles import JobHandle
from cortex_plane.operations.check_budgets import check_budgets
from cortex_plane.operations.find_job import find_job
from cortex_plane.operations.submit_jobs import Submission, checked
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store
from cortex_plane.runtime.durable.forking import forked
from cortex_plane.runtime.durable.loading import Blob, blob_digests, check_blobs, checked_blob, journal_from
from cortex_plane.runtime.durable.replaying import Replay, replay

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

PAGE = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look at one job's checkpoint found. `problem` is None when a worker could resume from it."""

    job_id: JobId
    agent: str
    steps: int
    size_bytes: int
    problem: str | None = None
    kind: str | None = None


class CheckpointsOfPlane:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of checkpoints."""
        schema: dict[str, Any] = json.loads((files("cortex_plane") / "schemas" / "checkpoint-v1.json").read_text())
        return schema

    async def get(self, id_or_prefix: str) -> Blob:
        """A job's checkpoint, checked, with large results left out. Raises CheckpointCorrupted when it is damaged."""
        store = await self._plane.store
        return checked_blob(await _stored(store, (await find_job(store, id_or_prefix)).id))

    async def verify(self) -> AsyncIterator[Finding]:
        """Looks at the checkpoint of every job that has not ended."""
        store = await self._plane.store
        async for stored in _live(store):
            yield await _found(store, stored, None)

    async def try_migrations(self) -> AsyncIterator[Finding]:
        """What resuming each live job with this code would run into: the platform's migrations, the agent's own, renamed steps.
        Nothing is changed: a job is migrated when it is resumed. Jobs of agents that this program does not have are left out."""
        store = await self._plane.store
        async for stored in _live(store):
            if stored.job_type in self._plane.agents:
                yield await _found(store, stored, self._plane)

    async def fork(
        self, id_or_prefix: str, from_step: str, *, created_by: str | None = None, ids: NewId | None = None
    ) -> JobHandle[Any]:
        """A new job with the same payload that takes the results of all steps before `from_step` from this one."""
        plane, opened = self._plane, await self._plane._open_here()
        store, new_id = opened.store, ids or self._plane._ids
        job = await find_job(store, id_or_prefix)
        blob = checked_blob(await _stored(store, job.id))
        blobs = await _blobs(store, job.id, blob)
        checkpoint_id = new_id()
        document = forked(blob, blobs, from_step, checkpoint_id)
        asked = Submission(
            job.job_type,
            job.payload,
            queue=job.queue,
            priority=job.priority,
            serial_key=job.serial_key,
            tags=job.tags,
            max_retries=job.max_retries,
            created_by=created_by,
        )
        checked_job = await checked(opened.directory, new_id, asked, plane.settings.payload_limit_bytes)
        new = replace(checked_job, tenant_id=job.tenant_id, checkpoint=BornWith(checkpoint_id, document, job.id))
        await check_budgets(store, opened.directory, [new])
        (job_id,) = await store.jobs.submit([new])
        return JobHandle(plane, job_id)

    async def replay(self, id_or_prefix: str) -> Replay:
        """Runs this program's code against what is recorded, does nothing, and says where the two part."""
        store = await self._plane.store
        job = await find_job(store, id_or_prefix)
        agent = self._plane.agents.get(job.job_type)
        if agent is None or agent.kind != "async":
            raise InvalidInput(f'This program has no async agent "{job.job_type}", so there is no code to replay.', field="app")
        await _stored(store, job.id)
        return await replay(store.checkpoints, job, agent, self._plane.clock, self._plane._ids)


async def _live(store: Store) -> AsyncIterator[StoredCheckpoint]:
    after = None
    while page := await store.checkpoints.live(after, PAGE):
        for stored in page:
            yield stored
        after = page[-1].job_id


async def _found(store: Store, stored: StoredCheckpoint, plane: Plane | None) -> Finding:
    size, steps = len(stored.document.encode()) + len((stored.added or "").encode()), 0
    try:
        blob = checked_blob(stored)
        steps = blob["step_index"]
        blobs = await _blobs(store, stored.job_id, blob)
        if plane is not None:
            code = plane.agents[stored.job_type]
            journal_from(blob, blobs, code.state_migrations, code.renamed_steps)
    except CheckpointCorrupted as error:
        return Finding(stored.job_id, stored.job_type, steps, size, error.details, error.kind)
    except Exception as error:  # The agent's own migrations may raise anything.
        return Finding(stored.job_id, stored.job_type, steps, size, f"{type(error).__name__}: {error}", "migration_failed")
    return Finding(stored.job_id, stored.job_type, steps, size)


async def _stored(store: Store, job_id: JobId) -> StoredCheckpoint:
    stored = await store.checkpoints.load(job_id)
    if stored is None:
        raise InvalidInput(f"Job {job_id} has no checkpoint: nothing durable has happened in it.", field="id")
    return stored


async def _blobs(store: Store, job_id: JobId, blob: Blob) -> dict[str, str]:
    digests = blob_digests(blob)
    found = await store.checkpoints.blobs(job_id, digests) if digests else {}
    check_blobs(digests, found)
    return found
