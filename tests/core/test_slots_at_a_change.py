"""Slots that are due when a schedule is changed: each is settled once, as its chain would have settled it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.grants.model import GrantId
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from cortex_plane.schedules.model import MissedRule, Schedule, ScheduleId, ScheduleTerms
from cortex_plane.schedules.slots import Skipped, advance, due_at_change, verdict

FIRST = datetime(2026, 1, 5, 10, tzinfo=UTC)


def schedule(missed: MissedRule, most_missed: int, jitter: float = 0.0) -> Schedule:
    terms = ScheduleTerms("agent:report", "*/10 * * * *", missed=missed, most_missed=most_missed, jitter_seconds=jitter)
    return Schedule(ScheduleId("s"), DEFAULT_TENANT_ID, "s", GrantId("g"), terms, next_run_at=FIRST)


def settled_by_the_chain(schedule: Schedule, began_at: datetime | None, now: datetime) -> tuple[list[datetime], list[Skipped]]:
    """Slot by slot, as jobs of the chain would if none of them took any time."""
    slot, run, skipped = schedule.next_run_at, list[datetime](), list[Skipped]()
    if began_at is not None and slot is not None:
        step = advance(schedule, slot, began_at, now)
        slot, skipped = step.next, [*step.skipped]
    while slot is not None and slot <= now:
        reason = verdict(schedule, slot, now)
        run, skipped = (run, [*skipped, Skipped(slot, reason)]) if reason else ([*run, slot], skipped)
        step = advance(schedule, slot, now, now)
        skipped += step.skipped
        slot = step.next
    return run, skipped


@given(
    st.sampled_from(["skip", "latest", "all"]),
    st.integers(1, 30),
    st.integers(-20, 300),
    st.none() | st.integers(0, 300),
    st.sampled_from([0.0, 200.0, 590.0]),
)
def test_due_slots_are_settled_as_the_chain_would(
    missed: MissedRule, most_missed: int, minutes: int, began: int | None, jitter: float
) -> None:
    now = FIRST + timedelta(minutes=minutes)
    began_at = None if began is None or began > minutes else FIRST + timedelta(minutes=began)
    changed = schedule(missed, most_missed, jitter)

    settled = due_at_change(changed, began_at, now)

    run, skipped = settled_by_the_chain(changed, began_at, now)
    assert (sorted(settled.run), sorted(settled.skipped)) == (run, sorted(skipped))


@given(st.sampled_from(["skip", "latest", "all"]), st.integers(1, 30), st.integers(-20, 300))
def test_every_due_slot_is_settled_once(missed: MissedRule, most_missed: int, minutes: int) -> None:
    now = FIRST + timedelta(minutes=minutes)
    due = [FIRST + timedelta(minutes=10 * number) for number in range(minutes // 10 + 1)]

    settled = due_at_change(schedule(missed, most_missed), None, now)

    assert sorted([*settled.run, *(one.slot for one in settled.skipped)]) == due


def test_of_a_gap_of_a_year_the_newest_run_and_a_thousand_are_recorded() -> None:
    settled = due_at_change(schedule("all", 5), None, FIRST + timedelta(days=365))

    assert [FIRST + timedelta(days=365) - at for at in settled.run] == [timedelta(minutes=10 * n) for n in (4, 3, 2, 1, 0)]
    assert len(settled.skipped) == 1000
