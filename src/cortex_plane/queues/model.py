"""Values of controls, order, queue states and reservations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Literal, NewType

from cortex_plane.jobs.model import JobId


class Scope(StrEnum):
    GATE = "gate"
    QUEUE = "queue"
    AGENT = "agent"
    TENANT = "tenant"


OnExhausted = Literal["refuse", "pause"]
HoldScope = Literal["job", "agent", "queue"]
"""What `RetryAfter` holds: the job, or all jobs of its agent or queue."""


@dataclass(frozen=True, slots=True)
class Control:
    """The settings of the gate, a queue, an agent or a tenant. The name of the gate is empty; that of a tenant is its id."""

    scope: Scope
    name: str
    paused: bool = False
    paused_by: str | None = None
    paused_at: datetime | None = None
    pause_reason: str | None = None
    max_running: int | None = None
    fair_share: bool = False
    budget_cents: int | None = None
    on_exhausted: OnExhausted | None = None
    held_until: datetime | None = None
    """No job is claimed until then; the hold ends automatically."""
    hold_reason: str | None = None
    updated_by: str | None = None
    updated_at: datetime | None = None

    @property
    def is_empty(self) -> bool:
        limits = self.max_running is not None or self.fair_share or self.budget_cents is not None
        return not self.paused and not limits and self.held_until is None

    @property
    def needs_lanes(self) -> bool:
        """Whether the jobs of each tenant concerned wait in a separate lane."""
        return self.fair_share or (self.scope is Scope.TENANT and (self.paused or self.max_running is not None))


def paused(control: Control, by: str | None, reason: str | None) -> Control:
    """Idempotent: the first actor and reason are kept."""
    return control if control.paused else replace(control, paused=True, paused_by=by, pause_reason=reason)


def resumed(control: Control) -> Control:
    """Lifts pause and hold."""
    lifted = replace(control, held_until=None, hold_reason=None)
    return replace(lifted, paused=False, paused_by=None, paused_at=None, pause_reason=None)


def for_one_tenant(control: Control, tenant_id: str) -> Control:
    """Redacts a control for users of one tenant: hides actor, reason and budget, except for controls of their own tenant.
    The reason of the gate is visible to all."""
    if control.scope is Scope.TENANT and control.name == tenant_id:
        return control
    reason = control.pause_reason if control.scope is Scope.GATE else None
    held = "a service asked to retry later" if control.hold_reason else None
    hidden = replace(control, paused_by=None, pause_reason=reason, hold_reason=held, updated_by=None)
    return replace(hidden, budget_cents=None, on_exhausted=None)


# -- order -------------------------------------------------------------------------------------
# The order of waiting jobs: priority, position, age, id. It depends on stored fields only.
#
# A move gives one job a position between its new neighbours. When no whole number is left there, neighbours on one side are
# shifted away, as few as make enough room:
#
#     before   … 300  301 | 302  400 …      no number is left between 301 and 302
#     after    … 300  301 | 351  400 …      one row was shifted, by half of the room that it had


GAP = 100

MOST_SHIFTED = 256
"""Maximum number of shifted rows, unless there is no free number among them."""

FREE_FOR_EACH_ROW = (16, 8, 4, 2, 1, 0)
"""Free numbers for each shifted row, best first: with many, the next moves to the same place need no shift."""


class Place(StrEnum):
    BEFORE = "before"
    AFTER = "after"
    FRONT = "front"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class Shift:
    """New positions of the rows on one side of the gap, the nearest first."""

    down: bool
    positions: tuple[int, ...]


def between(low: int, high: int, *, room_above: bool = True) -> int | None:
    """A whole number strictly between two positions, or None when there is none.

    `room_above`: most of the gap stays free above the number, else below it. The room is left beside the job that was named
    as the neighbour, because the next job is often moved to the same place.
    """
    if high - low < 2:
        return None
    step = max(1, (high - low) // 8)
    return low + step if room_above else high - step


def make_room(below: Sequence[int], above: Sequence[int], *, below_is_open: bool) -> Shift | None:
    """Shifts rows so that a number becomes free between the last position of `below` and the first of `above`.

    Both sequences begin at the gap. The last position of each is a row that stays, except that with `below_is_open` all rows
    of `below` may be shifted: nothing stands under them. None: neither side has the numbers that the gap lacks.
    """
    down, up = [-position for position in below], list(above)
    sides = ((False, up, False), (True, down, below_is_open))
    lacking = 2 - (above[0] - below[0])
    for wanted in FREE_FOR_EACH_ROW:
        found = []
        for is_down, rows, is_open in sides:
            fit = _smallest_fit(rows, is_open, at_least=max(wanted, lacking), for_each=wanted)
            if fit is not None:
                found.append((*fit, is_down))
        if found:
            count, free, is_down = min(found, key=lambda fit: (fit[0], -fit[1]))
            return _shift(is_down, down if is_down else up, count, free, to_gap=max((free + 1) // 2, lacking))
    return None


def _smallest_fit(rows: Sequence[int], is_open: bool, at_least: int, for_each: int) -> tuple[int, int] | None:
    """How many rows, counted from the gap, have enough free numbers among them and before the next row; and how many.

    Enough is `at_least`, and `for_each` more for each row."""
    for count in range(1, len(rows) + is_open):
        free = GAP * (count + 1) if count == len(rows) else rows[count] - rows[0] - count
        if free >= at_least + for_each * count:
            return count, free
    return None


def _shift(is_down: bool, rows: Sequence[int], count: int, free: int, *, to_gap: int) -> Shift:
    """Moves the first rows away from the gap. The free numbers that the gap does not get are spread between them."""
    wall, rest = rows[0] + count + free, free - to_gap
    shifted = tuple(wall - left - rest * left // count for left in range(count, 0, -1))
    return Shift(is_down, tuple(-one for one in shifted) if is_down else shifted)


# -- queues ------------------------------------------------------------------------------------
# A queue as operators see it.


@dataclass(frozen=True, slots=True)
class QueueState:
    """`waiting` counts queue entries by state: ready, later, blocked, held."""

    name: str
    waiting: Mapping[str, int]
    running: int
    control: Control


# -- reservations ------------------------------------------------------------------------------
# A queue held for one job: nothing else is claimed from it, and that job runs when all its runs have ended.


ReservationId = NewType("ReservationId", str)
DEFAULT_TTL_SECONDS = 300.0


class ReservationStatus(StrEnum):
    ACTIVE = "ACTIVE"
    RELEASED = "RELEASED"
    EXPIRED = "EXPIRED"


@dataclass(frozen=True, slots=True)
class Reservation:
    id: ReservationId
    queue: str
    job_id: JobId
    reserved_by: str
    reserved_at: datetime
    expires_at: datetime
    status: ReservationStatus
    ended_at: datetime | None
