"""Decides by a button in a chat: whoever pressed it must be the one whom the message was for."""

from __future__ import annotations

from cortex_plane.core.approval_messages import Click
from cortex_plane.core.decisions import Answer, NotAllowed, Unknown
from cortex_plane.operations.decide_approval import decide_by_token, look_by_token
from cortex_plane.ports.store import Store

NOT_YOURS = NotAllowed("This was sent to somebody else. Whoever it was sent to must decide; you may have a message of your own.")


async def decide_by_click(store: Store, channel_type: str, click: Click) -> Answer:
    """A message may have been forwarded, or stand in a room of many: its token alone is not enough there."""
    found = await look_by_token(store, click.token)
    if found is None:
        return Unknown()
    _, addressee = found
    who = await store.people.find_by_channel(channel_type, click.channel_user_id)
    if who is None or who.id != addressee:
        return NOT_YOURS
    return await decide_by_token(store, click.token, click.decision, door=channel_type)
