"""Turns whatever a handler raised into JSON, however broken the exception is."""

from __future__ import annotations

import traceback
from typing import Any

import structlog

from cortex_plane.core.errors import CodeChanged, InvalidInput
from cortex_plane.core.jobs import Claimed
from cortex_plane.core.outcomes import Failed, Outcome
from cortex_plane.core.states import JobStatus

log = structlog.get_logger()

MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000
LONGEST_WAIT_SECONDS = 7 * 24 * 3600.0


class PermanentFailure(Exception):
    """Raise it in a handler to fail the job without spending retries on it."""


class ApprovalDenied(PermanentFailure):
    """An approval with `on_denial="raise"` was denied. `decided_by` is a name; None when nobody decided in time."""

    def __init__(self, decided_by: str | None, reason: str | None) -> None:
        by = f" by {decided_by}" if decided_by else ""
        super().__init__(f"Approval denied{by}: {reason}" if reason else f"Approval denied{by}")
        self.decided_by, self.reason = decided_by, reason


class RetryAfter(Exception):
    """Raise it in a handler to fail this attempt and say when the next may come: what a busy service answered, for example."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = min(max(0.0, float(seconds)), LONGEST_WAIT_SECONDS)


class TimedOut(Exception):
    """The handler took longer than its agent or its job allows."""


class CommandFailed(Exception):
    """A program ended with an exit code other than 0; `run` holds what it left behind."""

    def __init__(self, message: str, run: dict[str, Any]) -> None:
        super().__init__(message)
        self.run = run


def failed(error: BaseException, *, retryable: bool | None = None) -> Failed:
    """No retry would help where the input or the code is wrong."""
    may_retry = not isinstance(error, PermanentFailure | InvalidInput | CodeChanged) if retryable is None else retryable
    return Failed(
        described(error),
        retryable=may_retry,
        run=error.run if isinstance(error, CommandFailed) else None,
        delay_seconds=error.seconds if isinstance(error, RetryAfter) else None,
    )


def log_failure(claimed: Claimed, outcome: Outcome, becomes: JobStatus) -> None:
    """If it is one: a line for whoever reads the worker's log. What went wrong, in which run, and what becomes of the job."""
    if not isinstance(outcome, Failed):
        return
    error = outcome.error
    write = log.warning if becomes is JobStatus.RETRY else log.error
    write(
        "run_failed",
        error=f"{error.get('type')}: {error.get('message')}",
        becomes=becomes.value,
        attempt=claimed.attempt,
        job_id=claimed.job_id,
        run_id=claimed.run_id,
        agent=claimed.job_type,
        **({"exception": frames} if (frames := str(error.get("traceback") or "").rstrip()) else {}),
    )


def described(error: BaseException) -> dict[str, Any]:
    return {
        "type": _clean(type(error).__qualname__, MESSAGE_LIMIT),
        "message": _message(error),
        "traceback": _traceback(error),
    }


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as broken:  # Even its words may try to end the program.
        text = f"(its message cannot be shown: str() raised {type(broken).__name__})"
    return _clean(text, MESSAGE_LIMIT) or type(error).__name__


def _traceback(error: BaseException) -> str:
    """Only the frames: formatting the exception itself would call its own code again."""
    frames = traceback.format_list(traceback.extract_tb(error.__traceback__))
    return _clean("".join(frames), TRACEBACK_LIMIT)


def _clean(text: str, limit: int) -> str:
    """What a database takes: no NUL, no half surrogates, not too long."""
    text = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else f"{text[: limit // 2]}\n…\n{text[-limit // 2 :]}"
