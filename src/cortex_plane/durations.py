"""Durations as text for people: `3 min`, `12.3 s`, `2 h 5 min`."""

from __future__ import annotations

from datetime import datetime, timedelta

STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def ago(at: datetime, now: datetime) -> str:
    """`3 min ago`, or `in 3 min` for the future."""
    if abs(now - at) < timedelta(seconds=1):
        return "just now"
    return f"{rough(now - at)} ago" if now > at else f"in {rough(at - now)}"


def rough(length: timedelta) -> str:
    """The duration in its largest unit: `3 min`."""
    seconds = length.total_seconds()
    for unit_seconds, unit in STEPS:
        if seconds >= unit_seconds:
            return f"{int(seconds // unit_seconds)} {unit}"
    return "0 s"


def span(length: timedelta) -> str:
    """The duration with two units or two decimals: `2 h 5 min`, `1.25 s`."""
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
