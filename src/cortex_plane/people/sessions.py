"""Sessions: the conversations and requests that jobs come from.

Sessions: the conversation or request that starts jobs, whose it is, with which agent, and where. Its user is asked where an
approval of these jobs names nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cortex_plane.errors import InvalidInput
from cortex_plane.ids import NewId, is_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, AgentId, NewJob, TenantId
from cortex_plane.people.model import Session, SessionId, SessionNotFound, checked_readable_name
from cortex_plane.people.users import find_user

if TYPE_CHECKING:
    from cortex_plane.stores import Store


async def start_session(
    store: Store,
    new_id: NewId,
    name: str,
    *,
    tenant_id: TenantId = DEFAULT_TENANT_ID,
    agent_id: AgentId | None = None,
    channel: str | None = None,
) -> Session:
    user = await find_user(store, name)
    if user.disabled_at is not None or user.owner_id is not None:
        raise InvalidInput(
            f"{name} is {'disabled' if user.disabled_at else 'a service account'}, and decides nothing.", field="user"
        )
    if channel is not None:
        checked_readable_name(channel, "channel")
    session_id = SessionId(new_id())
    await store.people.add_session(Session(session_id, user.id, agent_id, channel, tenant_id=tenant_id))
    return await find_session(store, session_id)


async def find_session(store: Store, session_id: str, tenant_id: TenantId | None = None) -> Session:
    wanted = str(session_id).strip().lower()
    found = await store.people.get_session(SessionId(wanted)) if is_id(wanted) else None
    if found is None or (tenant_id is not None and found.tenant_id != tenant_id):
        raise SessionNotFound(session_id)
    return found


async def end_session(store: Store, session_id: str, tenant_id: TenantId | None = None) -> Session:
    """No job is submitted from it any more. One that has ended stays so."""
    found = await find_session(store, session_id, tenant_id)
    await store.people.end_session(found.id)
    return await find_session(store, found.id)


async def check_sessions(store: Store, jobs: Iterable[NewJob]) -> None:
    """Raises InvalidInput for a job of a session that there is not, that has ended, or that belongs to another tenant."""
    for session_id, tenant_id in {(job.session_id, job.tenant_id) for job in jobs if job.session_id is not None}:
        found = await store.people.get_session(SessionId(session_id))
        if found is None or found.tenant_id != tenant_id:
            raise InvalidInput(f"There is no session {session_id} in this tenant.", field="session")
        if found.ended_at is not None:
            raise InvalidInput(f"Session {session_id} has ended. Start another: cortex sessions start", field="session")
