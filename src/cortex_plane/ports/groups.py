"""What we need of a database for stored definitions of jobs, and for jobs that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from cortex_plane.core.groups import Group, GroupId, Member, NewGroup
from cortex_plane.core.jobs import JobId, NewJob, TenantId
from cortex_plane.core.templates import NewTemplate, Template
from cortex_plane.ports.clock import NewId


class Templates(Protocol):
    async def put(self, template: NewTemplate, actor: str | None) -> Template:
        """Saves it under its tenant and name; a change counts the version up, and what changes nothing does not."""

    async def get(self, tenant_id: TenantId, name: str) -> Template | None: ...

    async def list(self, tenant_id: TenantId) -> list[Template]: ...

    async def remove(self, tenant_id: TenantId, name: str, actor: str | None) -> bool: ...


class Groups(Protocol):
    async def add(self, group: NewGroup, jobs: Sequence[NewJob], new_id: NewId, connection: Any = None) -> None:
        """A group and all its members, or nothing. Members run in the order of their ids where the group is sequential."""

    async def get(self, group_id: GroupId) -> Group | None: ...

    async def find(self, prefix: str) -> list[GroupId]:
        """At most five ids that begin with the prefix."""

    async def members(self, group_id: GroupId, after: JobId | None = None, limit: int = 1000) -> list[Member]:
        """In their order; retries of members last."""

    async def list(self, tenant_id: TenantId, before: GroupId | None = None, limit: int = 50) -> list[Group]:
        """Newest first."""

    async def advance(self, group_id: GroupId, new_id: NewId) -> Group | None:
        """Does everything that is due for the group, in one transaction, and nothing twice. None when there is no such group."""

    async def cancel(self, group_id: GroupId, new_id: NewId, actor: str | None, reason: str | None) -> int | None:
        """Cancels every member that has not ended; returns how many. None when there is no such group."""
