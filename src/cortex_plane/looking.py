"""What a plane offers to those who look: a job's story and its insides, a job as it goes on, the queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from cortex_plane.adapters.system import utc_now
from cortex_plane.core.events import Told
from cortex_plane.core.jobs import Job, JobId
from cortex_plane.core.queues import QueueState
from cortex_plane.insides import Inside
from cortex_plane.operations.follow_job import START, follow_job
from cortex_plane.operations.look_at_queues import look_at_queues
from cortex_plane.operations.tell_job import Story
from cortex_plane.ports.clock import Clock

if TYPE_CHECKING:
    from cortex_plane.checkpoints import CheckpointsOfPlane
    from cortex_plane.core.events import Position
    from cortex_plane.steering import Opening


class Looking:
    """Part of Plane."""

    clock: Clock
    checkpoints: CheckpointsOfPlane

    async def _open_here(self) -> Opening:
        """Plane's own."""
        raise AssertionError

    async def story(self, job_id: JobId, *, with_names: bool = False) -> Story:
        """What happened to a job, to be told in words. `with_names` looks up what the workers are called."""
        return await Story.of((await self._open_here()).store, job_id, with_names=with_names)

    async def inside(self, job: Job) -> Inside:
        """What is recorded of it besides its states."""
        return await Inside.of((await self._open_here()).store, self.checkpoints, job)

    async def follow(self, job_id: JobId, position: Position = START) -> AsyncIterator[Told]:
        """What happens to a job, as it happens, from the position on. Ends with the job."""
        stream = follow_job((await self._open_here()).store, self.clock, job_id, position)
        async with aclosing(stream):  # type: ignore[type-var]
            async for told in stream:
                yield told

    async def somebody_works_on(self, job: Job) -> bool:
        """As far as this machine's clock can tell: a worker that was killed is listed until its lease has run out."""
        workers = await (await self._open_here()).store.workers.list()
        living = [worker for worker in workers if worker.takes_jobs and worker.lease_until > utc_now()]
        return any(job.queue in worker.queues and job.job_type in worker.job_types for worker in living)

    async def queues(self) -> list[QueueState]:
        """Every queue in which something waits or runs, or for which something is set."""
        return await look_at_queues((await self._open_here()).store)
