"""`plane.grants` and `plane.billing`: add, list, revoke; accounts and receipts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from cortex_plane.audit.model import AuditEntry
from cortex_plane.clock import EARLIEST, LATEST, Clock, as_datetime, instant
from cortex_plane.errors import Conflict, InvalidInput
from cortex_plane.grants.execution import receipts_of_run
from cortex_plane.grants.model import (
    DEFAULT_ACCOUNT,
    BillingAccount,
    BillingAccountNotFound,
    Grant,
    GrantId,
    GrantNotFound,
    NewGrant,
    Receipt,
    UsageTotal,
    check_scopes,
    check_within,
)
from cortex_plane.ids import ID_LENGTH, NewId, is_part_of_an_id
from cortex_plane.jobs.model import DEFAULT_TENANT, TenantId
from cortex_plane.people.model import checked_readable_name
from cortex_plane.people.users import find_user
from cortex_plane.schedules.slots import utc

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


async def find_grant(store: Store, id_or_prefix: str) -> Grant:
    prefix = str(id_or_prefix).strip().lower()
    if not is_part_of_an_id(prefix):
        raise InvalidInput(f"{id_or_prefix!r:.60} is not a grant id, nor the first four or more characters of one.", field="id")
    found = [GrantId(prefix)] if len(prefix) == ID_LENGTH else await store.grants.find(prefix)
    if len(found) > 1:
        raise InvalidInput(
            f"{prefix} matches {len(found)} or more grants: {', '.join(found[:3])}. Give more characters of the id.", field="id"
        )
    grant = await store.grants.get(found[0]) if found else None
    if grant is None:
        raise GrantNotFound(prefix)
    return grant


# -- add grant ---------------------------------------------------------------------------------
# Adds a grant: what may be run, for how long, how often, and who is charged.


MOST_USES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class GrantWish:
    """What a caller asks for. `held` are the scopes that the caller holds; None for an operator, who holds all."""

    scopes: Sequence[str]
    tenant: str = DEFAULT_TENANT
    billing_account: str = DEFAULT_ACCOUNT
    expires_at: datetime | None = None
    max_uses: int | None = None
    user_account_id: str | None = None
    created_by: str | None = None
    held: Sequence[str] | None = None
    id: GrantId | None = None
    """One that was given out before, for a request that may come again."""


async def add_grant(store: Store, directory: Directory, clock: Clock, new_id: NewId, wish: GrantWish) -> Grant:
    grant, entry = await checked_grant(store, directory, clock, new_id, wish)
    await store.grants.add(grant, entry)
    return await find_grant(store, grant.id)


async def checked_grant(
    store: Store, directory: Directory, clock: Clock, new_id: NewId, wish: GrantWish
) -> tuple[NewGrant, AuditEntry]:
    """What a wish comes to, and its audit entry. A tenant's account `default` is made when it is first needed."""
    tenant_id = await directory.tenant(checked_readable_name(wish.tenant, "tenant"))
    scopes = check_scopes(wish.scopes)
    if wish.held is not None:
        check_within(scopes, wish.held)
    expires_at, max_uses = _expiry(wish.expires_at, as_datetime(clock.now())), _uses(wish.max_uses)
    account = await billing_account(store, new_id, tenant_id, wish.billing_account)
    grant = NewGrant(
        id=wish.id or GrantId(new_id()),
        tenant_id=tenant_id,
        billing_account_id=account.id,
        scopes=scopes,
        user_account_id=wish.user_account_id,
        expires_at=expires_at,
        max_uses=max_uses,
        created_by=wish.created_by,
    )
    details = {
        "scopes": list(scopes),
        "billing_account": account.name,
        "max_uses": max_uses,
        "user_account_id": wish.user_account_id,
    }
    return grant, AuditEntry("GRANT_ADDED", "grant", grant.id, wish.created_by, tenant_id=tenant_id, details=details)


async def billing_account(store: Store, new_id: NewId, tenant_id: TenantId, name: str) -> BillingAccount:
    found = await store.billing.find(tenant_id, checked_readable_name(name, "billing_account"))
    if found is not None:
        return found
    if name != DEFAULT_ACCOUNT:
        raise BillingAccountNotFound(name)
    return await store.billing.ensure(new_id(), tenant_id, name, f"vk_{new_id().replace('-', '')}")


def _expiry(expires_at: datetime | None, now: datetime) -> int | None:
    if expires_at is None:
        return None
    if not isinstance(expires_at, datetime) or not EARLIEST <= utc(expires_at) <= LATEST:
        raise InvalidInput(f"expires_at must be a datetime, not {expires_at!r:.60}.", field="expires_at")
    if utc(expires_at) <= now:
        raise InvalidInput(f"expires_at is {utc(expires_at).isoformat()}, which has passed.", field="expires_at")
    return instant(expires_at)


def _uses(max_uses: int | None) -> int | None:
    if max_uses is not None and (isinstance(max_uses, bool) or not isinstance(max_uses, int) or not 1 <= max_uses <= MOST_USES):
        raise InvalidInput(f"max_uses must be a whole number from 1 to {MOST_USES:,}, not {max_uses!r:.40}.", field="max_uses")
    return max_uses


# -- revoke grant ------------------------------------------------------------------------------
# Revokes a grant: at once, its schedules pause, what waits under it is cancelled, and what runs is asked to stop.


class Revoked(NamedTuple):
    grant: Grant
    schedules: int
    jobs: int


async def revoke_grant(store: Store, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Revoked:
    grant = await find_grant(store, id_or_prefix)
    entry = AuditEntry("GRANT_REVOKED", "grant", grant.id, actor, reason, tenant_id=grant.tenant_id)
    stopped = await store.grants.revoke(grant.id, entry)
    grant = await find_grant(store, grant.id)
    if stopped is None:
        by = f" by {grant.revoked_by}" if grant.revoked_by else ""
        raise Conflict(f"Grant {grant.id} was already revoked{by}. Nothing runs under it.")
    return Revoked(grant, *stopped)


# -- grants ------------------------------------------------------------------------------------
# Grants and charges as a program uses them: `plane.grants.add(["agent:run:report"])`.


class GrantService:
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
        plane = self._plane
        user_id = None if user is None else (await find_user(self._plane.store, user)).id
        wish = GrantWish(scopes, tenant, billing_account, expires_at, max_uses, user_id, created_by, held)
        return await add_grant(self._plane.store, self._plane.directory, plane.clock, plane._ids, wish)

    async def get(self, id_or_prefix: str) -> Grant:
        return await find_grant(self._plane.store, id_or_prefix)

    async def revoke(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Revoked:
        """Its schedules pause, what waits under it is cancelled, what runs is asked to stop: at once."""
        return await revoke_grant(self._plane.store, id_or_prefix, actor=actor, reason=reason)

    async def list(self, *, tenant: str | None = None, limit: int = 50) -> list[Grant]:
        """Newest first."""
        return await self._plane.store.grants.list(None if tenant is None else await self._plane.directory.tenant(tenant), limit)


class BillingService:
    """Who is charged for runs under grants, and what those have used."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(self, name: str, *, virtual_key: str | None = None, tenant: str = DEFAULT_TENANT) -> BillingAccount:
        """An account that is there already stays as it is."""
        new_id = self._plane._ids
        key = f"vk_{new_id().replace('-', '')}" if virtual_key is None else checked_readable_name(virtual_key, "virtual_key")
        tenant_id = await self._plane.directory.tenant(tenant)
        return await self._plane.store.billing.ensure(new_id(), tenant_id, checked_readable_name(name), key)

    async def receipts(self, run_id: str) -> list[Receipt]:
        return await receipts_of_run(self._plane.store, run_id)

    async def totals(self, *, tenant: str | None = None) -> list[UsageTotal]:
        """By account and unit."""
        return await self._plane.store.billing.totals(None if tenant is None else await self._plane.directory.tenant(tenant))

    async def list(self, *, tenant: str | None = None) -> list[BillingAccount]:
        """By name."""
        return await self._plane.store.billing.list(None if tenant is None else await self._plane.directory.tenant(tenant))
