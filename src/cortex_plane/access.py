"""`plane.access`: who may do what. Keys for programs, accounts and roles for people, and who is asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cortex_plane.core.access import Account, AddedKey, ApiKey, Credential, SignedIn, digest
from cortex_plane.operations.add_account import add_account, find_account
from cortex_plane.operations.add_api_key import KeyWish, add_api_key
from cortex_plane.operations.give_role import give_role, take_role
from cortex_plane.operations.list_api_keys import list_api_keys
from cortex_plane.operations.revoke_api_key import revoke_api_key
from cortex_plane.operations.set_password import set_password
from cortex_plane.operations.sign_in import TTL_SECONDS, sign_in, sign_out
from cortex_plane.wiring import passwords

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


class Access:
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
        opened = await self._plane._open_here()
        wish = KeyWish(name, roles, tenant, user, ttl_seconds, actor)
        return await add_api_key(opened.store, opened.directory, self._plane._ids, wish)

    async def keys(self, *, tenant: str | None = None, shared: bool = False) -> list[ApiKey]:
        """All of them, or those of one tenant; with `shared` also those that work in every tenant."""
        opened = await self._plane._open_here()
        tenant_id = None if tenant is None else await opened.directory.tenant(tenant)
        return await list_api_keys(opened.store, tenant_id, shared=shared)

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
        opened = await self._plane._open_here()
        tenant_id = None if tenant is None else await opened.directory.tenant(tenant)
        return await revoke_api_key(opened.store, id_or_prefix, tenant_id=tenant_id, shared=shared, actor=actor, reason=reason)

    # -- people ----------------------------------------------------------------------------------

    async def add_user(
        self, name: str, *, display_name: str | None = None, email: str | None = None, actor: str | None = None
    ) -> Account:
        store = await self._plane.store
        return await add_account(store, self._plane._ids, name, display_name=display_name, email=email, actor=actor)

    async def user(self, name: str) -> Account:
        return await find_account(await self._plane.store, name)

    async def set_password(self, name: str, password: str, *, actor: str | None = None) -> None:
        """Signs them out everywhere."""
        await set_password(await self._plane.store, passwords(), name, password, actor=actor)

    async def give_role(self, name: str, role: str, *, tenant: str | None = None, actor: str | None = None) -> Account:
        """Without a tenant it holds in all of them."""
        opened = await self._plane._open_here()
        return await give_role(opened.store, opened.directory, name, role, tenant=tenant, actor=actor)

    async def take_role(self, name: str, role: str, *, tenant: str | None = None, actor: str | None = None) -> Account:
        opened = await self._plane._open_here()
        return await take_role(opened.store, opened.directory, name, role, tenant=tenant, actor=actor)

    # -- who is asking ---------------------------------------------------------------------------

    async def sign_in(self, name: str, password: str, address: str = "", *, ttl_seconds: float = TTL_SECONDS) -> SignedIn:
        return await sign_in(await self._plane.store, passwords(), name, password, address, ttl_seconds=ttl_seconds)

    async def sign_out(self, token: str) -> bool:
        return await sign_out(await self._plane.store, token)

    async def by_key(self, key: str) -> Credential | None:
        """Whose key it is, if it works; its use is noted."""
        return await (await self._plane.store).keys.credential(digest(key))

    async def by_session(self, token: str) -> Credential | None:
        return await (await self._plane.store).sign_ins.credential(digest(token))

    async def somebody_can_get_in(self) -> bool:
        return await (await self._plane.store).http.has_credentials()
