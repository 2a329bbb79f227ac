"""Stores controls and the order of queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING

from cortex_plane.errors import Conflict, CortexError, InvalidInput, JobNotFound, JobNotQueued, RevisionChanged
from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.json import dumps
from cortex_plane.queues.model import GAP, MOST_SHIFTED, Control, Place, Scope, between, make_room
from cortex_plane.storage import rows
from cortex_plane.storage.rows import NO_DIGITS
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.audit.model import AuditEntry
    from cortex_plane.storage.database import Database, Row

PAGE = 500
"""Claims skip the entries of a page while it is moved."""


class ControlStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self) -> list[Control]:
        return [rows.control(row) for row in await self._database.read("controls/list")]

    async def get(self, scope: Scope, name: str) -> Control:
        """Returns the control, or an empty one."""
        for row in await self._database.read("controls/get", scope=scope, name=name):
            return rows.control(row)
        return Control(scope, name)

    async def change(self, scope: Scope, name: str, change: Callable[[Control], Control], entry: AuditEntry) -> bool:
        """Applies a pure change with its audit entry. No claim that violates it begins after this returns.
        Returns False, and records nothing, if nothing changed."""
        return await self._database.transact(lambda: _change(scope, name, change, entry))

    async def move_lanes(self) -> bool:
        """Moves one page of waiting jobs into or out of lanes of their tenants, as what is set now asks for; whether there may be
        more. Claims need not wait for it."""
        more = await self._database.transact(_move_lanes)
        if more is False:
            with suppress(CortexError):  # Autovacuum does it too, later.
                await self._database.write_once("controls/tidy_lanes")
        return bool(more)

    async def hold(self, scope: Scope, name: str, seconds: float, reason: str, claimed: Claimed) -> None:
        """Nothing of it is claimed for so long, if the run is still its job's open run. The longest hold stays."""
        run = {"job_id": claimed.job_id, "run_id": claimed.run_id, "actor": f"job:{claimed.job_id}"}
        await self._database.write("controls/hold", scope=scope, name=name, seconds=seconds, reason=reason, **run)

    async def end_holds(self) -> bool:
        """Removes ended holds and wakes the workers. Returns whether there were any."""
        if not await self._database.read("controls/past_holds"):
            return False
        await self._database.transact(_end_holds)
        return True


def _end_holds() -> Transaction[None]:
    for statement in ("controls/lift_holds", "controls/sweep", "controls/wake"):
        yield from query(statement)


def _change(scope: Scope, name: str, change: Callable[[Control], Control], entry: AuditEntry) -> Transaction[bool]:
    """Whether it changed anything."""
    yield from query("controls/lock")
    found = yield from query("controls/get", scope=scope, name=name)
    before = rows.control(found[0]) if found else Control(scope, name)
    after = change(before)
    if after == before:
        return False
    if after.is_empty:
        yield from query("controls/remove", scope=scope, name=name)
    else:
        yield from query(
            "controls/put",
            scope=scope,
            name=name,
            paused=after.paused,
            paused_by=after.paused_by,
            pause_reason=after.pause_reason,
            max_running=after.max_running,
            fair_share=after.fair_share,
            budget_cents=after.budget_cents,
            on_exhausted=after.on_exhausted,
            lifts_hold=after.held_until is None and before.held_until is not None,
            updated_by=entry.actor,
        )
    yield from query("audit/record", entries=dumps([entry.to_json()]))
    yield from query("controls/wake")
    if after.needs_lanes is not before.needs_lanes:
        yield from query("controls/request_lanes")
    return True


def _move_lanes() -> Transaction[bool | None]:
    """One page; whether there may be more, None when nothing was to be done.
    The control is in force already: a claim steps over what it forbids, wherever that stands."""
    for row in (yield from query("controls/lane_pass")):
        after = str(row["after"])
        for page in (yield from query("controls/next_page", after=after, limit=PAGE)):
            last = str(page["job_id"])
            yield from query("controls/move_lanes", after=after, last=last)
            yield from query("controls/continue_lanes", after=last, again=bool(row["again"]))
            return True
        if row["again"]:
            yield from query("controls/continue_lanes", after=NO_DIGITS, again=False)
            return True
        yield from query("controls/lanes_are_given")
        return False
    return None


# -- order -------------------------------------------------------------------------------------
# Moves waiting jobs. One row is written; when no number is left between two neighbours, some rows beside them are shifted.


WIDEST_LOOK = 64 * MOST_SHIFTED


class OrderStore:
    """Each change counts the job's revision up, and is refused (RevisionChanged) when that is not the one that is given."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def move(
        self, job_id: JobId, place: Place, anchor: JobId | None, entry: AuditEntry, revision: int | None = None
    ) -> None:
        """Within its queue, taking the priority of its new neighbour. Raises JobNotQueued, JobNotFound or InvalidInput."""
        await self._database.transact(lambda: _move(job_id, place, anchor, entry, revision))

    async def set_priority(self, job_id: JobId, priority: int, entry: AuditEntry, revision: int | None = None) -> None:
        await self._database.transact(lambda: _set_priority(job_id, priority, entry, revision))


def _move(job_id: JobId, place: Place, anchor_id: JobId | None, entry: AuditEntry, revision: int | None) -> Transaction[None]:
    yield from query("order/lock")
    moved = yield from _waiting(job_id)
    anchor = yield from _anchor(moved, place, anchor_id)
    if anchor is None:  # Alone in its queue, it is first and last already.
        yield from _check_revision(job_id, revision)
        return
    position = yield from _position(moved, anchor, place)
    yield from _put(job_id, -anchor["rank"], position, entry, revision)


def _set_priority(job_id: JobId, priority: int, entry: AuditEntry, revision: int | None) -> Transaction[None]:
    moved = yield from _waiting(job_id)
    yield from _put(job_id, priority, moved["position"], entry, revision)


def _waiting(job_id: JobId) -> Transaction[Row]:
    found = yield from query("order/entry", id=job_id)
    if found:
        return found[0]
    jobs = yield from query("jobs/status", id=job_id)
    raise JobNotQueued(job_id, jobs[0]["status"]) if jobs else JobNotFound(job_id)


def _check_revision(job_id: JobId, revision: int | None) -> Transaction[None]:
    for row in (yield from query("order/look", id=job_id)):
        if revision is not None and row["revision"] != revision:
            raise RevisionChanged(job_id, row["revision"])


def _anchor(moved: Row, place: Place, anchor_id: JobId | None) -> Transaction[Row | None]:
    """The job next to which the moved one will stand."""
    if anchor_id is not None:
        anchor = yield from _waiting(anchor_id)
        _check_anchor(moved, anchor)
        return anchor
    name = "order/first" if place is Place.FRONT else "order/last"
    found: Sequence[Row] = yield from query(name, queue=moved["queue"], left_out=str(moved["job_id"]))
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


def _position(moved: Row, anchor: Row, place: Place) -> Transaction[int]:
    """A position beside the anchor."""
    before = place in (Place.BEFORE, Place.FRONT)
    found = yield from _neighbours("order/before" if before else "order/after", moved, anchor, limit=1)
    if not found:
        return int(anchor["position"]) - GAP if before else (yield from _next_position())
    low, high = sorted((int(anchor["position"]), int(found[0]["position"])))
    free = between(low, high, room_above=before)
    if free is not None:
        return free
    low, high = yield from _make_room(moved, anchor, before=before)
    free = between(low, high, room_above=before)
    assert free is not None
    return free


def _neighbours(name: str, moved: Row, anchor: Row, *, limit: int) -> Transaction[Sequence[Row]]:
    return (
        yield from query(
            name,
            queue=anchor["queue"],
            rank=anchor["rank"],
            position=anchor["position"],
            created_at=anchor["created_at"],
            anchor=str(anchor["job_id"]),
            left_out=str(moved["job_id"]),
            limit=limit,
        )
    )


def _next_position() -> Transaction[int]:
    """As for a job that is submitted now: behind all that were, before all that will be."""
    [row] = yield from query("order/next_position")
    return int(row["position"])


def _make_room(moved: Row, anchor: Row, *, before: bool) -> Transaction[tuple[int, int]]:
    """Shifts neighbours so that there is a number between the anchor and the job beside it; returns their positions."""
    look = MOST_SHIFTED
    while True:
        below, above, is_open = yield from _around(moved, anchor, look, before=before)
        shift = make_room([one for _, one in below], [one for _, one in above], below_is_open=is_open)
        if shift is not None:
            break
        if look >= WIDEST_LOOK or len(below) + len(above) < look:
            raise Conflict(
                f"There is no room beside job {anchor['job_id']} until the jobs around it, which were approved, are taken. "
                "Choose another place, or try again."
            )
        look *= 2
    shifted = below if shift.down else above
    changes = [[str(job_id), position] for (job_id, _), position in zip(shifted, shift.positions, strict=False)]
    yield from query("order/shift", positions=dumps(changes))
    nearest = shift.positions[0]
    return (nearest, above[0][1]) if shift.down else (below[0][1], nearest)


Rows = list[tuple[JobId | None, int]]


def _around(moved: Row, anchor: Row, look: int, *, before: bool) -> Transaction[tuple[Rows, Rows, bool]]:
    """The rows on both sides of the gap with their positions, the nearest first; and whether the lower side is open.

    Of each side the last one stays where it is: the row beyond those that were looked at, one that cannot be moved because its
    job was approved and has a run, or, above all rows, the place of a job that is submitted now."""
    lower = yield from _neighbours("order/before", moved, anchor, limit=look + 1)
    upper = yield from _neighbours("order/after", moved, anchor, limit=look + 1)
    [own] = yield from query("order/look", id=str(anchor["job_id"]))
    own_row = {"job_id": anchor["job_id"], "position": anchor["position"], "status": own["status"]}
    if before:
        upper = [own_row, *upper]
    else:
        lower = [own_row, *lower]
    below, above = _up_to_fixed(lower), _up_to_fixed(upper)
    if len(above) == len(upper) <= look and _can_move(upper[-1]):
        above.append((None, (yield from _next_position())))
    is_open = len(below) == len(lower) <= look and _can_move(lower[-1])
    return below, above, is_open


def _up_to_fixed(rows: Sequence[Row]) -> Rows:
    """The rows that can be moved, and the first that cannot."""
    movable = list(takewhile(_can_move, rows))
    return [(JobId(str(row["job_id"])), int(row["position"])) for row in rows[: len(movable) + 1]]


def _can_move(row: Row) -> bool:
    return row["status"] in ("PENDING", "RETRY")


def _put(job_id: JobId, priority: int, position: int, entry: AuditEntry, revision: int | None) -> Transaction[None]:
    if not (yield from query("order/place", id=job_id, priority=priority, position=position, revision=revision)):
        yield from _check_revision(job_id, revision)
        raise JobNotQueued(job_id, "RUNNING")
    yield from query("audit/record", entries=dumps([entry.to_json()]))
