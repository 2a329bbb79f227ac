"""People: unique names, groups of a tenant, addresses that belong to one person, and the sessions that start jobs."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.errors import InvalidInput
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from cortex_plane.people.model import (
    ChannelNotFound,
    ChannelTaken,
    SessionId,
    User,
    UserExists,
    UserGroupExists,
    UserGroupNotFound,
    UserId,
    UserNotFound,
)
from cortex_plane.people.sessions import start_session
from cortex_plane.people.users import (
    add_user,
    add_user_group,
    disable_user,
    enable_user,
    join_user_group,
    leave_user_group,
    link_channel,
    unlink_channel,
)
from cortex_plane.stores import Store
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio


async def audited(store: Store, object_id: str) -> list[str]:
    return [record.entry.action for record in await store.audit.list(object_id)]


async def test_a_person_is_added_once(scene: Scene, store: Store) -> None:
    user = await add_user(store, new_id, "ann", display_name="Ann Example", email="ann@example.com", actor="ops")

    assert await store.people.find_user("ann") == User(user.id, "ann", "Ann Example", "ann@example.com", scene.now)
    assert await store.people.get_user(user.id) == await store.people.find_user("ann")
    with pytest.raises(UserExists):
        await add_user(store, new_id, "ann")
    assert await audited(store, user.id) == ["USER_ADDED"]
    assert await store.people.find_user("ben") is None
    assert await store.people.get_user(UserId(new_id())) is None


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("name", {"name": ""}),
        ("name", {"name": " ann"}),
        ("name", {"name": "group:ops"}),
        ("name", {"name": "a" * 101}),
        ("name", {"name": None}),
        ("display_name", {"name": "ann", "display_name": "Ann\nExample"}),
        ("email", {"name": "ann", "email": "ann"}),
    ],
)
async def test_a_wrong_name_or_address_is_refused(store: Store, field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        await add_user(store, new_id, **fields)

    assert refused.value.field == field
    assert await store.people.list_users() == []


async def test_people_are_listed_by_name_in_pages(store: Store) -> None:
    for name in ("cem", "ann", "ben"):
        await add_user(store, new_id, name)

    assert [user.name for user in await store.people.list_users(limit=2)] == ["ann", "ben"]
    assert [user.name for user in await store.people.list_users(after="ben")] == ["cem"]


async def test_an_account_is_disabled_and_enabled_again(scene: Scene, store: Store) -> None:
    user = await add_user(store, new_id, "ann")

    assert [await disable_user(store, "ann", actor="ops"), await disable_user(store, "ann")] == [True, False]
    found = await store.people.find_user("ann")
    assert found is not None
    assert found.disabled_at == scene.now
    assert [await enable_user(store, "ann"), await enable_user(store, "ann")] == [True, False]
    assert await audited(store, user.id) == ["USER_ADDED", "USER_DISABLED", "USER_ENABLED"]
    with pytest.raises(UserNotFound):
        await disable_user(store, "ben")


async def test_a_group_belongs_to_a_tenant(scene: Scene, store: Store) -> None:
    there = await scene.tenant("there")
    ops = await add_user_group(store, new_id, DEFAULT_TENANT_ID, "ops", actor="ann")
    theirs = await add_user_group(store, new_id, there, "ops")

    found = await store.people.find_group(there, "ops")
    assert found is not None
    assert found.id == theirs.id
    assert [group.id for group in await store.people.list_groups(DEFAULT_TENANT_ID)] == [ops.id]
    with pytest.raises(UserGroupExists):
        await add_user_group(store, new_id, there, "ops")
    assert await audited(store, ops.id) == ["USER_GROUP_ADDED"]


async def test_people_join_and_leave_a_group(store: Store) -> None:
    ops = await add_user_group(store, new_id, DEFAULT_TENANT_ID, "ops")
    for name in ("ben", "ann"):
        await add_user(store, new_id, name)
        assert await join_user_group(store, DEFAULT_TENANT_ID, "ops", name)

    assert not await join_user_group(store, DEFAULT_TENANT_ID, "ops", "ann")
    assert [user.name for user in await store.people.members(ops.id)] == ["ann", "ben"]
    assert await leave_user_group(store, DEFAULT_TENANT_ID, "ops", "ann")
    assert not await leave_user_group(store, DEFAULT_TENANT_ID, "ops", "ann")
    assert [user.name for user in await store.people.members(ops.id)] == ["ben"]
    with pytest.raises(UserGroupNotFound):
        await join_user_group(store, DEFAULT_TENANT_ID, "chiefs", "ann")
    assert (await audited(store, ops.id)).count("USER_GROUP_JOINED") == 2


async def test_an_address_belongs_to_one_person(store: Store) -> None:
    ann, ben = await add_user(store, new_id, "ann"), await add_user(store, new_id, "ben")
    linked = await link_channel(store, new_id, "ann", "telegram", "42", actor="ann")
    await link_channel(store, new_id, "ann", "email", "ann@example.com")

    with pytest.raises(ChannelTaken):
        await link_channel(store, new_id, "ben", "telegram", "42")
    assert [channel.channel_type for channel in await store.people.channels(ann.id)] == ["email", "telegram"]
    assert await store.people.channels(ben.id) == []
    owner = await store.people.find_by_channel("telegram", "42")
    assert owner is not None
    assert owner.id == ann.id
    assert await store.people.find_by_channel("slack", "42") is None
    with pytest.raises(ChannelNotFound):
        await unlink_channel(store, "ben", linked.id)
    await unlink_channel(store, "ann", linked.id)
    with pytest.raises(ChannelNotFound):
        await unlink_channel(store, "ann", linked.id)
    await link_channel(store, new_id, "ben", "telegram", "42")


@pytest.mark.parametrize(
    ("channel_type", "address", "field"),
    [
        ("fax", "42", "channel_type"),
        ("telegram", "", "channel_user_id"),
        ("email", "ann", "email"),
        ("slack", 7, "channel_user_id"),
    ],
)
async def test_a_wrong_address_is_refused_without_repeating_it(store: Store, channel_type: str, address: Any, field: str) -> None:
    await add_user(store, new_id, "ann")

    with pytest.raises(InvalidInput) as refused:
        await link_channel(store, new_id, "ann", channel_type, address)

    assert refused.value.field == field


async def test_no_audit_entry_holds_an_address(store: Store) -> None:
    ann = await add_user(store, new_id, "ann", email="ann@example.com")
    await link_channel(store, new_id, "ann", "webhook", "https://hooks.example.com/secret")

    entries = [record.entry for record in await store.audit.list(ann.id)]
    assert "example.com" not in str(entries)


async def test_a_session_is_kept_with_its_user(scene: Scene, store: Store) -> None:
    ann = await add_user(store, new_id, "ann")
    agent_id = await scene.agent()

    session = await start_session(store, new_id, "ann", agent_id=agent_id, channel="slack")

    found = await store.people.get_session(session.id)
    assert found is not None
    assert (found.user_account_id, found.agent_id, found.channel, found.created_at) == (ann.id, agent_id, "slack", scene.now)
    await store.people.add_session(session)
    assert await store.people.get_session(SessionId(new_id())) is None
