"""Parents that wait for their children, and what the plane does about those whose parent ended."""

from __future__ import annotations

from typing import Any

from cortex_plane.jobs.model import INTERNAL_QUEUE, Claimed, JobId
from cortex_plane.jobs.outcomes import Transition
from cortex_plane.jobs.states import JobStatus, WaitReason
from tests.contract.support import Scene

CHILDREN_AGENT = "cortex.children"
RECHECK_SECONDS = 60.0


def suspended(parent: Claimed, child: JobId, reason: WaitReason = WaitReason.CHILD) -> Transition:
    return Transition(
        parent.job_id,
        parent.run_id,
        JobStatus.RETRY,
        "call",
        wait_reason=reason,
        delay_seconds=RECHECK_SECONDS,
        retry_count=parent.retry_count,
        note={"child": child},
    )


class Family:
    def __init__(self, scene: Scene) -> None:
        self.scene, self.store = scene, scene.store

    async def child_of(self, parent: JobId, **fields: Any) -> Claimed:
        """A child that runs."""
        return await self.scene.running(parent_id=parent, queue="children", **fields)

    async def waiting(self, **fields: Any) -> tuple[JobId, Claimed]:
        """A parent that waits for its child, and that child, which runs."""
        parent = await self.scene.running(**fields)
        child = await self.child_of(parent.job_id)
        await self.suspend(parent, child.job_id)
        assert await self.due() == []
        return parent.job_id, child

    async def suspend(self, parent: Claimed, child: JobId, reason: WaitReason = WaitReason.CHILD) -> None:
        assert await self.store.queue.finish([suspended(parent, child, reason)], "test") == {parent.run_id}

    async def due(self) -> list[JobId]:
        """The jobs of the parents' queue that a worker gets."""
        return [one.job_id for one in await self.scene.claim(await self.scene.worker())]

    async def asked(self) -> list[JobId]:
        """The parents whose children are to be cancelled, by the jobs that wait to do it."""
        waiting = await self.store.jobs.list(queue=INTERNAL_QUEUE, status=JobStatus.PENDING)
        jobs = [await self.scene.job(one.id) for one in waiting]
        assert {job.job_type for job in jobs} <= {CHILDREN_AGENT}
        return sorted(job.payload["parent_id"] for job in jobs)

    async def statuses(self, *jobs: JobId) -> list[JobStatus]:
        return [await self.scene.status(job_id) for job_id in jobs]
