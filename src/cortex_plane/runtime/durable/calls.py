"""What all durable calls share: how one is answered from the record, made, timed, encoded, and remembered when it fails."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from cortex_plane.core.errors import CodeChanged, StepFailed, StepTimedOut
from cortex_plane.ports.json_text import encode, fingerprint
from cortex_plane.runtime.durable.entries import Entry
from cortex_plane.runtime.durable.recorder import Recorder
from cortex_plane.runtime.failures import described

Anything = TypeVar("Anything")


def answer(recorder: Recorder, name: str, kind: str, entry: Entry, digest: str) -> Any:
    """What is recorded, if it is the record of this call."""
    if entry["kind"] != kind:
        recorder.stop(
            CodeChanged(name, f'"{name}" is recorded as a {entry["kind"]}, and the code asks for a {kind}. {HOW_TO_GO_ON}')
        )
    if entry.get("input") != digest:
        recorder.stop(
            CodeChanged(
                name,
                f'Step "{name}" was recorded with other arguments than the code gives it now. The handler must ask for the same '
                f"each time it is called: take what changes from ctx.now(), ctx.random(), ctx.uuid() or a step. {HOW_TO_GO_ON}",
            )
        )
    if entry.get("error") is not None:
        raise StepFailed(name, entry["error"])
    return recorder.journal.result_of(entry)


HOW_TO_GO_ON = (
    "Either run the job with the code that it began with, or start it anew from a step that still fits: "
    "cortex jobs fork ID --from-step NAME"
)


def noted_failure(recorder: Recorder, name: str, key: str, entry: Entry, error: Exception, started_at: int) -> StepFailed:
    """A failure is remembered with the next durable write only: if the handler gives up, its retry tries the step again."""
    failure = StepFailed(name, {name: text for name, text in described(error).items() if name != "traceback"})
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


async def called(work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Async functions here, plain ones in a thread: a step must not block the worker."""
    if _is_plain(work):
        value = await asyncio.to_thread(work, *args, **kwargs)
    else:
        value = work(*args, **kwargs)
    return await value if inspect.isawaitable(value) else value


@lru_cache(maxsize=4096)
def _is_plain(work: Callable[..., Any]) -> bool:
    """A lambda is called here: it may return something to await, and has no room for work that takes long."""
    if inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(getattr(work, "__call__", None)):  # noqa: B004
        return False
    inner = getattr(work, "func", None)
    if inner is not None:
        return _is_plain(inner)
    return getattr(work, "__name__", "") != "<lambda>"


def encode_result(value: Any, name: str) -> str:
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    return encode(value, f'the result of step "{name}"')


def input_digest(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """SHA-256 of the arguments. What is not data, such as the context itself, counts by its type only."""
    return hashlib.sha256(fingerprint([args, kwargs])).hexdigest()
