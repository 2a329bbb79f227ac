"""`ctx.sleep`, `ctx.call`, `ctx.gather`, and the deterministic clock and random numbers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any
from uuid import UUID

from cortex_plane.clock import EARLIEST, LATEST, SECOND, Instant, after, as_datetime, instant
from cortex_plane.durable.calls import HOW_TO_GO_ON, answer, input_digest, noted_failure
from cortex_plane.durable.suspension import AwaitChild, SleepUntil
from cortex_plane.errors import CodeChanged, InvalidInput, JobFailed, StepFailed
from cortex_plane.jobs.fields import Submission
from cortex_plane.jobs.model import Claimed, Job, JobId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json import dumps, loads
from cortex_plane.worker.failures import BESIDES

if TYPE_CHECKING:
    from cortex_plane.durable.checkpoint import Recorder
    from cortex_plane.durable.scopes import StepScope


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
    await _sleep_until(recorder, lambda now: after(now, length))


async def sleep_until(recorder: Recorder, moment: datetime) -> None:
    if not isinstance(moment, datetime) or not EARLIEST <= as_datetime(instant(moment)) <= LATEST:
        raise InvalidInput(f"ctx.sleep_until takes a datetime, not {moment!r:.80}.", field="moment")
    await _sleep_until(recorder, lambda _: instant(moment))


async def _sleep_until(recorder: Recorder, until: Callable[[Instant], Instant]) -> None:
    """The end is fixed when the sleep begins, by the store's clock, and durable before the handler is left."""
    recorder.check()
    key = outside_gather(recorder, "ctx.sleep").key("$sleep")
    entry = recorder.journal.take(key)
    if entry is not None and entry["order"] < recorder.journal.order and entry["until"] <= recorder.now():
        return  # A later call is recorded, so the sleep is over. Only the last sleep needs the store's clock.
    now = await recorder.services.store_now()
    if entry is None:
        entry = {"kind": "sleep", "until": until(now)}
        if entry["until"] <= now:
            return
        recorder.cleaning.before_new_work()
        recorder.journal.put(key, dict(entry))
        await recorder.save("sleep")
    if entry["until"] > now:
        recorder.suspend(SleepUntil(Instant(entry["until"]), (entry["until"] - now) / SECOND))


async def gather(recorder: Recorder, branches: tuple[Awaitable[Any], ...], return_exceptions: bool) -> list[Any]:
    """Each branch has its own identities. If one fails, the others finish, so that their results are recorded; then the
    failure of the first branch is raised, with those of the others as notes."""
    recorder.check()
    scopes = recorder.scopes.here().branches(len(branches))
    tasks = [asyncio.ensure_future(_branch(recorder, scope, work)) for scope, work in zip(scopes, branches, strict=True)]
    try:
        await _all_ended(tasks)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [error for error in ended if isinstance(error, BaseException)]
    stops = [error for error in failures if _is_stop(error)]
    if stops:
        raise stops[0]
    if failures and not return_exceptions:
        raise _first_of(failures)
    return list(ended)


async def _all_ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Waits for all, or for one that ends the run: the others' results would not be recorded."""
    left = set(tasks)
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_EXCEPTION)
        if any(not task.cancelled() and _is_stop(task.exception()) for task in done):
            return


def _is_stop(error: BaseException | None) -> bool:
    return error is not None and not isinstance(error, Exception | asyncio.CancelledError)


def _first_of(failures: list[BaseException]) -> BaseException:
    first = next((error for error in failures if not isinstance(error, asyncio.CancelledError)), failures[0])
    others = tuple(error for error in failures if error is not first)
    with suppress(Exception):  # Not every exception takes notes or attributes.
        setattr(first, BESIDES, others)
        for other in others:
            first.add_note(f"Another branch of ctx.gather failed too: {type(other).__name__}: {other}")
    return first


async def _branch(recorder: Recorder, scope: StepScope, work: Awaitable[Any]) -> Any:
    try:
        with recorder.scopes.entered(scope):
            return await work
    finally:
        if recorder.journal.unasked:
            recorder.journal.new_in.add(scope.path)


def outside_gather(recorder: Recorder, what: str) -> StepScope:
    scope = recorder.scopes.here()
    if scope.in_gather:
        raise InvalidInput(
            f"{what} cannot be used inside ctx.gather: the job waits as a whole. Use it before or after.", field="ctx"
        )
    return scope


def child_of(agent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Submission:
    """The submission for a call: of an agent in code, of one by name, or as given."""
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
    """Calls a child job. Its id is saved before it is submitted, so that it is submitted once."""
    recorder.check()
    name = submission.agent
    key = outside_gather(recorder, "ctx.call").key(name)
    digest = input_digest((name, submission.payload), {})[:16]
    entry = recorder.journal.take(key)
    if entry is not None and ("result" in entry or entry.get("blob") or entry.get("error")):
        return answer(recorder, key, name, "call", entry, digest)
    started_at = recorder.now()
    if entry is None:
        recorder.cleaning.before_new_work()
        entry = {"kind": "call", "input": digest, "child": recorder.services.new_id()}
        recorder.journal.put(key, dict(entry))
        await recorder.save(name)
    elif entry["kind"] != "call" or entry.get("input") != digest:
        recorder.stop(CodeChanged(name, f'Child "{name}" was called with other arguments before. {HOW_TO_GO_ON}'))
    child_id = JobId(entry["child"])
    found = await recorder.services.child(child_id)
    if found is None:
        await recorder.services.submit(recorder.claimed, submission, child_id, recorder.invocation_id(key))
        recorder.suspend(AwaitChild(child_id))
    if _is_called_again(recorder.claimed, entry, found):
        recorder.suspend(AwaitChild(await recorder.services.resume_child(recorder.claimed, found.id)))
    return await _outcome(recorder, name, key, entry, found, started_at)


def _is_called_again(claimed: Claimed, entry: Mapping[str, Any], child: Job) -> bool:
    """Whether to resume a child that failed or was cancelled. True if an earlier run of this job, or the job that this one
    continues, received the failure and did not survive it. A child that was cancelled under this job stays cancelled."""
    match child.status:
        case JobStatus.FAILED:
            return child.parent_id != claimed.job_id or entry.get("failed") == child.id
        case JobStatus.CANCELLED:
            return child.parent_id != claimed.job_id
        case _:
            return False


async def _outcome(recorder: Recorder, name: str, key: str, entry: Mapping[str, Any], child: Job, started_at: int) -> Any:
    if not child.status.is_terminal:
        if child.parent_id != recorder.claimed.job_id:
            await recorder.services.adopt(child.id, recorder.claimed.job_id)
        recorder.suspend(AwaitChild(child.id))
    if child.status is JobStatus.COMPLETED:
        text = dumps(child.output)
        recorder.journal.put(key, dict(entry), text)
        recorder.journal.log_step(name, started_at, recorder.now(), text, 0)
        await recorder.save(name)
        return loads(text)
    entry = {**entry, "failed": child.id}  # Durable before the handler hears of it: its retry resumes this child.
    recorder.journal.put(key, dict(entry))
    await recorder.save(name)
    message = (child.error or {}).get("message", "failed") if child.status is JobStatus.FAILED else "was cancelled"
    error = JobFailed(child.id, f"Child job {child.id}: {message}", child.error)
    failure: StepFailed = noted_failure(recorder, name, key, entry, error, started_at)
    raise failure from error
