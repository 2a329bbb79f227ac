"""People and decisions for tests of the gate: as a door would, without one."""

from __future__ import annotations

from typing import Any

from cortex_plane.approvals.decisions import Answer, Decided
from cortex_plane.approvals.model import ApprovalRequest, Verdict
from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, JobId
from cortex_plane.people.model import User, UserGroup, UserGroupId, UserId
from cortex_plane.testing import TestPlane
from tests.contract.support import raw_client

NOTED = AuditEntry("TEST", "user_account", "someone", actor="test")


class People:
    """Users by name, and what they decide."""

    def __init__(self, plane: TestPlane) -> None:
        self._plane = plane

    async def add(self, *names: str, group: str | None = None) -> None:
        store = self._plane.store
        for name in names:
            await store.people.add_user(User(UserId(new_id()), name), NOTED)
        if group is not None:
            made = UserGroup(UserGroupId(new_id()), DEFAULT_TENANT_ID, group)
            await store.people.add_group(made, NOTED)
            for name in names:
                await store.people.add_member(made.id, await self.id_of(name), NOTED)

    async def make_approver(self, name: str) -> None:
        """Where a gate names nobody, they may decide."""
        async with raw_client(self._plane.settings.database_url, self._plane.clock) as raw:
            await raw(f"insert into cortex.user_role values ('{await self.id_of(name)}', null, 'approver')")

    async def id_of(self, name: str) -> UserId:
        found = await self._plane.store.people.find_user(name)
        assert found is not None
        return found.id

    async def asked(self, job: JobHandle[Any]) -> ApprovalRequest:
        """The one open request of a job."""
        (request,) = await self._plane.store.approvals.list(job_id=JobId(job.id))
        return request

    async def decide(self, job: JobHandle[Any], name: str, decision: Verdict = "approved", **given: Any) -> Answer:
        request = await self.asked(job)
        store = self._plane.store
        return await store.approvals.decide(request.id, await self.id_of(name), decision, door="test", **given)

    async def approve(self, job: JobHandle[Any], name: str, **given: Any) -> None:
        assert isinstance(await self.decide(job, name, **given), Decided)

    async def deny(self, job: JobHandle[Any], name: str, reason: str | None = None) -> None:
        assert isinstance(await self.decide(job, name, "denied", reason=reason), Decided)


def counted() -> tuple[list[Any], Any]:
    """What was done so far, and what does it."""
    done: list[Any] = []

    async def do(what: Any) -> Any:
        done.append(what)
        return what

    return done, do
