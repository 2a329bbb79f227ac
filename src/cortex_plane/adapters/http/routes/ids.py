"""Whole ids for people who type the first part of one, among what belongs to their tenant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from cortex_plane.adapters.http.access import ThePlane, known, require
from cortex_plane.adapters.http.inputs import NamePath
from cortex_plane.adapters.http.routes.found import grant_in, group_in, job_in, job_run_in
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.approvals import ApprovalNotFound, ApprovalRequest
from cortex_plane.core.errors import InvalidInput, JobNotFound, NotFound, RunNotFound
from cortex_plane.core.grants import GrantNotFound
from cortex_plane.core.groups import GroupNotFound
from cortex_plane.operations.find_grant import is_part_of_an_id
from cortex_plane.operations.find_job import ID_LENGTH
from cortex_plane.operations.see_approval import see_approval
from cortex_plane.plane import Plane

router = APIRouter(tags=["ids"])

Anyone = Annotated[Caller, known()]
Viewer = Annotated[Caller, require(Role.VIEWER)]
Kind = Literal["job", "run", "group", "grant", "schedule"]
MOST_FOUND = 5
"""So many the store looks at: among them those of others, of whom nobody is told."""


class FoundId(BaseModel):
    id: str


@router.get("/ids/{kind}/{beginning}")
async def find_id(caller: Viewer, plane: ThePlane, kind: Kind, beginning: NamePath) -> FoundId:
    """The id that begins so, if exactly one does. A schedule is found by its name, too."""
    store = await plane.store
    match kind:
        case "job":
            prefix = _prefix(beginning, "a job id")
            return await _one(kind, prefix, store.jobs.find, lambda one: job_in(plane, caller, one), JobNotFound)
        case "run":
            prefix = _prefix(beginning, "the id of a run")
            return await _one(kind, prefix, partial(_runs, plane), lambda one: job_run_in(plane, caller, one), _no_run)
        case "group":
            prefix = _prefix(beginning, "a group id")
            return await _one(kind, prefix, store.groups.find, lambda one: group_in(plane, caller, one), GroupNotFound)
        case "grant":
            prefix = _prefix(beginning, "a grant id")
            return await _one(kind, prefix, store.grants.find, lambda one: grant_in(plane, caller, one), GrantNotFound)
        case "schedule":
            return FoundId(id=(await plane.schedules.get(beginning, tenant=caller.tenant)).id)


@router.get("/approval-ids/{beginning}")
async def find_approval_id(request: Request, caller: Anyone, plane: ThePlane, beginning: NamePath) -> FoundId:
    """The id of the approval that begins so, among those that you may see."""
    store, only_here = await plane.store, "authorization" in request.headers

    async def seen(one: str) -> ApprovalRequest:
        return await see_approval(store, caller, one, only_here=only_here)

    prefix = _prefix(beginning, "the id of an approval")
    return await _one("approval", prefix, store.approvals.find, seen, ApprovalNotFound)


async def _runs(plane: Plane, prefix: str) -> list[str]:
    return [run_id for _, run_id in await (await plane.store).runs.find(prefix)]


def _no_run(prefix: str) -> NotFound:
    return RunNotFound(prefix, of_a_job=False, by="?job=ID")


def _prefix(beginning: str, what: str) -> str:
    prefix = beginning.strip().lower()
    if not is_part_of_an_id(prefix):
        raise InvalidInput(f"{beginning!r:.60} is not {what}, nor the first four or more characters of one.", field="id")
    return prefix


async def _one(
    kind: str,
    prefix: str,
    find: Callable[[str], Awaitable[Sequence[Any]]],
    look: Callable[[str], Awaitable[Any]],
    missing: Callable[[str], NotFound],
) -> FoundId:
    found = [prefix] if len(prefix) == ID_LENGTH else list(await find(prefix))
    mine: list[str] = []
    for one in found:
        try:
            mine.append((await look(one)).id)
        except NotFound:
            continue
    if len(mine) > 1 or len(found) == MOST_FOUND:
        fits = f"{len(mine)} {kind}s or more: {', '.join(mine[:3])}, …" if len(mine) > 1 else f"several {kind}s."
        raise InvalidInput(f"{prefix} fits {fits} Give more of the id.", field="id")
    if not mine:
        raise missing(prefix)
    return FoundId(id=mine[0])
