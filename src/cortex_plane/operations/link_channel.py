"""Links an address to a person, so that requests reach them there, or unlinks it."""

from __future__ import annotations

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.people import ChannelId, ChannelNotFound, ChannelTaken, LinkedChannel, checked_channel
from cortex_plane.operations.find_user import find_user
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def link_channel(
    store: Store, new_id: NewId, name: str, channel_type: str, channel_user_id: str, *, actor: str | None = None
) -> LinkedChannel:
    kind, address = checked_channel(channel_type, channel_user_id)
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
