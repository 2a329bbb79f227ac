"""`plane.groups`: jobs that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.groups import LARGEST_GROUP, Group, GroupId, GroupMode, GroupStatus, Member, OnFailure
from cortex_plane.core.jobs import DEFAULT_TENANT, JobId
from cortex_plane.handles import JobHandle
from cortex_plane.operations.await_group import await_group
from cortex_plane.operations.cancel_group import cancel_group
from cortex_plane.operations.find_group import find_group_id
from cortex_plane.operations.show_group import group_members, show_group
from cortex_plane.operations.submit_group import submit_group
from cortex_plane.operations.submit_jobs import Submission

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

LONGEST_LIST = 1000


class GroupHandle:
    """What a submission gives back: the group, and its members in their order."""

    def __init__(self, plane: Plane, group_id: GroupId, job_ids: Sequence[JobId]) -> None:
        self._groups = plane.groups
        self.id = group_id
        self.jobs: list[JobHandle[Any]] = [JobHandle(plane, job_id) for job_id in job_ids]

    def __repr__(self) -> str:
        return f"GroupHandle({self.id!r})"

    async def group(self) -> Group:
        return await self._groups.get(self.id)

    async def status(self) -> GroupStatus:
        return (await self.group()).status

    async def wait(self, timeout: float | None = None) -> Group:
        """The finished group, however it ended. Raises GroupNotFinished when `timeout` seconds pass."""
        return await self._groups.wait(self.id, timeout=timeout)

    async def cancel(self, reason: str | None = None) -> int:
        return await self._groups.cancel(self.id, reason=reason)


class Groups:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def submit(
        self,
        members: Iterable[Submission],
        *,
        mode: GroupMode = "parallel",
        on_failure: OnFailure = "stop",
        callback: Submission | None = None,
        name: str | None = None,
        created_by: str | None = None,
        connection: Any = None,
    ) -> GroupHandle:
        """All of them or none, in one transaction, in this order. When no member is open any more, the callback is submitted
        with the argument `group`: id, status, and how many completed, failed and were cancelled."""
        opened = await self._plane._open_here()
        group_id, job_ids = await submit_group(
            opened.store,
            opened.directory,
            self._plane._ids,
            list(members),
            mode=mode,
            on_failure=on_failure,
            callback=callback,
            name=name,
            created_by=created_by,
            connection=connection,
            payload_limit_bytes=self._plane.settings.payload_limit_bytes,
        )
        return GroupHandle(self._plane, group_id, job_ids)

    async def get(self, id_or_prefix: str) -> Group:
        return await show_group((await self._plane._open_here()).store, id_or_prefix)

    async def members(self, id_or_prefix: str, *, limit: int = LARGEST_GROUP) -> list[Member]:
        """In their order; retries of members last."""
        return await group_members((await self._plane._open_here()).store, id_or_prefix, limit=limit)

    async def wait(self, id_or_prefix: str, *, timeout: float | None = None) -> Group:
        """The finished group, however it ended. Raises GroupNotFinished when `timeout` seconds pass."""
        return await await_group((await self._plane._open_here()).store, self._plane.clock, id_or_prefix, timeout)

    async def list(self, *, tenant: str = DEFAULT_TENANT, before: str | None = None, limit: int = 50) -> list[Group]:
        """Newest first. `before` is the id of the last group of the page before."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_LIST:
            raise InvalidInput(f"limit must be a whole number from 1 to {LONGEST_LIST:,}, not {limit!r}.", field="limit")
        opened = await self._plane._open_here()
        tenant_id = await opened.directory.tenant(tenant)
        last = None if before is None else await find_group_id(opened.store, before)
        return await opened.store.groups.list(tenant_id, before=last, limit=limit)

    async def cancel(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> int:
        """How many members were cancelled; raises GroupFinished when none was left."""
        store = (await self._plane._open_here()).store
        _, cancelled = await cancel_group(store, self._plane._ids, id_or_prefix, actor=actor, reason=reason)
        return cancelled
