"""Checks what somebody asks of a schedule. What would go wrong at the first slot is refused here already."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from math import isfinite
from typing import Any, cast, get_args

from cortex_plane.core.cron import parse, time_zone
from cortex_plane.core.errors import InvalidInput, did_you_mean
from cortex_plane.core.grants import check_target
from cortex_plane.core.instants import EARLIEST, LATEST
from cortex_plane.core.normal_json import normal
from cortex_plane.core.schedules import MissedRule, OverlapRule, ScheduleTerms
from cortex_plane.core.slots import coming, utc
from cortex_plane.ports.json_text import dumps

LONGEST_JITTER_SECONDS = 3600.0
MOST_CAUGHT_UP = 1000
MOST_FAILURES = 1_000_000
INPUT_LIMIT_BYTES = 256 * 1024


def checked_terms(terms: ScheduleTerms, now: datetime) -> ScheduleTerms:
    """The same in normal form; raises InvalidInput naming the field."""
    _check_rule(terms.cron)
    time_zone(terms.timezone)
    checked = ScheduleTerms(
        graph_id=check_target(terms.graph_id),
        cron=terms.cron.strip(),
        timezone=terms.timezone,
        input=_input(terms.input),
        missed=_one_of(terms.missed, get_args(MissedRule), "missed"),
        most_missed=_number(terms.most_missed, "most_missed", MOST_CAUGHT_UP),
        overlap=_one_of(terms.overlap, get_args(OverlapRule), "overlap"),
        jitter_seconds=_jitter(terms.jitter_seconds),
        starts_at=_moment(terms.starts_at, "starts_at"),
        ends_at=_moment(terms.ends_at, "ends_at"),
        pause_after_failures=None
        if terms.pause_after_failures is None
        else _number(terms.pause_after_failures, "pause_after_failures", MOST_FAILURES),
    )
    _check_slots(checked, now)
    return checked


def _check_rule(cron: Any) -> None:
    try:
        parse(cron)
    except InvalidInput as error:
        example = "" if "such as" in str(error) else ' A rule such as "0 9 * * mon-fri" is due every weekday at 09:00.'
        raise InvalidInput(f"{error}{example}", field="cron") from None


def _check_slots(terms: ScheduleTerms, now: datetime) -> None:
    slots = coming(terms, now, 3)
    if not slots:
        until = "" if terms.ends_at is None else f" before {terms.ends_at.isoformat()}"
        raise InvalidInput(f'"{terms.cron}" in {terms.timezone} is never due{until}.', field="cron")
    shortest = min((after - before for before, after in pairwise(slots)), default=None)
    if shortest is not None and timedelta(seconds=terms.jitter_seconds) >= shortest:
        raise InvalidInput(
            f"jitter is {terms.jitter_seconds:g} s, but slots are only {shortest.total_seconds():g} s apart. Make it less.",
            field="jitter",
        )


def _input(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"input must be a dict of the target's arguments by name, not {value!r:.60}.", field="input")
    stored = cast(dict[str, Any], normal(dict(value), "input"))
    if (size := len(dumps(stored).encode())) > INPUT_LIMIT_BYTES:
        raise InvalidInput(f"input is {size:,} bytes of JSON; the limit is {INPUT_LIMIT_BYTES:,}.", field="input")
    return stored


def _one_of(value: Any, known: tuple[Any, ...], field: str) -> Any:
    if value not in known:
        hint = did_you_mean(str(value)[:40], known)
        raise InvalidInput(f"{field} must be one of {', '.join(known)}, not {value!r:.40}.{hint}", field=field)
    return value


def _number(value: Any, field: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(f"{field} must be a whole number from 1 to {most:,}, not {value!r:.40}.", field=field)
    return value


def _jitter(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not isfinite(value)
        or not 0 <= value <= LONGEST_JITTER_SECONDS
    ):
        raise InvalidInput(f"jitter must be from 0 to {LONGEST_JITTER_SECONDS:g} seconds, not {value!r:.40}.", field="jitter")
    return float(value)


def _moment(value: Any, field: str) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or not EARLIEST <= utc(value) <= LATEST:
        raise InvalidInput(f"{field} must be a datetime, not {value!r:.60}.", field=field)
    return utc(value)
