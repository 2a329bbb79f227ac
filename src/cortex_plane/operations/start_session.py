"""Keeps the conversation or request that starts jobs: whose it is, with which agent, and where."""

from __future__ import annotations

from cortex_plane.core.jobs import AgentId
from cortex_plane.core.people import Session, SessionId
from cortex_plane.operations.find_user import find_user
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store


async def start_session(
    store: Store, new_id: NewId, name: str, *, agent_id: AgentId | None = None, channel: str | None = None
) -> Session:
    user = await find_user(store, name)
    session = Session(SessionId(new_id()), user.id, agent_id, channel)
    await store.people.add_session(session)
    return session
