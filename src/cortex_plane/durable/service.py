"""`plane.checkpoints`: show and verify checkpoints, try migrations, fork and replay jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cortex_plane.costs.service import check_budgets_of
from cortex_plane.durable.fork import forked
from cortex_plane.durable.load import Blob, blob_digests, check_blobs, checked_blob, checked_record, journal_from
from cortex_plane.durable.replay import Replay, replay
from cortex_plane.durable.resume import settled
from cortex_plane.errors import CheckpointCorrupted, InvalidInput, JobNotFound
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.lookup import find_job
from cortex_plane.jobs.model import BornWith, JobId

if TYPE_CHECKING:
    from cortex_plane.durable.schema import StoredCheckpoint
    from cortex_plane.ids import NewId
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


PAGE = 100
REPLAY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class CheckpointFinding:
    """The result of checking one job's checkpoint. `problem` is None if a worker could resume from it."""

    job_id: JobId
    agent: str
    steps: int
    size_bytes: int
    problem: str | None = None
    kind: str | None = None
    asks_again: tuple[str, ...] = ()
    """Approvals that would be requested again because this code words them differently."""


class Checkpoints:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of checkpoints."""
        schema: dict[str, Any] = json.loads((files("cortex_plane.durable") / "schemas" / "checkpoint-v1.json").read_text())
        return schema

    async def get(self, id_or_prefix: str) -> Blob:
        """Returns a job's verified checkpoint, without the content of large results. Raises CheckpointCorrupted if it is
        damaged."""
        store = self._plane.store
        return checked_blob(await _stored(store, (await find_job(store, id_or_prefix)).id))

    async def verify(self) -> AsyncIterator[CheckpointFinding]:
        """Looks at the checkpoint of every job that has not ended."""
        store = self._plane.store
        async for stored in _live(store):
            yield await _found(store, stored, None)

    async def try_migrations(self) -> AsyncIterator[CheckpointFinding]:
        """Reports what would prevent each live job from being resumed with this code: migrations that fail, renamed steps,
        steps that do not match the record, approvals that would be requested again.

        Handlers are replayed: recorded calls are answered, and no new call is made. Nothing is changed; a job is migrated
        when it is resumed. Jobs of agents that this program does not have are skipped."""
        store = self._plane.store
        async for stored in _live(store):
            if stored.job_type in self._plane.agents:
                yield await self._tried(store, stored)

    async def _tried(self, store: Store, stored: StoredCheckpoint) -> CheckpointFinding:
        found = await _found(store, stored, self._plane)
        agent, job = self._plane.agents[stored.job_type], await store.jobs.get(stored.job_id)
        if found.problem is not None or agent.kind != "async" or job is None or job.status.is_terminal:
            return found
        try:
            async with asyncio.timeout(REPLAY_SECONDS):
                replayed = await replay(store.checkpoints, job, agent, self._plane.clock, self._plane._ids)
        except TimeoutError:
            problem = f"The handler did not come to its next durable call within {REPLAY_SECONDS:g} s."
            return replace(found, problem=problem, kind="replay_timed_out")
        if not replayed.fits:
            return replace(found, problem=replayed.message, kind="code_changed", asks_again=replayed.asks_again)
        return replace(found, asks_again=replayed.asks_again)

    async def fork(
        self, id_or_prefix: str, from_step: str, *, created_by: str | None = None, ids: NewId | None = None
    ) -> JobHandle[Any]:
        """Submits a new job with the same work that takes over the results of all steps before `from_step`. Its tool calls
        have new invocation ids: the work is done again."""
        store, new_id = self._plane.store, ids or self._plane._ids
        job = await find_job(store, id_or_prefix)
        record = checked_record(await _stored(store, job.id))
        blobs = await _blobs(store, job.id, record.blob)
        checkpoint_id = new_id()
        document = forked(record, blobs, from_step, checkpoint_id)
        await check_budgets_of(store, job)
        job_id = JobId(new_id())
        made = await store.jobs.fork(job.id, job_id, BornWith(checkpoint_id, document), created_by)
        if not made and await store.jobs.status(job_id) is None:
            raise JobNotFound(job.id)  # The job was deleted meanwhile.
        return JobHandle(self._plane.jobs, job_id)

    async def check(self, job_id: JobId) -> None:
        """Raises CheckpointCorrupted if no worker could resume the job from its checkpoint. A job without a checkpoint
        passes."""
        store = self._plane.store
        stored = await store.checkpoints.load(job_id)
        if stored is not None:
            try:
                await _blobs(store, job_id, checked_blob(stored))
            except CheckpointCorrupted as error:
                hint = f"{error.details} To run the job from the beginning: cortex jobs retry {job_id}"
                raise CheckpointCorrupted(error.kind, hint) from None

    async def with_settled(self, job_id: JobId, call: str, *, applied: bool, result: Any = None) -> BornWith:
        """The checkpoint from which the job resumes once this uncertain call is settled. Raises InvalidInput if there is no
        such call."""
        store = self._plane.store
        record = checked_record(await _stored(store, job_id))
        await _blobs(store, job_id, record.blob)
        checkpoint_id = self._plane._ids()
        return BornWith(checkpoint_id, settled(record, call, checkpoint_id, applied=applied, result=result)[0])

    async def replay(self, id_or_prefix: str) -> Replay:
        """Replays this program's code against the record, without side effects, and reports where they differ."""
        store = self._plane.store
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


async def _found(store: Store, stored: StoredCheckpoint, plane: Plane | None) -> CheckpointFinding:
    size, steps = len(stored.document.encode()), 0
    try:
        record = checked_record(await _with_segments(store, stored))
        steps = record.blob["step_index"]
        blobs = await _blobs(store, stored.job_id, record.blob)
        if plane is not None:
            code = plane.agents[stored.job_type]
            journal_from(record, blobs, code.state_migrations, code.renamed_steps)
    except CheckpointCorrupted as error:
        return CheckpointFinding(stored.job_id, stored.job_type, steps, size, error.details, error.kind)
    except Exception as error:  # The agent's own migrations may raise any exception.
        return CheckpointFinding(
            stored.job_id, stored.job_type, steps, size, f"{type(error).__name__}: {error}", "migration_failed"
        )
    return CheckpointFinding(stored.job_id, stored.job_type, steps, size)


async def _with_segments(store: Store, stored: StoredCheckpoint) -> StoredCheckpoint:
    """Reads the checkpoint again with its segments: it may have changed since the first read."""
    if '"sealed"' not in stored.document:
        return replace(stored, segments=())
    return await store.checkpoints.load(stored.job_id) or replace(stored, segments=())


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
