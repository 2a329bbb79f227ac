"""Classifies exceptions of handlers, and formats tracebacks without the engine's frames.

The traceback that a user wants to read: frames of their own code, with causes and sub-exceptions, bounded in size.

Formatting must survive any exception: only its type, its frames and its guarded message are looked at.
"""

from __future__ import annotations

import concurrent.futures
import os
import traceback
from asyncio import base_events
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from math import isfinite
from pathlib import Path
from textwrap import indent
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any, get_args

import structlog

from cortex_plane.errors import CodeChanged, InvalidInput, JobCancelled, JobFailed, NeverAwaited, StepFailed, ToolUncertain
from cortex_plane.jobs.outcomes import Failed, Outcome, Wait
from cortex_plane.jobs.states import JobStatus
from cortex_plane.queues.model import HoldScope

if TYPE_CHECKING:
    from cortex_plane.jobs.model import Claimed

OURS = str(Path(__file__).parents[1]) + os.sep
PLUMBING = tuple(str(Path(str(module.__file__)).parent) + os.sep for module in (base_events, concurrent.futures))
"""Where frames lie that only carry a call of ours to the user's code: event loops and thread pools."""

MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000
MOST_CAUSES = 10
MOST_SUB_EXCEPTIONS = 15
DEEPEST_GROUP = 5

CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
STEP = "__cortex_step__"


def mark_step(error: BaseException, key: str) -> None:
    """Notes the durable call in which an exception was raised. The innermost is kept: its identity contains the outer ones."""
    with suppress(Exception):  # It may have slots, or refuse attributes.
        if getattr(error, STEP, None) is None:
            setattr(error, STEP, key)


def step_of(error: BaseException) -> str | None:
    """The identity of the durable call that failed, looked for along the causes; the name alone where no more is known."""
    for one, _ in _causes(error):
        for found in (one.error.get("step") if isinstance(one, StepFailed) else None, getattr(one, STEP, None)):
            if isinstance(found, str):
                return clean(found, MESSAGE_LIMIT)
    named = getattr(error, "step", None) or getattr(error, "tool", None)
    return clean(named, MESSAGE_LIMIT) if isinstance(named, str) else None


def formatted(error: BaseException) -> str:
    """Formatted as Python does, without the engine's frames."""
    return clean(_formatted(error), TRACEBACK_LIMIT)


def message_of(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as broken:  # Even its words may try to end the program.
        text = f"(its message cannot be shown: str() raised {type(broken).__name__})"
    return clean(text, MESSAGE_LIMIT) or type(error).__name__


def clean(text: str, limit: int) -> str:
    """Text that the databases accept: no NUL, no lone surrogates, bounded length."""
    text = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else f"{text[: limit // 2]}\n…\n{text[-limit // 2 :]}"


def _formatted(error: BaseException, depth: int = 0) -> str:
    sections: list[str] = []
    for one, joint in reversed(list(_causes(error))):
        sections.append(_section(one, depth) + joint)
    return "".join(sections)


def _causes(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """The exception, then its causes, each with the words that join it to the previous one in this order."""
    seen: set[int] = set()
    joint, one = "", error
    while one is not None and id(one) not in seen and len(seen) < MOST_CAUSES:
        seen.add(id(one))
        yield one, joint
        if one.__cause__ is not None:
            joint, one = CAUSE, one.__cause__
        elif one.__context__ is not None and not one.__suppress_context__:
            joint, one = CONTEXT, one.__context__
        else:
            return


def _section(error: BaseException, depth: int) -> str:
    frames = "".join(traceback.format_list(_users_frames(traceback.extract_tb(error.__traceback__))))
    head = f"Traceback (most recent call last):\n{frames}" if frames else ""
    kind = clean(type(error).__qualname__, MESSAGE_LIMIT)
    return f"{_of_child(error)}{head}{kind}: {message_of(error)}\n{_sub_exceptions(error, depth)}"


def _users_frames(frames: list[FrameSummary]) -> list[FrameSummary]:
    """Without ours, and without the loops and pools that ours go through. All of them if no other is left."""
    kept: list[FrameSummary] = []
    behind_ours = True
    for frame in frames:
        if frame.filename.startswith(OURS):
            behind_ours = True
        elif not (behind_ours and frame.filename.startswith(PLUMBING)):
            behind_ours = False
            kept.append(frame)
    return kept or frames


def _of_child(error: BaseException) -> str:
    """Where the child job of a failed call failed."""
    inside = error.error if isinstance(error, JobFailed) else None
    if not isinstance(inside, dict) or not inside.get("traceback"):
        return ""
    return f"{indent(str(inside['traceback']), '  | ')}\n"


def _sub_exceptions(error: BaseException, depth: int) -> str:
    if not isinstance(error, BaseExceptionGroup) or depth >= DEEPEST_GROUP:
        return ""
    shown, left_out = error.exceptions[:MOST_SUB_EXCEPTIONS], len(error.exceptions) - MOST_SUB_EXCEPTIONS
    share = TRACEBACK_LIMIT // (len(shown) + 1)
    parts = [
        f"  +-- {number} of {len(error.exceptions)}\n{indent(clean(_formatted(one, depth + 1), share), '  | ')}"
        for number, one in enumerate(shown, 1)
    ]
    return "".join(parts) + (f"  +-- and {left_out} more\n" if left_out > 0 else "")


# -- failures ----------------------------------------------------------------------------------
# Converts an exception of a handler to JSON, even if the exception itself is broken.


log = structlog.get_logger()

LONGEST_WAIT_SECONDS = 7 * 24 * 3600.0

BESIDES = "__cortex_besides__"
"""The failure of one branch of ctx.gather holds those of the other branches here."""


class PermanentFailure(Exception):
    """Raise it in a handler to fail the job without spending retries on it."""


class ApprovalDenied(PermanentFailure):
    """An approval with `on_denial="raise"` was denied. `decided_by` is a user name; None if the request expired."""

    def __init__(self, decided_by: str | None, reason: str | None) -> None:
        by = f" by {decided_by}" if decided_by else ""
        super().__init__(f"Approval denied{by}: {reason}" if reason else f"Approval denied{by}")
        self.decided_by, self.reason = decided_by, reason


class RetryAfter(Exception):
    """Raise it in a handler, a step or a tool when a service asks the caller to come back later: the job waits and is then
    tried again, without using up a retry.

    Args:
        seconds: A number or a timedelta; a negative value counts as 0. The wait is at least the backoff of the retry policy and
            at most the agent's `max_retry_after` (24 hours by default): a longer one fails the job.
        message: The reason, shown with the job.
        scope: With "agent" or "queue", all jobs of the agent or the queue wait as long.

    Example: `raise RetryAfter(int(response.headers["retry-after"]), "busy", scope="agent")`."""

    def __init__(self, seconds: float | timedelta, message: str = "", *, scope: HoldScope = "job") -> None:
        length = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        if isinstance(length, bool) or not isinstance(length, int | float) or not isfinite(length):
            raise InvalidInput(
                f'RetryAfter takes the wait first, in seconds or as a timedelta, then a message: RetryAfter(30, "busy"), '
                f"not RetryAfter({seconds!r:.80}, {message!r:.80}).",
                field="seconds",
            )
        if scope not in get_args(HoldScope):
            raise InvalidInput(f'scope must be "job", "agent" or "queue", not {scope!r:.80}.', field="scope")
        self.seconds, self.scope = max(0.0, float(length)), scope
        super().__init__(message or f"to be tried again in {self.seconds:g} s")


class RetryLater(Exception):
    """For the plane's own deliveries: fails this attempt and uses up a retry. The next attempt comes after `seconds`, or
    after the policy's backoff if that is longer."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = min(max(0.0, float(seconds)), LONGEST_WAIT_SECONDS)


class TimedOut(Exception):
    """The handler took longer than `run_timeout` allows."""


class DeadlineExceeded(PermanentFailure):
    """The job did not end before its deadline."""


class RunCancelled(JobCancelled, PermanentFailure):
    """JobCancelled, as it reaches a handler inside an open cleanup scope."""


class RunTimedOut(TimedOut, PermanentFailure):
    """TimedOut, as it reaches a handler inside an open cleanup scope."""


class CommandFailed(Exception):
    """A program ended with a nonzero exit code; `run` holds its log and artifacts."""

    def __init__(self, message: str, run: dict[str, Any]) -> None:
        super().__init__(message)
        self.run = run


FINAL = (PermanentFailure, InvalidInput, CodeChanged, ToolUncertain, NeverAwaited)
"""An error that no retry can solve: it passes through steps unchanged and ends the job unless the handler catches it."""


class _Nothing:
    """No exception is one."""


def readable(error: BaseException) -> BaseException:
    """The exception, or a plain one in its place if its class cannot be read: `isinstance` would raise at every later use."""
    try:
        isinstance(error, _Nothing)
    except BaseException:
        stand_in = RuntimeError(f"{type(error).__qualname__} (an exception whose class cannot be read)")
        return stand_in.with_traceback(error.__traceback__)
    return error


def failed(error: BaseException, *, retryable: bool | None = None) -> Failed:
    """No retry would help where the input or the code is wrong."""
    error = readable(error)
    may_retry = not isinstance(error, FINAL) if retryable is None else retryable
    return Failed(
        described(error),
        retryable=may_retry,
        run=error.run if isinstance(error, CommandFailed) else None,
        delay_seconds=error.seconds if isinstance(error, RetryLater) else None,
        waits=_wait_of(error),
    )


def _wait_of(error: BaseException) -> Wait | None:
    """Finds a RetryAfter, also one raised in a step whose failure the handler did not catch. Of several in one gather the
    longest counts."""
    first = _retry_after(error)
    if first is None:
        return None
    others = [found for one in getattr(error, BESIDES, ()) if (found := _retry_after(one)) is not None]
    longest = max([first, *others], key=lambda wait: wait.seconds)
    return Wait(longest.seconds, longest.scope, str(longest))


def _retry_after(error: BaseException) -> RetryAfter | None:
    cause: BaseException | None = error
    while isinstance(cause, StepFailed):
        cause = cause.__cause__
    return cause if isinstance(cause, RetryAfter) else None


def log_failure(claimed: Claimed, outcome: Outcome, becomes: JobStatus) -> None:
    """A log line for operators: which run failed, how, and what becomes of the job."""
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
        **({"step": error["step"]} if error.get("step") else {}),
        **({"exception": frames} if (frames := str(error.get("traceback") or "").rstrip()) else {}),
    )


def described(error: BaseException) -> dict[str, Any]:
    """Type, message and traceback, and the durable call that failed, if it was one."""
    step = step_of(error)
    return {
        "type": clean(type(error).__qualname__, MESSAGE_LIMIT),
        "message": message_of(error),
        **({} if step is None else {"step": step}),
        "traceback": formatted(error),
    }
