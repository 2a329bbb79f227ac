"""Schedules through a server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Unpack, cast

from cortex_plane.clock import instant
from cortex_plane.cursors import cursor_for
from cortex_plane.errors import InvalidInput, check_options
from cortex_plane.people.model import OWN_TENANT
from cortex_plane.remote import given, read_pages, whole_id
from cortex_plane.schedules.model import Schedule, Slot
from cortex_plane.schedules.service import TERMS_OPTIONS, ScheduleService, TermsOptions

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


ALL = 1_000_000


class ScheduleClient(ScheduleService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def add(
        self,
        name: str,
        target: str,
        cron: str,
        *,
        tenant: str = OWN_TENANT,
        grant: str | None = None,
        billing_account: str = "default",
        created_by: str | None = None,
        held: Sequence[str] | None = None,
        **terms: Unpack[TermsOptions],
    ) -> Schedule:
        check_options("A schedule", terms, TERMS_OPTIONS)
        if held is not None:
            raise InvalidInput("held cannot be given through a server: what you hold follows from your key.", field="held")
        grant_id = None if grant is None else await whole_id(self._server, "grant", grant, tenant=tenant)
        body = given(name=name, target=target, cron=cron, grant=grant_id, billing_account=billing_account, **terms)
        return await self._server.create(Schedule, "schedules", body=body, tenant=tenant)

    async def get(self, name_or_id: str, *, tenant: str = OWN_TENANT, removed: bool = False) -> Schedule:
        return await self._server.get(Schedule, "schedules", await self._id(name_or_id, tenant), tenant=tenant)

    async def change(
        self,
        name_or_id: str,
        *,
        tenant: str = OWN_TENANT,
        target: str | None = None,
        cron: str | None = None,
        grant: str | None = None,
        actor: str | None = None,
        **terms: Unpack[TermsOptions],
    ) -> Schedule:
        check_options("A schedule", terms, TERMS_OPTIONS)
        grant_id = None if grant is None else await whole_id(self._server, "grant", grant, tenant=tenant)
        body = given(target=target, cron=cron, grant=grant_id, **terms)
        taken_away = {name: None for name, value in terms.items() if value is None}
        path = ("schedules", await self._id(name_or_id, tenant))
        return await self._server.patch(Schedule, *path, body=body | taken_away, tenant=tenant)

    async def pause(
        self, name_or_id: str, *, tenant: str = OWN_TENANT, actor: str | None = None, reason: str | None = None
    ) -> Schedule:
        path = ("schedules", await self._id(name_or_id, tenant), "pause")
        return await self._server.post(Schedule, *path, body=given(reason=reason), tenant=tenant)

    async def resume(
        self, name_or_id: str, *, tenant: str = OWN_TENANT, actor: str | None = None, reason: str | None = None
    ) -> Schedule:
        path = ("schedules", await self._id(name_or_id, tenant), "resume")
        return await self._server.post(Schedule, *path, body=given(reason=reason), tenant=tenant)

    async def trigger(self, name_or_id: str, *, tenant: str = OWN_TENANT, actor: str | None = None) -> Slot:
        return await self._server.create(Slot, "schedules", await self._id(name_or_id, tenant), "trigger", tenant=tenant)

    async def backfill(
        self, name_or_id: str, start: datetime, end: datetime, *, tenant: str = OWN_TENANT, actor: str | None = None
    ) -> list[Slot]:
        path = ("schedules", await self._id(name_or_id, tenant), "backfill")
        return await self._server.post(list[Slot], *path, body=given(start=start, end=end), tenant=tenant)

    async def remove(self, name_or_id: str, *, tenant: str = OWN_TENANT, actor: str | None = None) -> Schedule:
        schedule = await self.get(name_or_id, tenant=tenant)
        await self._server.delete(NoneType, "schedules", schedule.id, tenant=tenant)
        return schedule

    async def slots(
        self, name_or_id: str, *, tenant: str = OWN_TENANT, before: datetime | None = None, limit: int = 50
    ) -> list[Slot]:
        cursor = None if before is None else cursor_for("slot", instant(before))
        path = ("schedules", await self._id(name_or_id, tenant), "runs")
        return await read_pages(self._server, Slot, *path, limit=limit, cursor=cursor, tenant=tenant)

    async def next(self, name_or_id: str, count: int = 5, *, tenant: str = OWN_TENANT) -> list[datetime]:
        path = ("schedules", await self._id(name_or_id, tenant), "next")
        return await self._server.get(list[datetime], *path, tenant=tenant, count=count)

    async def list(self, *, tenant: str | None = None) -> list[Schedule]:
        return await read_pages(self._server, Schedule, "schedules", limit=ALL, tenant=tenant)

    async def _id(self, name_or_id: str, tenant: str) -> str:
        return await whole_id(self._server, "schedule", name_or_id, tenant=tenant)
