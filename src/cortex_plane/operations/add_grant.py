"""Adds a grant: what may be run, for how long, how often, and who is charged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.billing import DEFAULT_ACCOUNT, AccountNotFound, BillingAccount
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.grants import Grant, GrantId, NewGrant, check_scopes, check_within
from cortex_plane.core.instants import EARLIEST, LATEST, as_datetime, instant
from cortex_plane.core.jobs import DEFAULT_TENANT, TenantId
from cortex_plane.core.slots import utc
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.find_grant import find_grant
from cortex_plane.operations.names import checked_readable_name
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.store import Store

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
        raise AccountNotFound(name)
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
