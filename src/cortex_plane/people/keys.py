"""`plane.access`: accounts, roles and API keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from secrets import token_bytes
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import Denied, InvalidInput
from cortex_plane.people.login import TTL_SECONDS, add_account, find_account, set_password, sign_in, sign_out
from cortex_plane.people.model import UserId, checked_readable_name
from cortex_plane.people.roles import (
    KEY_BYTES,
    SHOWN_CHARACTERS,
    Account,
    AccountNotFound,
    AddedKey,
    ApiKey,
    ApiKeyId,
    ApiKeyNotFound,
    Credential,
    GivenRole,
    NewApiKey,
    Role,
    SignedIn,
    check_roles,
    digest,
    new_key,
    within,
)
from cortex_plane.people.users import give_role, take_role
from cortex_plane.wiring import passwords

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.ids import NewId
    from cortex_plane.jobs.model import TenantId
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


async def list_api_keys(store: Store, tenant_id: TenantId | None = None, *, shared: bool = False) -> list[ApiKey]:
    """All of them, or those of one tenant; with `shared` also those that work in every tenant."""
    if tenant_id is None or not shared:
        return await store.keys.list(tenant_id)
    return [key for key in await store.keys.list() if key.tenant_id in {None, tenant_id}]


# -- revoke api key ----------------------------------------------------------------------------
# Takes an API key back. It stays in the list, so that what it did can still be told.


SHORTEST_PART = 4


async def revoke_api_key(
    store: Store,
    id_or_prefix: str,
    *,
    tenant_id: TenantId | None = None,
    shared: bool = False,
    actor: str | None = None,
    reason: str | None = None,
) -> ApiKey:
    """One that is revoked already stays so, from the moment when it first was."""
    key = await find_api_key(store, id_or_prefix, tenant_id, shared=shared)
    details = {"name": key.name, "prefix": key.prefix}
    entry = AuditEntry("API_KEY_REVOKED", "api_key", key.id, actor, reason, tenant_id=key.tenant_id, details=details)
    await store.keys.revoke(key.id, entry)
    return await find_api_key(store, key.id, tenant_id, shared=shared)


async def find_api_key(store: Store, id_or_prefix: str, tenant_id: TenantId | None = None, *, shared: bool = False) -> ApiKey:
    return key_named(id_or_prefix, await list_api_keys(store, tenant_id, shared=shared))


def key_named(id_or_prefix: str, keys: Sequence[ApiKey]) -> ApiKey:
    """By its id, its name, or the first part of either the id or the key, as a list shows them."""
    wanted = id_or_prefix.strip()
    exact = [key for key in keys if wanted in (key.id, key.prefix)] or [key for key in keys if key.name == wanted]
    found = exact or [key for key in keys if len(wanted) >= SHORTEST_PART and key.id.startswith(wanted)]
    if not found:
        raise ApiKeyNotFound(id_or_prefix)
    if len(found) > 1:
        names = ", ".join(key.prefix for key in found[:3])
        raise InvalidInput(f"{wanted} matches {len(found)} keys: {names}. Give the id or the prefix.", field="id")
    return found[0]


# -- add api key -------------------------------------------------------------------------------
# Makes an API key. It is shown once; what is kept is its beginning, to know it by, and its hash.


LONGEST_TTL_SECONDS = 100 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class KeyWish:
    """Without a tenant it works in all of them; without a time it works for ever; without a user it is the installation's own."""

    name: str
    roles: Sequence[str]
    tenant: str | None = None
    user: str | None = None
    ttl_seconds: float | None = None
    created_by: str | None = None


async def add_api_key(
    store: Store, directory: Directory, new_id: NewId, wish: KeyWish, random_bytes: Callable[[int], bytes] = token_bytes
) -> AddedKey:
    secret = new_key(random_bytes(KEY_BYTES))
    account = None if wish.user is None else await store.accounts.find(wish.user)
    if wish.user is not None and account is None:
        raise AccountNotFound(wish.user)
    if account is not None and account.disabled_at is not None:
        raise InvalidInput(f"{account.name} is disabled. First: cortex users enable {account.name}", field="user")
    roles = check_roles(wish.roles)
    tenant_id = None if wish.tenant is None else await directory.tenant(wish.tenant)
    if account is not None:
        _check_held(account, roles, tenant_id, wish.tenant)
    key = NewApiKey(
        id=ApiKeyId(new_id()),
        name=checked_readable_name(wish.name),
        prefix=secret[:SHOWN_CHARACTERS],
        hash=digest(secret),
        roles=roles,
        tenant_id=tenant_id,
        user_id=None if account is None else account.id,
        created_by=wish.created_by,
        ttl_seconds=_checked_ttl(wish.ttl_seconds),
    )
    details = {"name": key.name, "prefix": key.prefix, "roles": list(key.roles), "owner": wish.user}
    entry = AuditEntry("API_KEY_ADDED", "api_key", key.id, wish.created_by, tenant_id=key.tenant_id, details=details)
    await store.keys.add(key, entry)
    return AddedKey(await find_api_key(store, key.id), secret)


async def owner_for(store: Store, maker: UserId | None, tenant_id: TenantId, wanted: str | None) -> str | None:
    """Whose key somebody who came by a key or a cookie may make: their own, or that of a service account of their tenant. None:
    nobody's, made by a key that is nobody's itself."""
    me = None if maker is None else await store.people.get_user(maker)
    if wanted is None or (me is not None and wanted == me.name):
        return None if me is None else me.name
    account = await store.accounts.find(wanted)
    if account is None or not _is_known_in(account, tenant_id, maker):
        raise AccountNotFound(wanted)
    if account.owner_id is None:
        raise Denied(
            f"A key belongs to whoever makes it, or to a service account: {wanted} makes their own. "
            "For a program that no person stands for: cortex users add NAME --owner ADMIN"
        )
    return account.name


def _is_known_in(account: Account, tenant_id: TenantId, maker: UserId | None) -> bool:
    return account.owner_id == maker or any(given.tenant_id in (None, tenant_id) for given in account.given)


def _check_held(account: Account, roles: Sequence[Role], tenant_id: TenantId | None, tenant: str | None) -> None:
    """A role that its owner does not have would be no role of the key either. But to decide what they are asked by name, nobody
    needs a role."""
    for role in roles:
        if role is Role.APPROVER and account.owner_id is None:
            continue
        asked = GivenRole(role, tenant_id, tenant)
        if asked not in within([asked], account.given):
            where = "all tenants" if tenant is None else tenant
            raise InvalidInput(
                f"{account.name} is not {role} in {where}, and a key never may more than its owner. Give the role first: "
                f"cortex users add-role {account.name} {role}" + ("" if tenant is None else f" --tenant {tenant}"),
                field="roles",
            )


def _checked_ttl(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds):
        raise InvalidInput(f"ttl_seconds must be a number of seconds, not {seconds!r:.60}.", field="ttl_seconds")
    if not 0 < seconds <= LONGEST_TTL_SECONDS:
        raise InvalidInput("ttl_seconds must be more than 0 and at most 100 years.", field="ttl_seconds")
    return float(seconds)


# -- access ------------------------------------------------------------------------------------
# `plane.access`: who may do what. Keys for programs, accounts and roles for people, and who is asking.


class AccessService:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    # -- keys ------------------------------------------------------------------------------------

    async def add_key(
        self,
        name: str,
        roles: Sequence[str],
        *,
        tenant: str | None = None,
        user: str | None = None,
        ttl_seconds: float | None = None,
        actor: str | None = None,
    ) -> AddedKey:
        """Without a tenant it works in all of them. The key is shown only here."""
        wish = KeyWish(name, roles, tenant, user, ttl_seconds, actor)
        return await add_api_key(self._plane.store, self._plane.directory, self._plane._ids, wish)

    async def keys(self, *, tenant: str | None = None, shared: bool = False) -> list[ApiKey]:
        """All of them, or those of one tenant; with `shared` also those that work in every tenant."""
        tenant_id = None if tenant is None else await self._plane.directory.tenant(tenant)
        return await list_api_keys(self._plane.store, tenant_id, shared=shared)

    async def revoke_key(
        self,
        id_or_prefix: str,
        *,
        tenant: str | None = None,
        shared: bool = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ApiKey:
        """With a tenant, only a key of that tenant is found; with `shared` also one that works in every tenant."""
        tenant_id = None if tenant is None else await self._plane.directory.tenant(tenant)
        return await revoke_api_key(
            self._plane.store, id_or_prefix, tenant_id=tenant_id, shared=shared, actor=actor, reason=reason
        )

    # -- people ----------------------------------------------------------------------------------

    async def add_user(
        self, name: str, *, display_name: str | None = None, email: str | None = None, actor: str | None = None
    ) -> Account:
        store = self._plane.store
        return await add_account(store, self._plane._ids, name, display_name=display_name, email=email, actor=actor)

    async def user(self, name: str) -> Account:
        return await find_account(self._plane.store, name)

    async def set_password(self, name: str, password: str, *, actor: str | None = None) -> None:
        """Signs them out everywhere."""
        await set_password(self._plane.store, passwords(), name, password, actor=actor)

    async def give_role(self, name: str, role: str, *, tenant: str | None = None, actor: str | None = None) -> Account:
        """Without a tenant it holds in all of them."""
        return await give_role(self._plane.store, self._plane.directory, name, role, tenant=tenant, actor=actor)

    async def take_role(self, name: str, role: str, *, tenant: str | None = None, actor: str | None = None) -> Account:
        return await take_role(self._plane.store, self._plane.directory, name, role, tenant=tenant, actor=actor)

    # -- who is asking ---------------------------------------------------------------------------

    async def sign_in(self, name: str, password: str, address: str = "", *, ttl_seconds: float = TTL_SECONDS) -> SignedIn:
        return await sign_in(self._plane.store, passwords(), name, password, address, ttl_seconds=ttl_seconds)

    async def sign_out(self, token: str) -> bool:
        return await sign_out(self._plane.store, token)

    async def by_key(self, key: str) -> Credential | None:
        """Whose key it is, if it works; its use is noted."""
        return await self._plane.store.keys.credential(digest(key))

    async def by_session(self, token: str) -> Credential | None:
        return await self._plane.store.sign_ins.credential(digest(token))

    async def somebody_can_get_in(self) -> bool:
        return await self._plane.store.http.has_credentials()
