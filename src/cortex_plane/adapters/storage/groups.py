"""Groups: made with all their members at once, and moved on by one script that locks, looks and does what is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.cancelling import cancel_many
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.keys import submit_keyed
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.adapters.storage.submissions import as_json, submission
from cortex_plane.core.agents import AgentRecord
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.groups import (
    GROUP_AGENT,
    GROUP_AGENT_CONFIG,
    Group,
    GroupId,
    Member,
    NewGroup,
    Step,
    Tally,
    next_step,
    summary,
)
from cortex_plane.core.jobs import AgentId, JobId, NewJob, TenantId
from cortex_plane.core.states import JobStatus
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.json_text import dumps

OLDER_THAN_ALL = "00000000-0000-0000-0000-000000000000"
NEWER_THAN_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"
ACTOR = "group"


class SqlGroups:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, group: NewGroup, jobs: Sequence[NewJob], new_id: NewId, connection: Any = None) -> None:
        await self._database.transact(lambda: _add(group, jobs, new_id), connection)

    async def get(self, group_id: GroupId) -> Group | None:
        found = await self._database.read("groups/get", id=group_id)
        return _group(found[0]) if found else None

    async def find(self, prefix: str) -> list[GroupId]:
        low, high = prefix + OLDER_THAN_ALL[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        return [GroupId(str(row["id"])) for row in await self._database.read("groups/find", low=low, high=high)]

    async def members(self, group_id: GroupId, after: JobId | None = None, limit: int = 1000) -> list[Member]:
        found = await self._database.read("groups/members", id=group_id, after=after or OLDER_THAN_ALL, limit=limit)
        return [_member(row) for row in found]

    async def list(self, tenant_id: TenantId, before: GroupId | None = None, limit: int = 50) -> list[Group]:
        found = await self._database.read("groups/list", tenant_id=tenant_id, before=before or NEWER_THAN_ALL, limit=limit)
        return [_group(row) for row in found]

    async def advance(self, group_id: GroupId, new_id: NewId) -> Group | None:
        return await self._database.transact(lambda: _advance(group_id, new_id))

    async def cancel(self, group_id: GroupId, new_id: NewId, actor: str | None, reason: str | None) -> int | None:
        return await self._database.transact(lambda: _cancel(group_id, new_id, actor, reason))


def _add(group: NewGroup, jobs: Sequence[NewJob], new_id: NewId) -> Script[None]:
    """Whoever ends a member submits a job for the group's agent, so that agent is there before the first member is."""
    agent = AgentRecord(AgentId(new_id()), GROUP_AGENT, GROUP_AGENT_CONFIG)
    record = {"id": agent.id, "job_type": agent.job_type, "skill_config": agent.config.to_json()}
    yield from ask("agents/register", agents=dumps([record]))
    yield from ask(
        "groups/add",
        id=group.id,
        tenant_id=group.tenant_id,
        name=group.name,
        mode=group.mode,
        on_failure=group.on_failure,
        callback=None if group.callback is None else dumps(_callback(group.callback)),
        created_by=group.created_by,
    )
    if any(job.job_key is not None for job in jobs):
        yield from submit_keyed(jobs)
    else:
        yield from ask("jobs/submit", jobs=submission(jobs))


def _callback(job: NewJob) -> dict[str, Any]:
    """All that its submission will need; the id is given then."""
    return {"agent": job.job_type, **{name: value for name, value in as_json(job).items() if name not in ("id", "group_id")}}


def _advance(group_id: GroupId, new_id: NewId) -> Script[Group | None]:
    """Done twice, it changes nothing the second time; undone halfway, it has changed nothing."""
    if not (yield from ask("groups/lock", id=group_id)):
        return None
    while True:
        group = yield from _look(group_id)
        match next_step(group):
            case Step.STOP:
                failed = yield from _first_failed(group)
                yield from _stop(group, ACTOR, f"group {group_id} stopped after job {failed} failed")
            case Step.SKIP:
                failed = yield from _first_failed(group)
                yield from _skip(group, new_id, f"group {group_id} skips what has not begun after job {failed} failed")
            case Step.LET_GO:
                [held] = yield from ask("groups/first_held", id=group_id)
                yield from ask("groups/let_go", job_id=str(held["job_id"]))
            case Step.FINISH:
                yield from _finish(group, new_id)
            case Step.REST:
                return group


def _cancel(group_id: GroupId, new_id: NewId, actor: str | None, reason: str | None) -> Script[int | None]:
    """How many members were cancelled; None when there is no such group."""
    if not (yield from ask("groups/lock", id=group_id)):
        return None
    group = yield from _look(group_id)
    if not group.tally.open:
        return 0
    why = f"group {group_id} was cancelled" + (f": {reason}" if reason else "")
    cancelled = yield from _stop(group, actor, why)
    details = {"members": cancelled}
    entry = AuditEntry("GROUP_CANCELLED", "group", group_id, actor, reason, tenant_id=group.tenant_id, details=details)
    yield from ask("audit/record", entries=dumps([entry.to_json()]))
    yield from _advance(group_id, new_id)
    return cancelled


def _look(group_id: GroupId) -> Script[Group]:
    [row] = yield from ask("groups/get", id=group_id)
    return _group(row)


def _first_failed(group: Group) -> Script[str]:
    [row] = yield from ask("groups/first_failed", id=group.id)
    return str(row["id"])


def _stop(group: Group, actor: str | None, reason: str) -> Script[int]:
    yield from ask("groups/mark_stopping", id=group.id)
    members = yield from ask("groups/live_members", id=group.id)
    return (yield from cancel_many(members, "group", actor, reason))


def _skip(group: Group, new_id: NewId, reason: str) -> Script[None]:
    yield from ask("groups/mark_stopping", id=group.id)
    unstarted = yield from ask("groups/unstarted", id=group.id)
    skipped = dumps([{"id": str(row["id"]), "run_id": new_id()} for row in unstarted])
    yield from ask("groups/skip", skipped=skipped, actor=ACTOR, reason=reason)


def _finish(group: Group, new_id: NewId) -> Script[None]:
    callback_id = JobId(new_id()) if group.callback is not None else None
    yield from ask("groups/finish", id=group.id, callback_job_id=callback_id)
    if group.callback is not None:
        payload = {**group.callback["payload"], "group": summary(group)}
        yield from ask("jobs/submit", jobs=dumps([{**group.callback, "id": callback_id, "payload": payload}]))


def _group(row: Row) -> Group:
    return Group(
        id=GroupId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        name=row["name"],
        mode=row["mode"],
        on_failure=row["on_failure"],
        callback=rows.json_or_none(row["callback"]),
        callback_job_id=rows.text_or_none(row["callback_job_id"]),
        created_by=row["created_by"],
        created_at=rows.moment(row["created_at"]),
        finished_at=rows.moment_or_none(row["finished_at"]),
        stopping=bool(row["stopping"]),
        tally=Tally(
            waiting=row["waiting"] or 0,
            held=row["held"] or 0,
            under_way=row["under_way"] or 0,
            completed=row["completed"] or 0,
            failed=row["failed"] or 0,
            cancelled=row["cancelled"] or 0,
        ),
    )


def _member(row: Row) -> Member:
    return Member(
        id=JobId(str(row["id"])),
        job_type=row["job_type"],
        queue=row["queue"],
        status=JobStatus(row["status"]),
        held=bool(row["held"]),
        attempt=row["attempt"],
        retry_of=rows.text_or_none(row["retry_of"]),
        error_message=row["error_message"],
        created_at=rows.moment(row["created_at"]),
        finished_at=rows.moment_or_none(row["finished_at"]),
    )
