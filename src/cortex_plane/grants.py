"""Grants and charges as a program uses them: `plane.grants.add(["agent:run:report"])`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.core.billing import DEFAULT_ACCOUNT, BillingAccount, UsageTotal
from cortex_plane.core.execution import Receipt
from cortex_plane.core.grants import Grant
from cortex_plane.core.jobs import DEFAULT_TENANT
from cortex_plane.operations.add_grant import GrantWish, add_grant
from cortex_plane.operations.execution.look_at_run import receipts_of_run
from cortex_plane.operations.find_grant import find_grant
from cortex_plane.operations.find_user import find_user
from cortex_plane.operations.names import checked_readable_name
from cortex_plane.operations.revoke_grant import Revoked, revoke_grant

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class Grants:
    """Under which scheduled work runs. Ids may be given by their first part."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(
        self,
        scopes: Sequence[str],
        *,
        tenant: str = DEFAULT_TENANT,
        billing_account: str = DEFAULT_ACCOUNT,
        expires_at: datetime | None = None,
        max_uses: int | None = None,
        user: str | None = None,
        created_by: str | None = None,
        held: Sequence[str] | None = None,
    ) -> Grant:
        """`user` is the name of somebody who may start runs under it. `held` are the scopes of whoever asks: nobody grants
        more than they hold. None is an operator, who holds all."""
        opened, plane = await self._plane._open_here(), self._plane
        user_id = None if user is None else (await find_user(opened.store, user)).id
        wish = GrantWish(scopes, tenant, billing_account, expires_at, max_uses, user_id, created_by, held)
        return await add_grant(opened.store, opened.directory, plane.clock, plane._ids, wish)

    async def get(self, id_or_prefix: str) -> Grant:
        return await find_grant(await self._plane.store, id_or_prefix)

    async def revoke(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Revoked:
        """Its schedules pause, what waits under it is cancelled, what runs is asked to stop: at once."""
        return await revoke_grant(await self._plane.store, id_or_prefix, actor=actor, reason=reason)

    async def list(self, *, tenant: str | None = None, limit: int = 50) -> list[Grant]:
        """Newest first."""
        opened = await self._plane._open_here()
        return await opened.store.grants.list(None if tenant is None else await opened.directory.tenant(tenant), limit)


class Billing:
    """Who is charged for runs under grants, and what those have used."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(self, name: str, *, virtual_key: str | None = None, tenant: str = DEFAULT_TENANT) -> BillingAccount:
        """An account that is there already stays as it is."""
        opened, new_id = await self._plane._open_here(), self._plane._ids
        key = f"vk_{new_id().replace('-', '')}" if virtual_key is None else checked_readable_name(virtual_key, "virtual_key")
        tenant_id = await opened.directory.tenant(tenant)
        return await opened.store.billing.ensure(new_id(), tenant_id, checked_readable_name(name), key)

    async def receipts(self, run_id: str) -> list[Receipt]:
        return await receipts_of_run(await self._plane.store, run_id)

    async def totals(self, *, tenant: str | None = None) -> list[UsageTotal]:
        """By account and unit."""
        opened = await self._plane._open_here()
        return await opened.store.billing.totals(None if tenant is None else await opened.directory.tenant(tenant))

    async def list(self, *, tenant: str | None = None) -> list[BillingAccount]:
        """By name."""
        opened = await self._plane._open_here()
        return await opened.store.billing.list(None if tenant is None else await opened.directory.tenant(tenant))
