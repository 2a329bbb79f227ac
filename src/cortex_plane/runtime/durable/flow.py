"""Time, chance, pauses, branches and children of a durable handler: the same in every run of its job."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Mapping
from datetime import datetime, timedelta
from math import isfinite
from typing import Any
from uuid import UUID

from cortex_plane.core.errors import CodeChanged, InvalidInput, JobFailed, StepFailed
from cortex_plane.core.instants import EARLIEST, LATEST, Instant, after, as_datetime, instant
from cortex_plane.core.jobs import JobId
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.submit_jobs import Submission
from cortex_plane.ports.json_text import dumps, loads
from cortex_plane.runtime.durable.calls import HOW_TO_GO_ON, answer, input_digest, noted_failure
from cortex_plane.runtime.durable.recorder import Recorder
from cortex_plane.runtime.durable.scopes import Scope
from cortex_plane.runtime.durable.suspending import AwaitChild, SleepUntil


def now(recorder: Recorder) -> datetime:
    """Durable with the next write: until then nothing durable depends on it."""
    recorder.check()
    key = recorder.scopes.here().key("$now")
    entry = recorder.journal.take(key)
    if entry is None:
        entry = {"kind": "now", "result": recorder.now()}
        recorder.journal.put(key, dict(entry))
    return as_datetime(entry["result"])


def chance(recorder: Recorder, purpose: str) -> bytes:
    """Sixteen bytes that differ for each call and are the same in each run: a hash of the job's secret seed."""
    recorder.check()
    key = recorder.scopes.here().key(f"${purpose}")
    return hashlib.sha256(f"{recorder.journal.seed}:{key}".encode()).digest()[:16]


def random_number(recorder: Recorder) -> float:
    return (int.from_bytes(chance(recorder, "random")[:8], "big") >> 11) / (1 << 53)


def random_uuid(recorder: Recorder) -> UUID:
    return UUID(bytes=chance(recorder, "uuid"), version=4)


async def sleep(recorder: Recorder, seconds: float | timedelta) -> None:
    length = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    if isinstance(length, bool) or not isinstance(length, int | float) or not isfinite(length) or length < 0:
        raise InvalidInput(f"ctx.sleep takes a number of seconds or a timedelta, not {seconds!r:.80}.", field="seconds")
    await _sleep_until(recorder, lambda: after(Instant(recorder.now()), length))


async def sleep_until(recorder: Recorder, moment: datetime) -> None:
    if not isinstance(moment, datetime) or not EARLIEST <= as_datetime(instant(moment)) <= LATEST:
        raise InvalidInput(f"ctx.sleep_until takes a datetime, not {moment!r:.80}.", field="moment")
    await _sleep_until(recorder, lambda: instant(moment))


async def _sleep_until(recorder: Recorder, until: Any) -> None:
    """The end is fixed when the sleep begins, and durable before the handler is left."""
    recorder.check()
    key = outside_gather(recorder, "ctx.sleep").key("$sleep")
    entry = recorder.journal.take(key)
    if entry is None:
        entry = {"kind": "sleep", "until": until()}
        if entry["until"] <= recorder.now():
            return
        recorder.journal.put(key, dict(entry))
        await recorder.save("sleep")
    if entry["until"] > recorder.now():
        recorder.suspend(SleepUntil(Instant(entry["until"])))


async def gather(recorder: Recorder, branches: tuple[Awaitable[Any], ...], return_exceptions: bool) -> list[Any]:
    """Each branch has steps of its own. The first failure ends the others, and is raised when they have ended."""
    recorder.check()
    scopes = recorder.scopes.here().branches(len(branches))
    tasks = [asyncio.ensure_future(_branch(recorder, scope, work)) for scope, work in zip(scopes, branches, strict=True)]
    try:
        if not return_exceptions:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        else:
            await asyncio.wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [error for error in ended if isinstance(error, BaseException)]
    stops = [error for error in failures if not isinstance(error, Exception | asyncio.CancelledError)]
    if stops:
        raise stops[0]
    if failures and not return_exceptions:
        raise next((error for error in failures if not isinstance(error, asyncio.CancelledError)), failures[0])
    return list(ended)


async def _branch(recorder: Recorder, scope: Scope, work: Awaitable[Any]) -> Any:
    with recorder.scopes.entered(scope):
        return await work


def outside_gather(recorder: Recorder, what: str) -> Scope:
    scope = recorder.scopes.here()
    if scope.in_gather:
        raise InvalidInput(
            f"{what} cannot be used inside ctx.gather: the job waits as a whole. Use it before or after.", field="ctx"
        )
    return scope


def child_of(agent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Submission:
    """The job that a call asks for: of an agent in code, of one by its name, or as it is given."""
    if isinstance(agent, Submission):
        if args or kwargs:
            raise InvalidInput("A Submission holds its arguments already; give ctx.call no others.", field="ctx.call")
        return agent
    if isinstance(agent, str):
        if args:
            raise InvalidInput("Arguments of an agent that is called by its name are given by name too.", field="ctx.call")
        return Submission(agent, dict(kwargs))
    if not hasattr(agent, "submission"):
        raise InvalidInput(f"ctx.call takes an agent, its name or a Submission, not {agent!r:.80}.", field="ctx.call")
    submission: Submission = agent.submission(*args, **kwargs)
    return submission


async def call(recorder: Recorder, submission: Submission) -> Any:
    """A child job: its id is durable before it is submitted, so that it is submitted once."""
    recorder.check()
    name = submission.agent
    key = outside_gather(recorder, "ctx.call").key(name)
    digest = input_digest((name, submission.payload), {})[:16]
    entry = recorder.journal.take(key)
    if entry is not None and ("result" in entry or entry.get("blob") or entry.get("error")):
        return answer(recorder, name, "call", entry, digest)
    started_at = recorder.now()
    if entry is None:
        entry = {"kind": "call", "input": digest, "child": recorder.services.new_id()}
        recorder.journal.put(key, dict(entry))
        await recorder.save(name)
    elif entry["kind"] != "call" or entry.get("input") != digest:
        recorder.stop(CodeChanged(name, f'Child "{name}" was called with other arguments before. {HOW_TO_GO_ON}'))
    child_id = JobId(entry["child"])
    found = await recorder.services.child(child_id)
    if found is None:
        await recorder.services.submit(recorder.claimed, submission, child_id)
        recorder.suspend(AwaitChild(child_id))
    return await _outcome(recorder, name, key, entry, found, started_at)


async def _outcome(recorder: Recorder, name: str, key: str, entry: Mapping[str, Any], found: Any, started_at: int) -> Any:
    last_id, status, output, error = found
    if not status.is_terminal:
        recorder.suspend(AwaitChild(last_id))
    if status is JobStatus.COMPLETED:
        text = dumps(output)
        recorder.journal.put(key, dict(entry), text)
        recorder.journal.log_step(name, started_at, recorder.now(), text, 0)
        await recorder.save(name)
        return loads(text)
    message = (error or {}).get("message", "failed") if status is JobStatus.FAILED else "was cancelled"
    failure: StepFailed = noted_failure(
        recorder, name, key, dict(entry), JobFailed(last_id, f"Child job {last_id}: {message}", error), started_at
    )
    raise failure
