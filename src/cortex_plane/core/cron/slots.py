"""The instants at which a rule is due, on the wall clock of a zone.

fixed      each time of day once on every date: when the clocks first show it. A time that they skip moves to the first
           instant after the gap; a time that they show twice counts the first time. A date that they skip has none.
interval   whenever the clocks show a minute that fits: nothing in a gap, twice where they show it twice.

Time is searched by leaps: first on the calendar, which knows no zone, then in the zone, from one change of the clocks to the
next. A change moves them by a day at most, and no zone changes them twice within a day.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cortex_plane.core.cron.rule import DAY, HORIZON_YEARS, CronRule, at_or_after, at_or_before, kind
from cortex_plane.core.cron.zones import change, first_reached, offset, wall_clock
from cortex_plane.core.errors import InvalidInput

MOMENT = timedelta(microseconds=1)
HORIZON = timedelta(days=366 * HORIZON_YEARS)


def next_slot(rule: CronRule, zone: ZoneInfo, after: datetime) -> datetime | None:
    """The first slot strictly after; None if there is none for fifty years, or before the calendar ends."""
    try:
        search = _next_fixed if kind(rule) == "fixed" else _next_interval
        return search(rule, zone, _utc(after))
    except OverflowError:
        return None


def previous_slot(rule: CronRule, zone: ZoneInfo, before: datetime) -> datetime | None:
    """The last slot strictly before; None if there was none for fifty years."""
    try:
        search = _previous_fixed if kind(rule) == "fixed" else _previous_interval
        return search(rule, zone, _utc(before))
    except OverflowError:
        return None


def slots_between(rule: CronRule, zone: ZoneInfo, start: datetime, end: datetime, limit: int) -> list[datetime]:
    """The slots from `start` on and before `end`, in order, at most `limit` of them."""
    if limit < 1:
        raise InvalidInput(f"limit must be 1 or more, not {limit}.", field="limit")
    return list(islice(_slots(rule, zone, _utc(start), _utc(end)), limit))


def _slots(rule: CronRule, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    slot = next_slot(rule, zone, start - MOMENT)
    while slot is not None and slot < end:
        yield slot
        slot = next_slot(rule, zone, slot)


def _next_fixed(rule: CronRule, zone: ZoneInfo, after: datetime) -> datetime | None:
    moment = at_or_after(rule, wall_clock(zone, after) + MOMENT)
    while moment is not None:
        slot = first_reached(zone, moment)
        # What the clocks show for the second time was due the first time.
        if slot is not None and slot > after:
            return slot
        moment = at_or_after(rule, moment + MOMENT)
    return None


def _previous_fixed(rule: CronRule, zone: ZoneInfo, before: datetime) -> datetime | None:
    # While the clocks show times for the second time, later ones were already due.
    put_back = offset(zone, before - DAY) - offset(zone, before)
    moment = at_or_before(rule, wall_clock(zone, before) + max(put_back, timedelta()))
    while moment is not None:
        slot = first_reached(zone, moment)
        if slot is not None and slot < before:
            return slot
        moment = at_or_before(rule, moment - MOMENT)
    return None


def _next_interval(rule: CronRule, zone: ZoneInfo, after: datetime) -> datetime | None:
    at, horizon = after + MOMENT, after + HORIZON
    while at < horizon:
        now = offset(zone, at)
        moment = at_or_after(rule, at.replace(tzinfo=None) + now)
        if moment is None:
            return None
        slot = moment.replace(tzinfo=UTC) - now  # If the clocks do not change before.
        near = min(slot, at + DAY)
        if offset(zone, near) != now:
            at = change(zone, at, near)
        elif near == slot:
            return slot
        else:
            # Clocks that are put back from here on show nothing that was not looked at: go close to the slot.
            at = max(near, slot - 2 * DAY)
    return None


def _previous_interval(rule: CronRule, zone: ZoneInfo, before: datetime) -> datetime | None:
    at, horizon = before - MOMENT, before - HORIZON
    while at > horizon:
        now = offset(zone, at)
        moment = at_or_before(rule, at.replace(tzinfo=None) + now)
        if moment is None:
            return None
        slot = moment.replace(tzinfo=UTC) - now
        near = max(slot, at - DAY)
        if offset(zone, near) != now:
            at = change(zone, near, at) - MOMENT
        elif near == slot:
            return slot
        else:
            at = min(near, slot + 2 * DAY)
    return None


def _utc(moment: datetime) -> datetime:
    """A datetime without a zone is taken to be in UTC."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
