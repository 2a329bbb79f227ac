"""Grants and charges through a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, cast

from cortex_plane.errors import InvalidInput
from cortex_plane.grants.model import DEFAULT_ACCOUNT, BillingAccount, Grant, Receipt, UsageTotal
from cortex_plane.grants.service import BillingService, GrantService, Revoked
from cortex_plane.people.model import OWN_TENANT
from cortex_plane.remote import given, read_pages, whole_id

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


@dataclass(frozen=True, slots=True)
class _RevokedGrant:
    grant: Grant
    schedules: int
    jobs: int


class GrantClient(GrantService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def add(
        self,
        scopes: Sequence[str],
        *,
        tenant: str = OWN_TENANT,
        billing_account: str = DEFAULT_ACCOUNT,
        expires_at: datetime | None = None,
        max_uses: int | None = None,
        user: str | None = None,
        created_by: str | None = None,
        held: Sequence[str] | None = None,
    ) -> Grant:
        if held is not None:
            raise InvalidInput("held cannot be given through a server: what you hold follows from your key.", field="held")
        body = given(scopes=list(scopes), billing_account=billing_account, expires_at=expires_at, max_uses=max_uses, user=user)
        return await self._server.create(Grant, "grants", body=body, tenant=tenant)

    async def get(self, id_or_prefix: str) -> Grant:
        return await self._server.get(Grant, "grants", await whole_id(self._server, "grant", id_or_prefix))

    async def revoke(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Revoked:
        grant_id = await whole_id(self._server, "grant", id_or_prefix)
        done = await self._server.post(_RevokedGrant, "grants", grant_id, "revoke", body=given(reason=reason))
        return Revoked(done.grant, done.schedules, done.jobs)

    async def list(self, *, tenant: str | None = None, limit: int = 50) -> list[Grant]:
        return await read_pages(self._server, Grant, "grants", limit=limit, tenant=tenant)


class BillingClient(BillingService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def add(self, name: str, *, virtual_key: str | None = None, tenant: str = OWN_TENANT) -> BillingAccount:
        body = given(name=name, virtual_key=virtual_key)
        return await self._server.create(BillingAccount, "billing", "accounts", body=body, tenant=tenant)

    async def receipts(self, run_id: str) -> list[Receipt]:
        return await self._server.get(list[Receipt], "billing", "receipts", run_id=run_id)

    async def totals(self, *, tenant: str | None = None) -> list[UsageTotal]:
        return await self._server.get(list[UsageTotal], "billing", "totals", tenant=tenant)

    async def list(self, *, tenant: str | None = None) -> list[BillingAccount]:
        return await self._server.get(list[BillingAccount], "billing", "accounts", tenant=tenant)
