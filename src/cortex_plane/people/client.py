"""People, access, tenants, budgets and retention through a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import NoneType
from typing import TYPE_CHECKING, cast

from cortex_plane.costs.model import Budget, CostTotal
from cortex_plane.costs.service import CostService, one_of
from cortex_plane.cursors import cursor_for
from cortex_plane.errors import Denied, InvalidInput
from cortex_plane.jobs.model import TenantId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.people.erasing import Erased
from cortex_plane.people.keys import AccessService, key_named
from cortex_plane.people.model import OWN_TENANT, LinkedChannel, Session, Tenant, TenantOverview, User, UserGroup
from cortex_plane.people.roles import Account, AddedKey, ApiKey, check_roles
from cortex_plane.people.service import PeopleService
from cortex_plane.people.tenants import TenantService
from cortex_plane.queues.model import OnExhausted
from cortex_plane.remote import given, read_pages
from cortex_plane.retention.model import RecordKind, RetentionRule, check_record
from cortex_plane.retention.service import RetentionService, rule_named

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


@dataclass(frozen=True, slots=True)
class _Me:
    user: str | None = None


class PeopleClient(PeopleService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def myself(self) -> str:
        name = (await self._server.get(_Me, "me")).user
        if name is None:
            raise Denied(
                "This API key belongs to no person, and an approval is a person's decision. To make one that does: "
                "cortex keys add NAME --user NAME --role approver"
            )
        return name

    async def add(
        self,
        name: str,
        *,
        display_name: str | None = None,
        email: str | None = None,
        owner: str | None = None,
        actor: str | None = None,
    ) -> User:
        body = given(name=name, display_name=display_name, email=email, owner=owner)
        return await self._server.create(User, "users", body=body)

    async def change_owner(self, name: str, owner: str, *, actor: str | None = None) -> User:
        return await self._server.put(User, "users", name, "owner", body={"owner": owner})

    async def get(self, name: str) -> User:
        return await self._server.get(User, "users", name)

    async def disable(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        before = await self.get(name)
        await self._server.post(User, "users", name, "disable", body=given(reason=reason))
        return before.disabled_at is None

    async def erase(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Erased:
        return await self._server.post(Erased, "users", name, "erase", body=given(reason=reason))

    async def enable(self, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
        before = await self.get(name)
        await self._server.post(User, "users", name, "enable", body=given(reason=reason))
        return before.disabled_at is not None

    # -- where they are reached ------------------------------------------------------------------

    async def link(self, name: str, channel_type: str, address: str, *, actor: str | None = None) -> LinkedChannel:
        body = {"channel_type": channel_type, "address": address}
        return await self._server.create(LinkedChannel, "users", name, "channels", body=body)

    async def unlink(self, name: str, channel_id: str, *, actor: str | None = None) -> None:
        await self._server.delete(NoneType, "users", name, "channels", channel_id)

    async def channels(self, name: str) -> Sequence[LinkedChannel]:
        return await self._server.get(list[LinkedChannel], "users", name, "channels")

    # -- groups ----------------------------------------------------------------------------------

    async def add_group(self, name: str, *, tenant: str = OWN_TENANT, actor: str | None = None) -> UserGroup:
        return await self._server.create(UserGroup, "user-groups", body={"name": name}, tenant=tenant)

    async def groups(self, *, tenant: str = OWN_TENANT) -> Sequence[tuple[UserGroup, Sequence[User]]]:
        found = await self._server.get(list[UserGroup], "user-groups", tenant=tenant)
        return [(group, await self._members(group.name, tenant)) for group in found]

    async def join(self, group: str, name: str, *, tenant: str = OWN_TENANT, actor: str | None = None) -> bool:
        before = await self._members(group, tenant)
        await self._server.put(NoneType, "user-groups", group, "members", name, tenant=tenant)
        return all(user.name != name for user in before)

    async def leave(self, group: str, name: str, *, tenant: str = OWN_TENANT, actor: str | None = None) -> bool:
        before = await self._members(group, tenant)
        await self._server.delete(NoneType, "user-groups", group, "members", name, tenant=tenant)
        return any(user.name == name for user in before)

    async def _members(self, group: str, tenant: str) -> Sequence[User]:
        return await self._server.get(list[User], "user-groups", group, "members", tenant=tenant)

    # -- conversations ---------------------------------------------------------------------------

    async def start_session(
        self, name: str, *, agent: str | None = None, channel: str | None = None, tenant: str = OWN_TENANT
    ) -> Session:
        body = given(user=name, agent=agent, channel=channel)
        return await self._server.create(Session, "sessions", body=body, tenant=tenant)

    async def session(self, session_id: str) -> Session:
        return await self._server.get(Session, "sessions", session_id)

    async def sessions(self, name: str | None = None, *, tenant: str = OWN_TENANT, limit: int = 50) -> Sequence[Session]:
        return await read_pages(self._server, Session, "sessions", limit=limit, tenant=tenant, **given(user=name))

    async def end_session(self, session_id: str) -> Session:
        return await self._server.post(Session, "sessions", session_id, "end")

    async def list(self, *, after: str = "", limit: int = 100) -> list[User]:
        cursor = cursor_for("user", after) if after else None
        return await read_pages(self._server, User, "users", limit=limit, cursor=cursor)


# -- access ------------------------------------------------------------------------------------
# Keys, accounts and roles through a server.


@dataclass(frozen=True, slots=True)
class ShownKey:
    """`secret` is None when the same request was answered before, and the answer was lost on the way."""

    key: ApiKey
    secret: str | None


class AccessClient(AccessService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

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
        if tenant is None:
            raise InvalidInput(
                "Through a server, a key is made for one tenant: say --tenant NAME. Others are made where the database is.",
                field="tenant",
            )
        body = given(name=name, roles=list(check_roles(roles)), user=user, ttl_seconds=ttl_seconds)
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


# -- tenants -----------------------------------------------------------------------------------
# Tenants, budgets and retention through a server: what belongs to the whole installation.


@dataclass(frozen=True, slots=True)
class Added:
    id: TenantId
    name: str


class TenantClient(TenantService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def add(self, name: str, *, actor: str | None = None, reason: str | None = None) -> TenantId:
        return (await self._server.create(Added, "tenants", body=given(name=name, reason=reason))).id

    async def erase(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Erased:
        return await self._server.post(Erased, "tenants", name, "erase", body=given(reason=reason))

    async def get(self, name: str) -> TenantOverview:
        return await self._server.get(TenantOverview, "tenants", name)

    async def list(self) -> list[Tenant]:
        return await self._server.get(list[Tenant], "tenants")


class CostClient(CostService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def totals(self, *, tenant: str | None = None, agent: str | None = None) -> list[CostTotal]:
        return await self._server.get(list[CostTotal], "costs", tenant=tenant, agent=agent)

    async def budgets(self) -> list[Budget]:
        return await self._server.get(list[Budget], "budgets")

    async def set_budget(
        self,
        cents: int,
        *,
        agent: str | None = None,
        tenant: str | None = None,
        on_exhausted: OnExhausted = "refuse",
        actor: str | None = None,
        reason: str | None = None,
    ) -> Budget:
        scope, name = one_of(agent, tenant)
        body = given(cents=cents, on_exhausted=on_exhausted, reason=reason)
        return await self._server.put(Budget, "budgets", scope.value, name, body=body)

    async def remove_budget(
        self, *, agent: str | None = None, tenant: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> None:
        scope, name = one_of(agent, tenant)
        await self._server.delete(NoneType, "budgets", scope.value, name, reason=reason)


class RetentionClient(RetentionService):
    """Deleting at once needs the database; workers do it by themselves."""

    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def add(
        self,
        keep: float | timedelta,
        *,
        tenant: str | None = None,
        agent: str | None = None,
        status: JobStatus | str | None = None,
        record: RecordKind | str = RecordKind.JOB,
        actor: str | None = None,
        reason: str | None = None,
    ) -> RetentionRule:
        kind = check_record(record, tenant=tenant, agent=agent, status=status)
        body = given(keep_seconds=keep, for_tenant=tenant, for_agent=agent, for_status=status, record=kind, reason=reason)
        return await self._server.create(RetentionRule, "retention", body=body)

    async def remove(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> RetentionRule:
        rule = rule_named(id_or_prefix, await self.list())
        return await self._server.delete(RetentionRule, "retention", rule.id, reason=reason)

    async def list(self) -> list[RetentionRule]:
        return await self._server.get(list[RetentionRule], "retention")
