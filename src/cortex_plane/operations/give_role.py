"""Gives a person a role, in one tenant or in all, or takes it away."""

from __future__ import annotations

from cortex_plane.core.access import Account, Role, check_roles
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import TenantId
from cortex_plane.operations.add_account import find_account
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.store import Store


async def give_role(
    store: Store, directory: Directory, name: str, role: str, *, tenant: str | None = None, actor: str | None = None
) -> Account:
    account, checked, tenant_id = await _asked(store, directory, name, role, tenant)
    await store.accounts.give_role(account.id, checked, tenant_id, _entry("ROLE_GIVEN", account, checked, tenant_id, actor))
    return await find_account(store, name)


async def take_role(
    store: Store, directory: Directory, name: str, role: str, *, tenant: str | None = None, actor: str | None = None
) -> Account:
    account, checked, tenant_id = await _asked(store, directory, name, role, tenant)
    await store.accounts.take_role(account.id, checked, tenant_id, _entry("ROLE_TAKEN", account, checked, tenant_id, actor))
    return await find_account(store, name)


async def _asked(
    store: Store, directory: Directory, name: str, role: str, tenant: str | None
) -> tuple[Account, Role, TenantId | None]:
    (checked,) = check_roles([role])
    tenant_id = None if tenant is None else await directory.tenant(tenant)
    return await find_account(store, name), checked, tenant_id


def _entry(action: str, account: Account, role: Role, tenant_id: TenantId | None, actor: str | None) -> AuditEntry:
    details = {"name": account.name, "role": role.value}
    return AuditEntry(action, "user_account", account.id, actor, tenant_id=tenant_id, details=details)
