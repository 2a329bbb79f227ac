"""When and how a failed job is tried again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import exp, isfinite, log
from typing import Any, Literal, Self

from cortex_plane.errors import InvalidInput

MAX_RETRIES_LIMIT = 100
CRASH_LIMIT = 3
MAX_RETRY_AFTER_SECONDS = 24 * 3600.0

RetryMode = Literal["in_place", "chain"]
CrashPolicy = Literal["resume", "fail"]


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:
        return False


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delay before retry n, counted from 0: min(max, base · multiplier^n), with full jitter unless switched off."""

    base_seconds: float = 1.0
    max_seconds: float = 300.0
    multiplier: float = 2.0
    jitter: bool = True

    def __post_init__(self) -> None:
        for name, least in (("base_seconds", 0), ("max_seconds", 0), ("multiplier", 1)):
            value = getattr(self, name)
            if not (_is_number(value) and value >= least):
                raise InvalidInput(
                    f"backoff.{name} must be a number of {least} or more, not {value!r:.60}.", field=f"backoff.{name}"
                )

    def ceiling_seconds(self, retry_count: int) -> float:
        """The longest delay before retry `retry_count`; no n overflows it."""
        try:
            return min(self.max_seconds, self.base_seconds * float(self.multiplier) ** retry_count)
        except OverflowError:
            return self._ceiling_by_logarithm(retry_count)

    def _ceiling_by_logarithm(self, retry_count: int) -> float:
        """For factors beyond what a float holds."""
        if self.base_seconds == 0 or self.max_seconds == 0:
            return 0.0
        exponent = log(self.base_seconds) + retry_count * log(self.multiplier)
        return self.max_seconds if exponent >= log(self.max_seconds) else min(self.max_seconds, exp(exponent))

    def delay_seconds(self, retry_count: int, chance: float) -> float:
        """`chance` is a random number from 0 to 1."""
        ceiling = self.ceiling_seconds(retry_count)
        return ceiling * chance if self.jitter else ceiling


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`in_place` runs the same job again; `chain` ends it FAILED and submits a linked one."""

    mode: RetryMode = "in_place"
    max_retries: int = 3
    backoff: Backoff = Backoff()

    def __post_init__(self) -> None:
        if self.mode not in ("in_place", "chain"):
            raise InvalidInput(f'retry.mode must be "in_place" or "chain", not {self.mode!r}.', field="retry.mode")
        check_max_retries(self.max_retries)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Fields that this code does not know are passed over: a newer version may have written them."""
        backoff = {name: value for name, value in stored.get("backoff", {}).items() if name in Backoff.__slots__}
        known = {name: value for name, value in stored.items() if name in ("mode", "max_retries")}
        return cls(**known, backoff=Backoff(**backoff))


def retry_after_seconds(value: str, now: datetime | None, date: str = "") -> float | None:
    """Seconds that the HTTP header `Retry-After` asks for, as a number or a date; None if it is neither.

    A date is compared with the answer's own `Date` header, so that a wrong clock on either side does not matter, and with
    `now` if the answer has none; None if there is neither. A date in the past is 0. The maximum is MAX_RETRY_AFTER_SECONDS."""
    text = value.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), MAX_RETRY_AFTER_SECONDS)
    until, answered_at = _http_date(text), _http_date(date) or now
    if until is None or answered_at is None:
        return None
    return min(max(0.0, (until - answered_at).total_seconds()), MAX_RETRY_AFTER_SECONDS)


def _http_date(text: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def check_policy(value: Any, field: str = "retry") -> RetryPolicy:
    if not isinstance(value, RetryPolicy):
        raise InvalidInput(f'{field} must be a RetryPolicy, such as RetryPolicy("chain"), not {value!r:.80}.', field=field)
    return value


def check_max_retries(value: int, field: str = "max_retries") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_RETRIES_LIMIT:
        raise InvalidInput(f"{field} must be a whole number from 0 to {MAX_RETRIES_LIMIT}, not {value!r}.", field=field)
    return value
