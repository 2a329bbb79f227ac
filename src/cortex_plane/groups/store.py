"""Stores groups, and advances them when members end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cortex_plane.agents.model import AgentRecord
from cortex_plane.audit.model import AuditEntry
from cortex_plane.groups.model import (
    GROUP_AGENT,
    GROUP_AGENT_CONFIG,
    Group,
    GroupId,
    GroupKeyReused,
    Member,
    NewGroup,
    Step,
    Tally,
    next_step,
    summary,
)
from cortex_plane.jobs.model import AgentId, JobId, NewJob, TenantId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.store import as_json, cancel_many, submission, submit_keyed
from cortex_plane.json import dumps
from cortex_plane.storage import rows
from cortex_plane.storage.rows import LOOKED_AT
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.ids import NewId
    from cortex_plane.storage.database import Database, Row

OLDER_THAN_ALL = "00000000-0000-0000-0000-000000000000"
NEWER_THAN_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"
ACTOR = "group"


class GroupStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, group: NewGroup, jobs: Sequence[NewJob], new_id: NewId, connection: Any = None
    ) -> tuple[GroupId, list[JobId]]:
        """A group and all its members, or nothing. Members run in the order of their ids where the group is sequential.
        The answer differs from what was given where the key stands for a group that is there already; raises GroupKeyReused."""
        return await self._database.transact(lambda: _add(group, jobs, new_id), connection)

    async def by_key(self, tenant_id: TenantId, key: str, request_hash: str) -> tuple[GroupId, list[JobId]] | None:
        """The group of a key and the members that it was submitted with. Raises GroupKeyReused if it was asked for otherwise."""
        return await self._database.transact(lambda: _by_key(tenant_id, key, request_hash))

    async def get(self, group_id: GroupId) -> Group | None:
        found = await self._database.read("groups/get", id=group_id)
        return _group(found[0]) if found else None

    async def find(self, prefix: str, tenant_id: TenantId | None = None) -> list[GroupId]:
        """At most five ids that begin with the prefix."""
        low, high = prefix + OLDER_THAN_ALL[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        found = await self._database.read("groups/find", low=low, high=high, tenant_id=tenant_id, looked_at=LOOKED_AT)
        return [GroupId(str(row["id"])) for row in found]

    async def members(self, group_id: GroupId, after: JobId | None = None, limit: int = 1000) -> list[Member]:
        """In their order; retries of members last."""
        found = await self._database.read("groups/members", id=group_id, after=after or OLDER_THAN_ALL, limit=limit)
        return [_member(row) for row in found]

    async def list(self, tenant_id: TenantId, before: GroupId | None = None, limit: int = 50) -> list[Group]:
        """Newest first."""
        found = await self._database.read("groups/list", tenant_id=tenant_id, before=before or NEWER_THAN_ALL, limit=limit)
        return [_group(row) for row in found]

    async def advance(self, group_id: GroupId, new_id: NewId) -> Group | None:
        """Does everything that is due for the group, in one transaction, and nothing twice. None when there is no such group."""
        return await self._database.transact(lambda: _advance(group_id, new_id))

    async def cancel(self, group_id: GroupId, new_id: NewId, actor: str | None, reason: str | None) -> int | None:
        """Cancels every member that has not ended; returns how many. None when there is no such group."""
        return await self._database.transact(lambda: _cancel(group_id, new_id, actor, reason))


def _by_key(tenant_id: TenantId, key: str, request_hash: str) -> Transaction[tuple[GroupId, list[JobId]] | None]:
    found = yield from query("groups/by_key", tenant_id=tenant_id, group_key=key)
    if not found:
        return None
    group_id = GroupId(str(found[0]["id"]))
    if found[0]["request_hash"] != request_hash:
        raise GroupKeyReused(key, group_id)
    members = yield from query("groups/first_members", id=group_id)
    return group_id, [JobId(str(row["id"])) for row in members]


def _add(group: NewGroup, jobs: Sequence[NewJob], new_id: NewId) -> Transaction[tuple[GroupId, list[JobId]]]:
    """Whoever ends a member submits a job for the group's agent, so that agent is there before the first member is."""
    agent = AgentRecord(AgentId(new_id()), GROUP_AGENT, GROUP_AGENT_CONFIG)
    record = {"id": agent.id, "job_type": agent.job_type, "skill_config": agent.config.to_json()}
    yield from query("agents/register", agents=dumps([record]))
    yield from query(
        "groups/add",
        id=group.id,
        tenant_id=group.tenant_id,
        name=group.name,
        group_key=group.key,
        request_hash=group.request_hash,
        mode=group.mode,
        on_failure=group.on_failure,
        callback=None if group.callback is None else dumps(_callback(group.callback)),
        created_by=group.created_by,
    )
    if group.key is not None:  # Looked at in a later statement: whoever was faster has committed by now.
        first = yield from _by_key(group.tenant_id, group.key, group.request_hash or "")
        if first is not None and first[0] != group.id:
            return first
    if any(job.job_key is not None for job in jobs):
        yield from submit_keyed(jobs)
    else:
        yield from query("jobs/submit", jobs=submission(jobs))
    return group.id, [job.id for job in jobs]


def _callback(job: NewJob) -> dict[str, Any]:
    """All that its submission will need; the id is given then."""
    return {"agent": job.job_type, **{name: value for name, value in as_json(job).items() if name not in ("id", "group_id")}}


def _advance(group_id: GroupId, new_id: NewId) -> Transaction[Group | None]:
    """Done twice, it changes nothing the second time; undone halfway, it has changed nothing."""
    if not (yield from query("groups/lock", id=group_id)):
        return None
    failures = yield from query("groups/failures", id=group_id)  # Before the look, which sees all that these mean.
    for failure in failures:
        yield from query("groups/forget_failure", job_id=str(failure["job_id"]))
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
                [held] = yield from query("groups/first_held", id=group_id)
                yield from query("groups/let_go", job_id=str(held["job_id"]))
            case Step.FINISH:
                yield from _finish(group, new_id)
            case Step.REST:
                return group


def _cancel(group_id: GroupId, new_id: NewId, actor: str | None, reason: str | None) -> Transaction[int | None]:
    """How many members were cancelled; None when there is no such group."""
    if not (yield from query("groups/lock", id=group_id)):
        return None
    group = yield from _look(group_id)
    if not group.tally.open:
        return 0
    why = f"group {group_id} was cancelled" + (f": {reason}" if reason else "")
    cancelled = yield from _stop(group, actor, why)
    details = {"members": cancelled}
    entry = AuditEntry("GROUP_CANCELLED", "group", group_id, actor, reason, tenant_id=group.tenant_id, details=details)
    yield from query("audit/record", entries=dumps([entry.to_json()]))
    yield from _advance(group_id, new_id)
    return cancelled


def _look(group_id: GroupId) -> Transaction[Group]:
    [row] = yield from query("groups/get", id=group_id)
    return _group(row)


def _first_failed(group: Group) -> Transaction[str]:
    [row] = yield from query("groups/first_failed", id=group.id)
    return str(row["id"])


def _stop(group: Group, actor: str | None, reason: str) -> Transaction[int]:
    yield from query("groups/mark_stopping", id=group.id)
    members = yield from query("groups/live_members", id=group.id)
    return (yield from cancel_many(members, "group", actor, reason))


def _skip(group: Group, new_id: NewId, reason: str) -> Transaction[None]:
    yield from query("groups/mark_stopping", id=group.id)
    unstarted = yield from query("groups/unstarted", id=group.id)
    skipped = dumps([{"id": str(row["id"]), "run_id": new_id()} for row in unstarted])
    yield from query("groups/skip", skipped=skipped, actor=ACTOR, reason=reason)


def _finish(group: Group, new_id: NewId) -> Transaction[None]:
    callback_id = JobId(new_id()) if group.callback is not None else None
    yield from query("groups/finish", id=group.id, callback_job_id=callback_id)
    if group.callback is not None:
        payload = {**group.callback["payload"], "group": summary(group)}
        yield from query("jobs/submit", jobs=dumps([{**group.callback, "id": callback_id, "payload": payload}]))


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
