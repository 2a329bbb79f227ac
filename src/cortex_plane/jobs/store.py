"""Stores jobs and their events: submit, keys, get, list, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from cortex_plane.clock import instant
from cortex_plane.errors import CortexError
from cortex_plane.jobs.events import JobEvent, Mark, NewEvent
from cortex_plane.jobs.fields import in_json
from cortex_plane.jobs.model import AgentId, BornWith, HistoryEntry, Job, JobId, JobSummary, NewJob, Run, RunId, TenantId
from cortex_plane.jobs.states import TERMINAL, JobStatus
from cortex_plane.json import dumps, embedded, loads
from cortex_plane.storage import rows
from cortex_plane.storage.rows import LOOKED_AT, NEWER_THAN_ALL, NO_DIGITS
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.storage.database import Database, Row


def submit(jobs: Sequence[NewJob]) -> Transaction[None]:
    yield from query("jobs/submit", jobs=submission(jobs))


def submission(jobs: Sequence[NewJob]) -> str:
    return dumps([as_json(job) for job in jobs])


NOT_STORED = {"payload", "key_mode", "cancel_with_parent", "effect_root"}
COLUMNS = tuple(name for name in NewJob.__slots__ if name not in NOT_STORED)


def as_json(job: NewJob) -> dict[str, Any]:
    """By column. What is None or empty is left out, except tags."""
    values = ((name, getattr(job, name)) for name in COLUMNS)
    document = {name: in_json(value) for name, value in values if value is not None and value != ()}
    document |= {"payload": embedded(job.payload), "tags": list(job.tags)}
    if job.parent_id is not None:
        document |= {"cancel_with_parent": job.cancel_with_parent, "effect_root": job.effect_root}
    return document


# -- cancelling --------------------------------------------------------------------------------
# Cancels many jobs at once, as a part of whatever asks for it.


def cancel_many(
    found: Sequence[Row], cause: str, actor: str | None, reason: str | None, *, kill: bool = False
) -> Transaction[int]:
    """Of rows with an `id`, those that have not ended meanwhile; how many they were. Those with an open cleanup scope are asked
    to end, unless they are killed."""
    ids = [str(row["id"]) for row in found]
    if not ids:
        return 0
    asked = [] if kill else (yield from query("jobs/request_cancel", **cancel_request(ids, actor, reason)))
    note = dumps({"reason": reason}) if reason else None
    ended = yield from query("jobs/cancel_many", ids=dumps(ids), cause=cause, actor=actor, note=note, kill=kill)
    return len({str(row["id"]) for row in [*asked, *ended]})


def cancel_request(
    ids: Sequence[str], actor: str | None, reason: str | None, revision: int | None = None, kind: str = "cancel"
) -> dict[str, Any]:
    """The values of `jobs/request_cancel`."""
    return {
        "ids": dumps(list(ids)),
        "request": dumps({"kind": kind, "actor": actor, "reason": reason}),
        "actor": actor,
        "note": dumps({"reason": reason}) if reason else None,
        "revision": revision,
    }


def end_overdue(limit: int) -> Transaction[int]:
    """Jobs with an open cleanup scope are asked to end, and ended when the time for that is over."""
    found = yield from query("jobs/overdue_in_cleanup", limit=limit)
    asked = 0
    if found:
        ids = [str(row["id"]) for row in found]
        asking = cancel_request(ids, None, "its deadline has passed", kind="deadline")
        asked = len((yield from query("jobs/request_cancel", **asking)))
    ended: int = sum(row["ended"] for row in (yield from query("jobs/end_overdue", limit=limit)))
    return asked + ended


def cancel_children(parent_id: JobId, actor: str | None, reason: str | None) -> Transaction[int]:
    """Those that end with their parent, unless it goes on or completed."""
    if (yield from query("jobs/live_parent", parent_id=parent_id)):
        return 0
    children = yield from query("jobs/live_children", parent_id=parent_id)
    return (yield from cancel_many(children, "cancel", actor, reason))


# -- events ------------------------------------------------------------------------------------
# What runs tell while they go on: appended in batches, read in order.


class EventStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, events: Sequence[NewEvent]) -> None:
        """What is told of a job that is gone is forgotten."""
        if events:
            await self._database.write("events/add", events=dumps([_as_json(event) for event in events]))

    async def list(self, job_id: JobId, after: int = 0, limit: int = 1000) -> list[JobEvent]:
        """Those with a higher number, in order."""
        return [event(row) for row in await self._database.read("events/list", job_id=job_id, after=after, limit=limit)]

    async def marks(self, job_ids: Sequence[JobId]) -> dict[JobId, Mark]:
        """Of those that are there: what changes when there is something new to tell of one."""
        found = await self._database.read("events/marks", ids=self._database.array(job_ids))
        return {JobId(str(row["id"])): _mark(row) for row in found}


def _mark(row: Row) -> Mark:
    return Mark(row["revision"], None if row["checkpoint_id"] is None else str(row["checkpoint_id"]), row["seq"] or 0)


def _as_json(event: NewEvent) -> dict[str, Any]:
    return {
        "job_id": event.job_id,
        "run_id": event.run_id,
        "at": event.at,
        "kind": event.kind,
        "data": embedded(event.data),
    }


def event(row: Row) -> JobEvent:
    return JobEvent(
        seq=row["seq"],
        job_id=JobId(str(row["job_id"])),
        run_id=RunId(str(row["run_id"])),
        at=rows.moment(row["at"]),
        kind=row["kind"],
        data=loads(row["data"]),
    )


# -- keys --------------------------------------------------------------------------------------
# Submits jobs of which some have a key: a key belongs to the last job that was submitted with it.
#
# replace            the holder is cancelled if it is still PENDING, and the new job takes the key
# preserve_run_at    the same, and the new job keeps the time for which the holder was planned
# unsafe_dedupe      while the holder has not ended, no new job is made: its id is the answer


def submit_keyed(jobs: Sequence[NewJob]) -> Transaction[list[JobId]]:
    ids: list[JobId] = []
    for job in jobs:
        ids.append((yield from _submit(job)))
    return ids


def _submit(job: NewJob) -> Transaction[JobId]:
    if job.job_key is not None:
        [taken] = yield from query("keys/take", tenant_id=job.tenant_id, job_key=job.job_key, job_id=job.id)
        holder = JobId(str(taken["job_id"]))
        if holder != job.id:
            if (yield from query("jobs/status", id=job.id)):
                return job.id  # It was submitted before, and has lost its key to another since.
            found = yield from query("keys/holder", id=holder)
            if found and job.key_mode == "unsafe_dedupe" and JobStatus(found[0]["status"]) not in TERMINAL:
                return holder
            job = yield from _take_over(job, holder, found)
    yield from submit([job])
    return job.id


def _take_over(job: NewJob, holder: JobId, found: Sequence[Row]) -> Transaction[NewJob]:
    yield from query("keys/give", tenant_id=job.tenant_id, job_key=job.job_key, job_id=job.id)
    if not found or found[0]["status"] != JobStatus.PENDING:
        return job
    reason = dumps({"reason": f"replaced by {job.id}"})
    replaced = yield from query(
        "jobs/cancel", id=holder, cause="replace", actor=job.created_by, note=reason, revision=None, kill=False
    )
    if replaced and job.key_mode == "preserve_run_at" and found[0]["run_at"] is not None:
        return replace(job, run_at=instant(rows.moment(found[0]["run_at"])), delay_seconds=None)
    return job


# -- jobs --------------------------------------------------------------------------------------
# Jobs, as people and programs see them.


# Where jobs in a state are found without reading all the others.
LIST_FOR_STATUS = {
    JobStatus.PENDING: "jobs/list_waiting",
    JobStatus.RETRY: "jobs/list_waiting",
    JobStatus.RUNNING: "jobs/list_running",
    JobStatus.WAITING_FOR_APPROVAL: "jobs/list_asking",
    JobStatus.FAILED: "jobs/list_failed",
    JobStatus.CANCELLED: "jobs/list_cancelled",
}


class JobStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def submit(self, jobs: Sequence[NewJob], connection: Any = None) -> list[JobId]:
        """Stores them all or none; the same ids a second time change nothing. Joins the caller's transaction if given one.
        The answer differs from what was given only where a job key stands for a job that is there already."""
        submitted = await self._submit(jobs, connection)
        if connection is None and any(job.serial_key is not None for job in jobs):
            with suppress(CortexError):  # The next claim does it too: those in a caller's transaction wait for that.
                await self._database.write_once("queue/settle_new")
        return submitted

    async def _submit(self, jobs: Sequence[NewJob], connection: Any) -> list[JobId]:
        if any(job.job_key is not None for job in jobs):
            return await self._database.transact(lambda: submit_keyed(jobs), connection)
        batch = submission(jobs)
        if connection is None:
            await self._database.write("jobs/submit", jobs=batch)
        else:
            await self._database.join(connection, "jobs/submit", jobs=batch)
        return [job.id for job in jobs]

    async def get(self, job_id: JobId) -> Job | None:
        found = await self._database.read("jobs/get", id=job_id)
        return rows.job(found[0]) if found else None

    async def status(self, job_id: JobId) -> tuple[JobStatus, Any, Any, str | None] | None:
        """Status, output, error and error message."""
        for row in await self._database.read("jobs/status", id=job_id):
            return JobStatus(row["status"]), rows.output(row), rows.json_or_none(row["error"]), row["error_message"]
        return None

    async def find(self, prefix: str, tenant_id: TenantId | None = None) -> list[JobId]:
        """At most five ids that begin with the prefix."""
        low, high = prefix + NO_DIGITS[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        found = await self._database.read("jobs/find", low=low, high=high, tenant_id=tenant_id, looked_at=LOOKED_AT)
        return [JobId(str(row["id"])) for row in found]

    async def cancel(
        self, job_id: JobId, actor: str | None, reason: str | None, revision: int | None = None, *, kill: bool = False
    ) -> Literal["cancelled", "requested"] | None:
        """A job with an open cleanup scope is asked to end, unless it is killed; any other is cancelled at once. None when
        the job is unknown or has ended, or is not at the revision that is given."""
        note = dumps({"reason": reason}) if reason else None
        values = {"id": job_id, "cause": "cancel", "actor": actor, "note": note, "revision": revision, "kill": kill}
        for _ in range(2):  # A cleanup scope may open or close between the two.
            if await self._database.write("jobs/cancel", **values):
                return "cancelled"
            if not kill and await self._database.write(
                "jobs/request_cancel", **cancel_request([job_id], actor, reason, revision)
            ):
                return "requested"
        return None

    async def set_cleanup(self, job_id: JobId, run_id: RunId, seconds: float | None) -> bool:
        """Notes that the run has an open cleanup scope of so many seconds, or none. False when the run is no longer the job's."""
        return bool(await self._database.write("jobs/set_cleanup", id=job_id, run_id=run_id, seconds=seconds))

    async def cancel_children(self, parent_id: JobId, actor: str | None, reason: str | None) -> int:
        """Those that are to end with their parent and have not ended; returns how many."""
        return await self._database.transact(lambda: cancel_children(parent_id, actor, reason))

    async def end_overdue(self, limit: int) -> int:
        """Ends at most `limit` jobs whose deadline has passed, and returns how many: CANCELLED if they never ran, else FAILED."""
        return await self._database.transact(lambda: end_overdue(limit))

    async def next_deadline_in(self) -> float | None:
        """In how many seconds the next deadline passes, less than 0 if it has; None when no live job has one."""
        found = await self._database.read("jobs/next_deadline")
        return float(found[0]["seconds"]) if found else None

    async def retry(self, job_id: JobId, new_id: JobId, actor: str | None) -> bool:
        """A linked job that does the same work from the beginning. False when the job has not ended, or has a successor."""
        return await self._add_successor("retry", job_id, new_id, actor)

    async def resume(self, job_id: JobId, new_id: JobId, actor: str | None, parent_id: JobId | None = None) -> bool:
        """A linked job that goes on from the checkpoint, as a child of `parent_id` if that is given. False as above."""
        return await self._add_successor("resume", job_id, new_id, actor, parent_id=parent_id)

    async def settle(self, job_id: JobId, new_id: JobId, checkpoint: BornWith, actor: str | None) -> bool:
        """A linked job that goes on from this checkpoint, in which an uncertain call is settled. False as above."""
        return await self._add_successor("settle", job_id, new_id, actor, checkpoint=checkpoint)

    async def fork(self, job_id: JobId, new_id: JobId, checkpoint: BornWith, created_by: str | None) -> bool:
        """A job of its own that starts from this checkpoint. False when there is no such job, or `new_id` is taken."""
        return await self._add_successor("fork", job_id, new_id, created_by, created_by=created_by, checkpoint=checkpoint)

    async def _add_successor(
        self,
        kind: str,
        job_id: JobId,
        new_id: JobId,
        actor: str | None,
        *,
        parent_id: JobId | None = None,
        created_by: str | None = None,
        checkpoint: BornWith | None = None,
    ) -> bool:
        made = await self._database.write(
            "jobs/add_successor",
            kind=kind,
            job_id=job_id,
            new_id=new_id,
            actor=actor,
            created_by=created_by,
            parent_id=parent_id,
            checkpoint_id=None if checkpoint is None else checkpoint.checkpoint_id,
            checkpoint=None if checkpoint is None else checkpoint.document,
        )
        return bool(made)

    async def adopt(self, child_id: JobId, parent_id: JobId) -> None:
        """A child that has not ended belongs to this job from now on: its end wakes that one."""
        await self._database.write("jobs/adopt", child_id=child_id, parent_id=parent_id)

    async def chain_end(self, job_id: JobId) -> tuple[JobId, JobStatus] | None:
        """The last retry of a job, or the job itself."""
        for row in await self._database.read("jobs/chain_end", id=job_id):
            return JobId(str(row["id"])), JobStatus(row["status"])
        return None

    async def repeats(self, job_id: JobId) -> bool:
        """Whether a job, or one that called it, takes the place of another with the ids of its tool calls."""
        return bool(await self._database.read("jobs/repeats", id=job_id))

    async def chain(self, job_id: JobId) -> list[JobSummary]:
        """The retry chain that a job belongs to, from the first job to the last; the job alone if there is no other."""
        return [rows.job_summary(row) for row in await self._database.read("jobs/chain", id=job_id)]

    async def history(self, job_id: JobId) -> list[HistoryEntry]:
        return [rows.history_entry(row) for row in await self._database.read("jobs/history", id=job_id)]

    async def runs(self, job_id: JobId) -> list[Run]:
        return [rows.run(row) for row in await self._database.read("jobs/runs", id=job_id)]

    async def list(
        self,
        *,
        status: JobStatus | None = None,
        agent_id: AgentId | None = None,
        queue: str | None = None,
        before: JobId | None = None,
        limit: int = 50,
    ) -> list[JobSummary]:
        """Newest first."""
        common = {"before": before or NEWER_THAN_ALL, "queue": queue, "limit": limit}
        if name := LIST_FOR_STATUS.get(status) if status else None:
            found = await self._database.read(name, status=status, agent_id=agent_id, **common)
        elif agent_id:
            found = await self._database.read("jobs/list_of_agent", status=status, agent_id=agent_id, **common)
        elif queue is not None:
            found = await self._database.read("jobs/list_of_queue", status=status, **common)
        elif status is JobStatus.COMPLETED:
            found = await self._database.read("jobs/list_completed", **common)
        else:
            found = await self._database.read("jobs/list", status=status, **common)
        return [rows.job_summary(row) for row in found]
