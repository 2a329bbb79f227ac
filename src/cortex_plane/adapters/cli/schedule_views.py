"""How schedules and their slots are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cortex_plane.core.cron import time_zone
from cortex_plane.core.schedules import Schedule, Slot
from cortex_plane.core.shown_schedules import shown

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

LOOKS = {
    "pending": ("○", "blue"),
    "running": ("▶", "cyan"),
    "success": ("✓", "green"),
    "error": ("✗", "red"),
    "skipped": ("⊘", "bright_black"),
}


def short(schedule: Schedule) -> str:
    """`Every weekday at 09:00, Europe/Berlin`."""
    return shown(schedule).description


def described(schedule: Schedule) -> dict[str, Any]:
    """For programs: the schedule with its rules in words."""
    from dataclasses import asdict

    return asdict(shown(schedule))


def schedule_table(schedules: Sequence[Schedule], now: datetime) -> Table:
    from cortex_plane.adapters.cli.output import one_line_each, words

    rows = [
        [words(one.name), words(one.terms.graph_id), words(one.terms.cron), _next(one, now), words(short(one))]
        for one in schedules
    ]
    return one_line_each(["NAME", "TARGET", "CRON", "NEXT", "WHEN"], rows)


def _next(schedule: Schedule, now: datetime) -> Text:
    from cortex_plane.adapters.cli.output import words
    from cortex_plane.adapters.cli.times import rough

    if not schedule.enabled:
        return words("paused", "yellow")
    if schedule.next_run_at is None:
        return words("never", "dim")
    return words("now" if schedule.next_run_at <= now else f"in {rough(schedule.next_run_at - now)}")


def schedule_facts(schedule: Schedule, now: datetime) -> Iterator[tuple[str, RenderableType | None]]:
    from cortex_plane.adapters.cli.output import document, words
    from cortex_plane.adapters.cli.times import ago, stamp

    terms = schedule.terms
    yield "target", words(terms.graph_id)
    yield "rule", words(f"{terms.cron}  ({short(schedule)})")
    one = shown(schedule)
    yield "clocks", words(f"{one.daylight_saving_rule}: {one.daylight_saving}")
    yield "input", document(terms.input) if terms.input else None
    yield "next", _when(schedule, now)
    yield "last", f"{stamp(schedule.last_run_at)}, {ago(schedule.last_run_at, now)}" if schedule.last_run_at else None
    yield "missed", f"all, up to {terms.most_missed}" if terms.missed == "all" else terms.missed
    yield "overlap", terms.overlap
    yield "jitter", f"up to {terms.jitter_seconds:g} s" if terms.jitter_seconds else None
    yield "from", stamp(terms.starts_at) if terms.starts_at else None
    yield "until", stamp(terms.ends_at) if terms.ends_at else None
    yield "pauses", f"after {terms.pause_after_failures} failures in a row" if terms.pause_after_failures else None
    yield "failures", words(f"{schedule.failures} in a row", "red") if schedule.failures else None
    yield "grant", words(schedule.grant_id)
    yield "by", words(schedule.created_by) if schedule.created_by else None
    yield "id", words(schedule.id)


def _when(schedule: Schedule, now: datetime) -> RenderableType:
    from cortex_plane.adapters.cli.output import words
    from cortex_plane.adapters.cli.times import ago, stamp

    if not schedule.enabled:
        by = f" by {schedule.paused_by}" if schedule.paused_by else ""
        reason = f": {schedule.pause_reason}" if schedule.pause_reason else ""
        return words(f"paused{by}{reason}", "yellow")
    at = schedule.next_run_at
    return words("never" if at is None else f"{stamp(at)}, {ago(at, now)}")


def slot_table(slots: Sequence[Slot]) -> Table:
    from cortex_plane.adapters.cli.output import one_line, one_line_each, words
    from cortex_plane.adapters.cli.times import stamp

    rows = [
        [
            words(stamp(slot.scheduled_for)),
            words(" ".join((LOOKS[slot.status][0], slot.status)), LOOKS[slot.status][1]),
            words(slot.origin),
            words(slot.run_id or "-"),
            one_line(slot.reason or slot.error_message or ""),
        ]
        for slot in slots
    ]
    return one_line_each(["SLOT", "STATUS", "BY", "RUN", "WHY"], rows)


def coming_table(schedule: Schedule, slots: Sequence[datetime]) -> Table:
    from cortex_plane.adapters.cli.output import table, words

    zone = time_zone(schedule.terms.timezone)
    rows = [
        [words(f"{slot.astimezone(zone):%a %Y-%m-%d %H:%M %Z}"), words(f"{slot.astimezone(UTC):%Y-%m-%d %H:%M} UTC", "dim")]
        for slot in slots
    ]
    return table([schedule.terms.timezone.upper(), "UTC"], rows)


def clocks(schedule: Schedule) -> str:
    """What becomes of it when the clocks change, by the name of the rule."""
    one = shown(schedule)
    return f"Daylight saving ({one.daylight_saving_rule}): {one.daylight_saving}"
