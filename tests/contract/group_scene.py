"""Groups on one store, with a worker that a test moves by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.groups.model import GROUP_AGENT, Group, GroupId, NewGroup
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, INTERNAL_QUEUE, Claimed, JobId, WorkerId
from cortex_plane.jobs.outcomes import Done, Outcome
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus
from tests.contract.support import FATAL, Scene, run_ids

CHAIN = RetryPolicy("chain", 1, Backoff(base_seconds=10, jitter=False))


class GroupScene:
    def __init__(self, scene: Scene) -> None:
        self.scene, self.store = scene, scene.store

    async def add(
        self, count: int, *, members: Sequence[dict[str, Any]] = (), with_callback: bool = False, **group: Any
    ) -> tuple[GroupId, list[JobId]]:
        """A group of `count` members; `members` are fields of the first ones."""
        callback = await self.scene.new_job("callback", queue="calls", payload='{"word":"done"}') if with_callback else None
        made = NewGroup(GroupId(new_id()), DEFAULT_TENANT_ID, callback=callback, **group)
        fields = [*members, *({} for _ in range(count - len(members)))]
        jobs = [await self.scene.new_job(group_id=made.id, **own) for own in fields]
        await self.store.groups.add(made, jobs, new_id)
        return made.id, [job.id for job in jobs]

    async def start(self, limit: int = 10, worker_id: WorkerId | None = None) -> list[Claimed]:
        return await self.scene.claim(worker_id or await self.scene.worker(), limit)

    async def end(self, outcome: Outcome, policy: RetryPolicy = RetryPolicy(max_retries=0)) -> JobId:
        """The one member that can start now does, and ends so; then the group moves on."""
        [claimed] = await self.start()
        assert await self.scene.finish(claimed, outcome, policy)
        await self.move_on()
        return claimed.job_id

    async def asked(self, worker_id: WorkerId | None = None) -> list[Claimed]:
        """The looks at groups that are due, claimed."""
        worker = worker_id or await self.scene.worker()
        return await self.store.queue.claim(worker, (INTERNAL_QUEUE,), (GROUP_AGENT,), run_ids(10))

    async def move_on(self) -> int:
        """Does what a worker does with every job of the group's agent; returns how many there were."""
        count = 0
        while looks := await self.asked():
            for look in looks:
                await self.store.groups.advance(GroupId(look.payload["group_id"]), new_id)
                assert await self.scene.finish(look, Done(None))
                count += 1
        return count

    async def group(self, group_id: GroupId) -> Group:
        group = await self.store.groups.get(group_id)
        assert group is not None
        return group

    async def statuses(self, job_ids: Sequence[JobId]) -> list[JobStatus]:
        return [await self.scene.status(job_id) for job_id in job_ids]

    async def held(self, group_id: GroupId) -> list[JobId]:
        return [member.id for member in await self.store.groups.members(group_id) if member.held]


SUCCESS, FAILURE = Done(None), FATAL
