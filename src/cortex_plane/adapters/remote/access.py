"""Keys, accounts and roles through a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING

from cortex_plane.access import Access
from cortex_plane.adapters.remote.bodies import given
from cortex_plane.adapters.remote.server import Server
from cortex_plane.core.access import Account, AddedKey, ApiKey, check_roles
from cortex_plane.core.errors import InvalidInput
from cortex_plane.operations.revoke_api_key import key_named

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


@dataclass(frozen=True, slots=True)
class ShownKey:
    """`secret` is None when the same request was answered before, and the answer was lost on the way."""

    key: ApiKey
    secret: str | None


class RemoteAccess(Access):
    def __init__(self, plane: Plane, server: Server) -> None:
        super().__init__(plane)
        self._server = server

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
        if tenant is None or user is not None:
            raise InvalidInput(
                "Through a server, a key is made for one tenant and for no user: say --tenant NAME, and leave out --user. "
                "Others are made where the database is.",
                field="user" if user is not None else "tenant",
            )
        body = given(name=name, roles=list(check_roles(roles)), ttl_seconds=ttl_seconds)
        made = await self._server.create(ShownKey, "keys", body=body, tenant=tenant)
        if made.secret is None:
            raise InvalidInput(
                f"The answer with the key was lost on the way. Revoke it, and make another: cortex keys revoke {made.key.prefix}"
            )
        return AddedKey(made.key, made.secret)

    async def keys(self, *, tenant: str | None = None, shared: bool = False) -> list[ApiKey]:
        """Those of one tenant. Where none is named, an admin of all tenants also sees those that work in every tenant."""
        keys = await self._server.get(list[ApiKey], "keys", tenant=tenant)
        return keys if tenant is None or shared else [key for key in keys if key.tenant is not None]

    async def revoke_key(
        self,
        id_or_prefix: str,
        *,
        tenant: str | None = None,
        shared: bool = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ApiKey:
        key = key_named(id_or_prefix, await self.keys(tenant=tenant, shared=shared))
        return await self._server.delete(ApiKey, "keys", key.id, tenant=tenant, reason=reason)

    async def add_user(
        self, name: str, *, display_name: str | None = None, email: str | None = None, actor: str | None = None
    ) -> Account:
        return await self._server.create(Account, "users", body=given(name=name, display_name=display_name, email=email))

    async def user(self, name: str) -> Account:
        return await self._server.get(Account, "users", name)

    async def set_password(self, name: str, password: str, *, actor: str | None = None) -> None:
        await self._server.put(NoneType, "users", name, "password", body={"password": password})

    async def give_role(self, name: str, role: str, *, tenant: str | None = None, actor: str | None = None) -> Account:
        return await self._change_role(name, "give-role", role, tenant)

    async def take_role(self, name: str, role: str, *, tenant: str | None = None, actor: str | None = None) -> Account:
        return await self._change_role(name, "take-role", role, tenant)

    async def _change_role(self, name: str, verb: str, role: str, tenant: str | None) -> Account:
        [checked] = check_roles([role])
        body = {"role": checked.value, "everywhere": tenant is None}
        return await self._server.post(Account, "users", name, verb, body=body, tenant=tenant)
