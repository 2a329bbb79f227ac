"""Add, find, list and disable users; roles, user groups and channel addresses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import InvalidInput
from cortex_plane.people.login import find_account
from cortex_plane.people.model import (
    ChannelId,
    ChannelNotFound,
    ChannelTaken,
    LinkedChannel,
    User,
    UserExists,
    UserGroup,
    UserGroupExists,
    UserGroupId,
    UserGroupNotFound,
    UserId,
    UserNotFound,
    checked_channel,
    checked_email,
    checked_name,
)
from cortex_plane.people.roles import Account, Role, check_roles

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.ids import NewId
    from cortex_plane.jobs.model import TenantId
    from cortex_plane.stores import Store


async def add_user_group(store: Store, new_id: NewId, tenant_id: TenantId, name: str, *, actor: str | None = None) -> UserGroup:
    group = UserGroup(UserGroupId(new_id()), tenant_id, checked_name(name))
    entry = AuditEntry("USER_GROUP_ADDED", "user_group", group.id, actor, tenant_id=tenant_id, details={"name": name})
    await store.people.add_group(group, entry)
    found = await store.people.find_group(tenant_id, name)
    if found is None or found.id != group.id:
        raise UserGroupExists(name)
    return found


# -- give role ---------------------------------------------------------------------------------
# Gives a person a role, in one tenant or in all, or takes it away.


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


# -- list user groups --------------------------------------------------------------------------
# Lists the groups of people that a tenant has, with who is in them.


async def list_user_groups(store: Store, tenant_id: TenantId) -> list[tuple[UserGroup, list[User]]]:
    return [(group, await store.people.members(group.id)) for group in await store.people.list_groups(tenant_id)]


# -- list users --------------------------------------------------------------------------------
# Lists people, by name.


LARGEST_PAGE = 1_000


async def list_users(store: Store, *, after: str = "", limit: int = 100) -> list[User]:
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"limit must be from 1 to {LARGEST_PAGE:,}, not {limit!r:.80}.", field="limit")
    return await store.people.list_users(after=after, limit=limit)


# -- find user ---------------------------------------------------------------------------------
# Finds a person by name.


async def find_user(store: Store, name: str) -> User:
    user = await store.people.find_user(name)
    if user is None:
        raise UserNotFound(name)
    return user


async def find_user_in(store: Store, tenant_id: TenantId, name: str) -> User:
    """Somebody who has a role in the tenant. Anybody else is, for the tenant, not there."""
    user = await find_user(store, name)
    account = await store.accounts.find(name)
    if account is None or not any(given.tenant_id in (None, tenant_id) for given in account.given):
        raise UserNotFound(name)
    return user


# -- add user ----------------------------------------------------------------------------------
# Adds a person who submits, watches or decides, or a service account, which programs act as.


async def add_user(
    store: Store,
    new_id: NewId,
    name: str,
    *,
    display_name: str | None = None,
    email: str | None = None,
    owner: str | None = None,
    actor: str | None = None,
) -> User:
    """With an owner, who must be an admin, it is a service account: programs act as it by its keys."""
    user = User(
        UserId(new_id()),
        checked_name(name),
        None if display_name is None else checked_name(display_name, "display_name"),
        None if email is None else checked_email(email),
        owner_id=None if owner is None else (await checked_owner(store, owner)).id,
    )
    if not await store.people.add_user(user, AuditEntry("USER_ADDED", "user", user.id, actor, details=_details(user, owner))):
        raise UserExists(name)
    return user


async def change_owner(store: Store, name: str, owner: str, *, actor: str | None = None) -> User:
    """Gives a service account to another admin."""
    user = await find_user(store, name)
    if user.owner_id is None:
        raise InvalidInput(f"{name} is a person, and nobody owns a person. Only service accounts have an owner.", field="name")
    new = await checked_owner(store, owner)
    entry = AuditEntry("USER_OWNER_CHANGED", "user", user.id, actor, details=_details(user, owner))
    await store.people.change_owner(user.id, new.id, entry)
    return await find_user(store, name)


async def checked_owner(store: Store, owner: str) -> Account:
    account = await store.accounts.find(owner)
    if account is None:
        raise UserNotFound(owner)
    is_admin = any(given.role is Role.ADMIN for given in account.given)
    if account.owner_id is not None or account.disabled_at is not None or not is_admin:
        raise InvalidInput(f"A service account is owned by a person who is an admin; {owner} is not.", field="owner")
    return account


def _details(user: User, owner: str | None) -> dict[str, str]:
    return {"name": user.name, **({} if owner is None else {"owner": owner})}


# -- join user group ---------------------------------------------------------------------------
# Puts somebody into a group of people, or takes them out again.


async def join_user_group(
    store: Store, tenant_id: TenantId, group: str, name: str, *, actor: str | None = None, only_here: bool = False
) -> bool:
    """False when they are in it already. `only_here`: somebody without a role in the tenant is not found."""
    found, user = await _both(store, tenant_id, group, name)
    if only_here:
        await find_user_in(store, tenant_id, name)
    return await store.people.add_member(found.id, user.id, _membership_entry("USER_GROUP_JOINED", found, user, actor))


async def leave_user_group(
    store: Store, tenant_id: TenantId, group: str, name: str, *, actor: str | None = None, only_here: bool = False
) -> bool:
    """`only_here`: somebody who is neither in the group nor has a role in the tenant is not found."""
    found, user = await _both(store, tenant_id, group, name)
    if only_here and user.id not in {member.id for member in await store.people.members(found.id)}:
        await find_user_in(store, tenant_id, name)
    return await store.people.remove_member(found.id, user.id, _membership_entry("USER_GROUP_LEFT", found, user, actor))


async def _both(store: Store, tenant_id: TenantId, group: str, name: str) -> tuple[UserGroup, User]:
    found = await store.people.find_group(tenant_id, group)
    if found is None:
        raise UserGroupNotFound(group)
    return found, await find_user(store, name)


def _membership_entry(action: str, group: UserGroup, user: User, actor: str | None) -> AuditEntry:
    details = {"group": group.name, "user": user.name}
    return AuditEntry(action, "user_group", group.id, actor, tenant_id=group.tenant_id, details=details)


# -- link channel ------------------------------------------------------------------------------
# Links an address to a person, so that requests reach them there, or unlinks it.


async def link_channel(
    store: Store,
    new_id: NewId,
    name: str,
    channel_type: str,
    channel_user_id: str,
    *,
    registered: Iterable[str] = (),
    actor: str | None = None,
) -> LinkedChannel:
    """`registered` are the types of channels that the plane has besides the built-in ones."""
    kind, address = checked_channel(channel_type, channel_user_id, registered)
    user = await find_user(store, name)
    channel = LinkedChannel(ChannelId(new_id()), user.id, kind, address)
    entry = AuditEntry("CHANNEL_LINKED", "user", user.id, actor, details={"channel_id": channel.id, "channel_type": kind})
    if not await store.people.link_channel(channel, entry):
        raise ChannelTaken(kind)
    return channel


async def unlink_channel(store: Store, name: str, channel_id: ChannelId, *, actor: str | None = None) -> None:
    """Only one of this person's own."""
    user = await find_user(store, name)
    entry = AuditEntry("CHANNEL_UNLINKED", "user", user.id, actor, details={"channel_id": channel_id})
    own = {channel.id for channel in await store.people.channels(user.id)}
    if channel_id not in own or not await store.people.unlink_channel(channel_id, entry):
        raise ChannelNotFound(channel_id)


# -- switch user -------------------------------------------------------------------------------
# Disables an account, so that it may do nothing from now on, or enables it again. Its keys, sign-ins, sessions and the tokens
# that were sent to it end when it is disabled, and do not come back when it is enabled: they are made anew.


async def disable_user(store: Store, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
    """False when it was disabled already."""
    user = await find_user(store, name)
    return await store.people.disable_user(user.id, AuditEntry("USER_DISABLED", "user", user.id, actor, reason))


async def enable_user(store: Store, name: str, *, actor: str | None = None, reason: str | None = None) -> bool:
    user = await find_user(store, name)
    return await store.people.enable_user(user.id, AuditEntry("USER_ENABLED", "user", user.id, actor, reason))
