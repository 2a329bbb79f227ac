"""Moves waiting jobs. One row is written; only when a gap is used up, its neighbours are spaced anew."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import InvalidInput, JobNotFound, NotWaiting, RevisionChanged
from cortex_plane.core.jobs import JobId
from cortex_plane.core.order import GAP, Place, between
from cortex_plane.ports.json_text import dumps


class SqlOrder:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def move(
        self, job_id: JobId, place: Place, anchor: JobId | None, entry: AuditEntry, revision: int | None = None
    ) -> None:
        await self._database.transact(lambda: _move(job_id, place, anchor, entry, revision))

    async def set_priority(self, job_id: JobId, priority: int, entry: AuditEntry, revision: int | None = None) -> None:
        await self._database.transact(lambda: _set_priority(job_id, priority, entry, revision))


def _move(job_id: JobId, place: Place, anchor_id: JobId | None, entry: AuditEntry, revision: int | None) -> Script[None]:
    yield from ask("order/lock")
    moved = yield from _waiting(job_id)
    anchor = yield from _anchor(moved, place, anchor_id)
    if anchor is None:  # Alone in its queue, it is first and last already.
        yield from _check_revision(job_id, revision)
        return
    position = yield from _position(moved, place, anchor)
    if position is None:
        yield from ask("order/renumber", queue=anchor["queue"], rank=anchor["rank"])
        anchor = yield from _waiting(JobId(str(anchor["job_id"])))
        position = yield from _position(moved, place, anchor)
    assert position is not None
    yield from _put(job_id, -anchor["rank"], position, entry, revision)


def _set_priority(job_id: JobId, priority: int, entry: AuditEntry, revision: int | None) -> Script[None]:
    moved = yield from _waiting(job_id)
    yield from _put(job_id, priority, moved["position"], entry, revision)


def _waiting(job_id: JobId) -> Script[Row]:
    found = yield from ask("order/entry", id=job_id)
    if found:
        return found[0]
    jobs = yield from ask("jobs/status", id=job_id)
    raise NotWaiting(job_id, jobs[0]["status"]) if jobs else JobNotFound(job_id)


def _check_revision(job_id: JobId, revision: int | None) -> Script[None]:
    for row in (yield from ask("order/look", id=job_id)):
        if revision is not None and row["revision"] != revision:
            raise RevisionChanged(job_id, row["revision"])


def _anchor(moved: Row, place: Place, anchor_id: JobId | None) -> Script[Row | None]:
    """The job next to which the moved one will stand."""
    if anchor_id is not None:
        anchor = yield from _waiting(anchor_id)
        _check_anchor(moved, anchor)
        return anchor
    name = "order/first" if place is Place.FRONT else "order/last"
    found: Sequence[Row] = yield from ask(name, queue=moved["queue"], left_out=str(moved["job_id"]))
    return found[0] if found else None


def _check_anchor(moved: Row, anchor: Row) -> None:
    if moved["job_id"] == anchor["job_id"]:
        raise InvalidInput(f"Job {moved['job_id']} cannot stand before or after itself.", field="anchor")
    if moved["queue"] != anchor["queue"]:
        raise InvalidInput(
            f'Job {anchor["job_id"]} waits in queue "{anchor["queue"]}", job {moved["job_id"]} in "{moved["queue"]}". '
            "A job is moved within its own queue.",
            field="anchor",
        )


def _position(moved: Row, place: Place, anchor: Row) -> Script[int | None]:
    """A position beside the anchor, or None when no whole number is left there."""
    before = place in (Place.BEFORE, Place.FRONT)
    found = yield from ask(
        "order/before" if before else "order/after",
        queue=anchor["queue"],
        rank=anchor["rank"],
        position=anchor["position"],
        created_at=anchor["created_at"],
        anchor=str(anchor["job_id"]),
        left_out=str(moved["job_id"]),
    )
    if not found:
        return int(anchor["position"]) + (-GAP if before else GAP)
    here, there = anchor["position"], found[0]["position"]
    return between(min(here, there), max(here, there))


def _put(job_id: JobId, priority: int, position: int, entry: AuditEntry, revision: int | None) -> Script[None]:
    if not (yield from ask("order/place", id=job_id, priority=priority, position=position, revision=revision)):
        yield from _check_revision(job_id, revision)
        raise NotWaiting(job_id, "RUNNING")
    yield from ask("audit/record", entries=dumps([entry.to_json()]))
