"""Times as people write and read them: `5m`, `2026-01-05 09:00`; `3 min ago`, `12.3 s`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.spans import ago, rough, span

__all__ = ["ago", "duration", "moment", "rough", "span", "stamp"]

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
PARTS = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


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
