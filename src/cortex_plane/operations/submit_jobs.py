"""Submits jobs: everything that is asked for is checked first, then all of it is stored, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, get_args
from uuid import UUID

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.instants import EARLIEST, LATEST, instant
from cortex_plane.core.jobs import DEFAULT_TENANT, INTERNAL_QUEUE, JobId, KeyMode, NewJob
from cortex_plane.core.retry import RetryPolicy, check_max_retries
from cortex_plane.operations.check_budgets import check_budgets
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.names import checked_name
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.json_text import encode
from cortex_plane.ports.store import Store

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
    timeout: float | timedelta | None = None
    created_by: str | None = None
    session: str | None = None
    """The id of the conversation that it comes from: its user is asked where an approval names nobody."""
    cancel_with_parent: bool = False
    """For a child of another job: it is cancelled when that one fails or is cancelled."""


async def submit_jobs(
    store: Store,
    directory: Directory,
    new_id: NewId,
    submissions: Sequence[Submission],
    *,
    connection: Any = None,
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
    trace: str | None = None,
) -> list[JobId]:
    jobs = [await checked(directory, new_id, submission, payload_limit_bytes) for submission in submissions]
    if trace is not None:
        jobs = [replace(job, trace_id=trace) for job in jobs]
    if not jobs:
        return []
    await check_budgets(store, directory, jobs)
    return await store.jobs.submit(jobs, connection)


async def checked(
    directory: Directory, new_id: NewId, asked: Submission, payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES
) -> NewJob:
    """What a submission comes to; raises InvalidInput, UnknownAgent or TenantNotFound."""
    agent = await directory.agent(checked_name(asked.agent, "agent"))
    retry = _retry(asked.retry) or agent.config.retry
    return NewJob(
        id=JobId(new_id()),
        tenant_id=await directory.tenant(checked_name(asked.tenant, "tenant")),
        agent_id=agent.id,
        job_type=agent.job_type,
        queue=_queue(asked.queue if asked.queue is not None else agent.config.queue),
        payload=_payload(asked.payload, payload_limit_bytes),
        priority=check_priority(asked.priority),
        max_retries=check_max_retries(retry.max_retries if asked.max_retries is None else asked.max_retries),
        retry_policy=asked.retry,
        run_at=_run_at(asked),
        delay_seconds=_delay(asked.delay),
        timeout_seconds=_timeout(asked.timeout),
        job_key=None if asked.job_key is None else checked_name(asked.job_key, "job_key"),
        key_mode=_key_mode(asked.key_mode),
        serial_key=None if asked.serial_key is None else checked_name(asked.serial_key, "serial_key"),
        tags=_tags(asked.tags),
        created_by=None if asked.created_by is None else checked_name(asked.created_by, "created_by"),
        session_id=_session(asked.session),
        cancel_with_parent=bool(asked.cancel_with_parent),
    )


def _payload(payload: Mapping[str, Any] | None, limit_bytes: int) -> str:
    if payload is not None and not isinstance(payload, Mapping):
        raise InvalidInput(
            f"payload must be a dict of the agent's arguments by name, not a {type(payload).__name__}.", field="payload"
        )
    text = encode(payload or {}, "payload")
    if (size := len(text.encode())) > limit_bytes:
        raise InvalidInput(
            f"payload is {size:,} bytes of JSON; the limit is {limit_bytes:,}. "
            "Store the data elsewhere and pass a reference, or raise CORTEX_PAYLOAD_LIMIT_BYTES.",
            field="payload",
        )
    return text


def _session(value: str | None) -> str | None:
    try:
        return None if value is None else str(UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(f"session must be the id of a session, not {value!r:.80}.", field="session") from None


def _queue(value: str) -> str:
    if value == INTERNAL_QUEUE:
        raise InvalidInput(f'Queue "{INTERNAL_QUEUE}" is the plane\'s own. Choose another name.', field="queue")
    return checked_name(value, "queue")


def _key_mode(mode: KeyMode) -> KeyMode:
    if mode not in get_args(KeyMode):
        raise InvalidInput(f"key_mode must be one of {', '.join(get_args(KeyMode))}, not {mode!r:.80}.", field="key_mode")
    return mode


def _retry(policy: RetryPolicy | None) -> RetryPolicy | None:
    if policy is not None and not isinstance(policy, RetryPolicy):
        raise InvalidInput(f'retry must be a RetryPolicy, such as RetryPolicy("chain"), not {policy!r:.80}.', field="retry")
    return policy


def check_priority(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -PRIORITY_LIMIT <= value <= PRIORITY_LIMIT:
        raise InvalidInput(
            f"priority must be a whole number from -{PRIORITY_LIMIT:,} to {PRIORITY_LIMIT:,}, not {value!r}. Higher runs first.",
            field="priority",
        )
    return value


def _run_at(asked: Submission) -> int | None:
    if asked.run_at is None:
        return None
    if asked.delay is not None:
        raise InvalidInput("Give run_at or delay, not both.", field="run_at")
    if not isinstance(asked.run_at, datetime):
        raise InvalidInput(f"run_at must be a datetime, not {asked.run_at!r:.80}.", field="run_at")
    moment = asked.run_at if asked.run_at.tzinfo else asked.run_at.replace(tzinfo=UTC)
    if not EARLIEST <= moment <= LATEST:
        raise InvalidInput(
            f"run_at is {moment.isoformat()}; it must lie between {EARLIEST:%Y} and {LATEST:%Y}. "
            "Were milliseconds taken for seconds?",
            field="run_at",
        )
    return instant(moment)


def _delay(delay: float | timedelta | None) -> float | None:
    if delay is None:
        return None
    seconds = _seconds(delay, "delay")
    if not 0 <= seconds <= LONGEST_DELAY.total_seconds():
        raise InvalidInput(f"delay must be from 0 seconds to 100 years, not {seconds:g} s.", field="delay")
    return seconds


def _timeout(timeout: float | timedelta | None) -> float | None:
    if timeout is None:
        return None
    seconds = _seconds(timeout, "timeout")
    if not 0 < seconds <= LONGEST_DELAY.total_seconds():
        raise InvalidInput(f"timeout must be more than 0 seconds, not {seconds:g}.", field="timeout")
    return seconds


def _seconds(value: float | timedelta, field: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidInput(f"{field} must be a number of seconds or a timedelta, not {value!r:.80}.", field=field)
    return float(value)


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence) or len(tags) > TAG_LIMIT:
        raise InvalidInput(f"tags must be a list of at most {TAG_LIMIT} texts.", field="tags")
    return tuple(checked_name(tag, f"tags[{index}]") for index, tag in enumerate(tags))
