"""The fields of a submission, their checks and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from math import isfinite
from typing import Any, TypedDict

from cortex_plane.errors import InvalidInput, check_options
from cortex_plane.jobs.model import DEFAULT_TENANT, KeyMode
from cortex_plane.jobs.retry import RetryPolicy

PRIORITY_LIMIT = 1_000_000
TAG_LIMIT = 50
LONGEST_DELAY = timedelta(days=36_500)
PAYLOAD_LIMIT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Submission:
    """What a caller asks for. None means: as the agent says."""

    agent: str
    payload: Mapping[str, Any] | None = None
    queue: str | None = None
    priority: int = 0
    run_at: datetime | None = None
    delay: float | timedelta | None = None
    job_key: str | None = None
    key_mode: KeyMode = "replace"
    serial_key: str | None = None
    tenant: str = DEFAULT_TENANT
    tags: Sequence[str] = ()
    max_retries: int | None = None
    retry: RetryPolicy | None = None
    run_timeout: float | timedelta | None = None
    """How long one run of it may take."""
    deadline: datetime | float | timedelta | None = None
    """When the job must have ended, its waits included: a time, or how long after its submission."""
    created_by: str | None = None
    session: str | None = None
    """The id of the conversation that it comes from: its user is asked where an approval names nobody."""
    cancel_with_parent: bool = False
    """For a child of another job: it is cancelled when that one fails or is cancelled."""


SUBMISSION_OPTIONS = frozenset(each.name for each in fields(Submission)) - {"agent", "payload"}


def checked_limit(length: float | timedelta | None, field: str) -> float | None:
    """In seconds."""
    if length is None:
        return None
    seconds = _seconds(length, field)
    if not 0 < seconds <= LONGEST_DELAY.total_seconds():
        raise InvalidInput(f"{field} must be more than 0 seconds, and at most 100 years, not {seconds:g} s.", field=field)
    return seconds


def refuse_timeout(options: Mapping[str, Any]) -> None:
    """The name of two different limits elsewhere, so it is not one here."""
    if "timeout" in options:
        raise InvalidInput(
            'There is no option "timeout". Did you mean run_timeout= (one run) or deadline= (the whole job)?', field="timeout"
        )


def _seconds(value: float | timedelta, field: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidInput(f"{field} must be a number of seconds or a timedelta, not {value!r:.80}.", field=field)
    return float(value)


# -- options -----------------------------------------------------------------------------------
# What a caller may say about one submission, besides its arguments.


class SubmitOptions(TypedDict, total=False):
    queue: str
    priority: int
    run_at: datetime
    delay: float | timedelta
    job_key: str
    key_mode: KeyMode
    serial_key: str
    tenant: str
    tags: Sequence[str]
    max_retries: int
    retry: RetryPolicy
    run_timeout: float | timedelta
    deadline: datetime | float | timedelta
    created_by: str
    session: str
    cancel_with_parent: bool
    connection: Any


SUBMIT_OPTIONS = frozenset(SubmitOptions.__annotations__)


def check_submit_options(taker: str, options: Mapping[str, Any], *others: str) -> None:
    """Raises InvalidInput for the first one that is neither an option of submissions nor one of `others`."""
    refuse_timeout(options)
    check_options(taker, options, (*SUBMIT_OPTIONS, *others))
