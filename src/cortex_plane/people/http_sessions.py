"""Sessions: the conversations that jobs come out of. Not to be confused with being signed in, which is /session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from cortex_plane.cursors import cursor_for
from cortex_plane.errors import Conflict
from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import Cursor, IdPath, Input, Limit, Name, NameQuery, Page, id_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.jobs.http_inputs import SubmitJob
from cortex_plane.people.model import Session, SessionId, SessionNotFound, User, UserId, UserNotFound
from cortex_plane.people.roles import Caller, Role, RoleMissing
from cortex_plane.people.sessions import end_session, find_session, start_session
from cortex_plane.plane import Plane

sessions_router = APIRouter(prefix=f"{PREFIX}/sessions", tags=["sessions"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Submitter = Annotated[Caller, require(Role.SUBMITTER)]


class NewSession(Input):
    user: Name | None = Field(default=None, description="Whose conversation it is; otherwise yours. Another's: for operators.")
    agent: Name | None = Field(default=None, description="The agent that is spoken to.")
    channel: Name | None = Field(default=None, description="Where it takes place.", examples=["slack"])


@sessions_router.post("", status_code=201, response_model=Session)
async def start(
    request: Request, caller: Submitter, plane: ThePlane, body: NewSession, idempotency_key: IdempotencyKey = None
) -> Response:
    """Starts a session. Jobs that are submitted with its id ask its user where an approval names nobody."""
    user = await _whose(plane, caller, body.user)

    async def work(ids: NewId) -> Session:
        agent_id = None if body.agent is None else (await plane.directory.agent(body.agent)).id
        return await start_session(
            plane.store, ids, user.name, tenant_id=caller.tenant_id, agent_id=agent_id, channel=body.channel
        )

    return await created(request, caller, idempotency_key, Session, work, location="/api/v1/sessions/{id}")


@sessions_router.get("")
async def list_sessions(
    caller: Viewer, plane: ThePlane, user: NameQuery = None, limit: Limit = 50, cursor: Cursor = None
) -> Page[Session]:
    """Sessions, newest first: your own; for operators all of the tenant, or those of one person."""
    of_all = caller.may(Role.OPERATOR) and user is None
    user_id = None if of_all else (await _whose(plane, caller, user)).id
    before = id_in("session", cursor)
    store = plane.store
    found = await store.people.list_sessions(
        caller.tenant_id, user_id, before=None if before is None else SessionId(before), limit=limit
    )
    return Page(items=found, next=cursor_for("session", found[-1].id) if len(found) == limit else None)


@sessions_router.get("/{session_id}")
async def get_session(caller: Viewer, plane: ThePlane, session_id: IdPath) -> Session:
    """One session: your own, or for operators any of the tenant."""
    return await session_of(plane, caller, session_id)


@sessions_router.post("/{session_id}/end")
async def end(caller: Submitter, plane: ThePlane, session_id: IdPath) -> Session:
    """Ends it: no job is submitted from it any more, and its user is not asked by default."""
    return await end_session(plane.store, (await session_of(plane, caller, session_id)).id)


async def session_of(plane: Plane, caller: Caller, session_id: str) -> Session:
    found = await find_session(plane.store, session_id, caller.tenant_id)
    if found.user_account_id != caller.user_id and not caller.may(Role.OPERATOR):
        raise SessionNotFound(session_id)
    return found


async def check_sessions_of(plane: Plane, caller: Caller, jobs: Iterable[SubmitJob]) -> None:
    """Raises SessionNotFound for a session out of which the caller may submit nothing."""
    for session_id in {job.session for job in jobs if job.session is not None}:
        await session_of(plane, caller, session_id)


async def _whose(plane: Plane, caller: Caller, name: str | None) -> User:
    store = plane.store
    if name is None:
        me = None if caller.user_id is None else await store.people.get_user(caller.user_id)
        if me is None:
            raise Conflict("This key belongs to no person. Name the person whose session it is in `user`.")
        return me
    account = await store.accounts.find(name)
    if account is not None and account.id == caller.user_id:
        return User(account.id, account.name)
    if not caller.may(Role.OPERATOR):
        raise RoleMissing(Role.OPERATOR, everywhere=False)
    if account is None or not any(given.tenant_id in (None, caller.tenant_id) for given in account.given):
        raise UserNotFound(name)
    return User(UserId(account.id), account.name)
