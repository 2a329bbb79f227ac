"""Options of durable calls, and the code that steps, tools and model calls share."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from cortex_plane.durable.checkpoint import Encoded, Recorder, encoded_result
from cortex_plane.durable.values import JSON, WrongType, return_type
from cortex_plane.errors import CodeChanged, InvalidInput, StepFailed, StepTimedOut, did_you_mean
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.json import fingerprint
from cortex_plane.worker.failures import RetryAfter, described, mark_step, readable
from cortex_plane.worker.threads import call_plainly

if TYPE_CHECKING:
    from cortex_plane.durable.schema import Entry

OnUncertain = Literal["fail", "rerun", "ask"]
UncertainOn = type[Exception] | tuple[type[Exception], ...]
NO_RETRY = RetryPolicy(max_retries=0)


@dataclass(frozen=True, slots=True)
class Applied:
    """Returned by `verify` if the call took effect, with the result that the call would have returned."""

    result: Any = None


Verify = Callable[[str], Awaitable[Applied | None] | Applied | None]
"""Receives the invocation id. Returns Applied if the call took effect, None if it did not."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    retry: RetryPolicy = NO_RETRY
    """Retries within the same run, before the job's own retries."""
    timeout: float | None = None
    """Seconds for each try."""


@dataclass(frozen=True, slots=True)
class ToolOptions(StepOptions):
    verify: Verify | None = None
    on_uncertain: OnUncertain = "fail"
    uncertain_on: tuple[type[Exception], ...] = ()
    """Exceptions that leave it open whether the call took effect, besides TimeoutError and ConnectionError."""
    side_effect: bool | None = None
    """None: determined by the agent's `side_effect_tools`; without that setting, a tool has side effects."""


Options = TypeVar("Options", StepOptions, ToolOptions)

OPTION_NAMES = frozenset(field.name for field in fields(ToolOptions))
PLAIN = StepOptions()
PLAIN_TOOL = ToolOptions()


def options_of(kind: type[Options], method: str, given: Mapping[str, Any]) -> Options:
    known = [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            raise InvalidInput(
                f'ctx.{method} has no option "{name}".{did_you_mean(name, known)} It takes {", ".join(known)}; '
                f'arguments of the function come after it: ctx.{method}("name", function, {name}=…).',
                field=name,
            )
    return kind(**{name: _CHECKS[name](value, name) for name, value in given.items()})


def _retry(value: Any, name: str) -> RetryPolicy:
    if not isinstance(value, RetryPolicy):
        raise InvalidInput(f"{name} takes a RetryPolicy, such as RetryPolicy(max_retries=3), not {value!r:.80}.", field=name)
    return value


def _timeout(value: Any, name: str) -> float | None:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds) or seconds <= 0:
        raise InvalidInput(f"{name} takes a number of seconds above 0, or a timedelta, not {value!r:.80}.", field=name)
    return float(seconds)


def _verify(value: Any, name: str) -> Any:
    if value is not None and not callable(value):
        raise InvalidInput(f"{name} takes a function that is given the invocation id, not {value!r:.80}.", field=name)
    return value


def _on_uncertain(value: Any, name: str) -> Any:
    if value not in ("fail", "rerun", "ask"):
        raise InvalidInput(f'{name} must be "fail", "rerun" or "ask", not {value!r:.80}.', field=name)
    return value


def _uncertain_on(value: Any, name: str) -> tuple[type[Exception], ...]:
    kinds = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise InvalidInput(f"{name} takes exception classes: one, or a tuple of them, not {value!r:.80}.", field=name)
    return kinds


def _side_effect(value: Any, name: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(f"{name} takes True or False, not {value!r:.80}.", field=name)
    return value


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "retry": _retry,
    "timeout": _timeout,
    "verify": _verify,
    "on_uncertain": _on_uncertain,
    "uncertain_on": _uncertain_on,
    "side_effect": _side_effect,
}


# -- calls -------------------------------------------------------------------------------------
# Shared by all durable calls: answering from the record, calling, timeouts, encoding, recording failures.


Anything = TypeVar("Anything")
LONGEST_WAIT_IN_PLACE = 60.0


def answer(recorder: Recorder, key: str, name: str, kind: str, entry: Entry, digest: str) -> Any:
    """Returns the recorded result if the record belongs to this call; stops the run if it does not."""
    if entry["kind"] != kind:
        recorder.stop(
            CodeChanged(name, f'"{name}" is recorded as a {entry["kind"]}, and the code asks for a {kind}. {HOW_TO_GO_ON}')
        )
    if entry.get("input") != digest:
        recorder.stop(
            CodeChanged(
                name,
                f'Step "{name}" was recorded with different arguments. Handlers must be deterministic, with the same calls '
                f"in every run: take values that change from ctx.now(), ctx.random(), ctx.uuid() or a step. {HOW_TO_GO_ON}",
            )
        )
    if entry.get("error") is not None:
        raise StepFailed(name, entry["error"], key)
    return recorder.journal.result_of(entry)


HOW_TO_GO_ON = (
    "Deploy code that fits: roll back, or put the change under ctx.patched(...). Or start over from a step that still fits: "
    "cortex jobs fork ID --from-step NAME"
)


async def pause_before_retry(recorder: Recorder, key: str, policy: RetryPolicy, tried: int, error: Exception) -> None:
    """Waits between two tries of one call in one run: for the backoff, but at least as long as RetryAfter requests."""
    services = recorder.services
    asked = error.seconds if isinstance(error, RetryAfter) else 0.0
    await services.clock.sleep(max(asked, policy.backoff.delay_seconds(tried, services.random())))
    recorder.journal.forget_failures(f"{key}/")


async def waited(recorder: Recorder, key: str, policy: RetryPolicy, error: Exception) -> bool:
    """Waits in place for a service that sent RetryAfter, without using up a retry. Returns False if the call has no retries
    or the wait is too long: then the job waits without a worker."""
    if not isinstance(error, RetryAfter) or policy.max_retries == 0 or error.seconds > LONGEST_WAIT_IN_PLACE:
        return False
    services = recorder.services
    await services.hold(recorder.claimed, error.scope, error.seconds, str(error))
    await services.clock.sleep(max(error.seconds, policy.backoff.delay_seconds(0, services.random())))
    recorder.journal.forget_failures(f"{key}/")
    return True


def noted_failure(recorder: Recorder, name: str, key: str, entry: Entry, error: Exception, started_at: int) -> StepFailed:
    """A failure is recorded when the handler has gone on from it: if it gives up, its retry tries the step again."""
    mark_step(error, key)
    failure = StepFailed(name, {name: text for name, text in described(error).items() if name != "traceback"}, key)
    recorder.journal.forget_failures(f"{key}/")
    recorder.journal.answered_for(key)
    recorder.journal.put(key, entry | {"error": failure.error})
    recorder.journal.log_step(name, started_at, recorder.now(), None, 0)
    return failure


async def within(seconds: float | None, name: str, work: Awaitable[Anything]) -> Anything:
    if seconds is None:
        return await work
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise StepTimedOut(name, seconds) from None
        raise


async def called(
    work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], check: Callable[[], None] | None = None
) -> Any:
    """Async functions here, plain ones in a thread: a step must not block the worker. `check` is called right before, there."""
    try:
        if _is_plain(work):
            value = await call_plainly(work if check is None else _checked(work, check), args, kwargs)
        else:
            if check is not None:
                check()
            value = work(*args, **kwargs)
        return await value if inspect.isawaitable(value) else value
    except BaseException as error:
        usable = readable(error)
        if usable is error:
            raise
    raise usable


def _checked(work: Callable[..., Any], check: Callable[[], None]) -> Callable[..., Any]:
    """Keeps the name of the work, for logs."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        check()
        return work(*args, **kwargs)

    checked.__qualname__ = getattr(work, "__qualname__", type(work).__name__)
    return checked


def _is_plain(work: Callable[..., Any]) -> bool:
    """A lambda is called here: it may return something to await, and has no room for work that takes long."""
    if inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(getattr(work, "__call__", None)):  # noqa: B004
        return False
    inner = getattr(work, "func", None)
    if inner is not None:
        return _is_plain(inner)
    return getattr(work, "__name__", "") != "<lambda>"


async def encode_result(recorder: Recorder, name: str, value: Any, work: Callable[..., Any] | None = None) -> Encoded:
    """Encodes the result of `work` according to its return annotation."""
    returns = JSON if work is None else return_type(work)
    return await encoded_result(value, returns, f'the result of step "{name}"', recorder.services.sizes.result_bytes)


def decode_result(recorder: Recorder, name: str, stored: Any, work: Callable[..., Any]) -> Any:
    """Decodes a recorded result according to the return annotation of `work`."""
    try:
        return return_type(work).decode(stored, f'the result of step "{name}"')
    except WrongType as error:
        recorder.stop(CodeChanged(name, f"What is recorded is not what the code says now: {error} {HOW_TO_GO_ON}"))


def input_digest(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """SHA-256 of the arguments. Values that are not data, such as the context, count by their type only."""
    return hashlib.sha256(fingerprint([args, kwargs])).hexdigest()
