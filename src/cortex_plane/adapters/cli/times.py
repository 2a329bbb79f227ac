"""Times as people write and read them: `5m`, `2026-01-05 09:00`; `3 min ago`, `12.3 s`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from cortex_plane.core.errors import InvalidInput

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
PARTS = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def duration(text: str, field: str) -> float:
    """Seconds: `90`, `90s`, `5m`, `1h30m`, `2d`."""
    written = text.strip().lower().replace(" ", "")
    try:
        return float(written)
    except ValueError:
        pass
    parts = PARTS.findall(written)
    if not parts or "".join(number + unit for number, unit in parts) != written:
        raise InvalidInput(f"--{field} {text!r:.40} is not a duration. Write 90, 90s, 5m, 1h30m or 2d.", field=field)
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def moment(text: str, field: str) -> datetime:
    """ISO 8601; without a zone it is UTC."""
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(
            f"--{field} {text!r:.40} is not a time. Write 2026-01-05T09:00 for UTC, or 2026-01-05T09:00+01:00.", field=field
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def ago(at: datetime, now: datetime) -> str:
    if abs(now - at) < timedelta(seconds=1):
        return "just now"
    return f"{rough(now - at)} ago" if now > at else f"in {rough(at - now)}"


def rough(length: timedelta) -> str:
    """The largest unit is enough: `3 min`."""
    seconds = length.total_seconds()
    for unit_seconds, unit in STEPS:
        if seconds >= unit_seconds:
            return f"{int(seconds // unit_seconds)} {unit}"
    return "0 s"


def span(length: timedelta) -> str:
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
