"""Validates submissions and inserts jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_args
from uuid import UUID

from cortex_plane.clock import EARLIEST, LATEST, instant
from cortex_plane.costs.service import check_budgets
from cortex_plane.errors import InvalidInput, UnknownAgent, did_you_mean
from cortex_plane.jobs.fields import (
    LONGEST_DELAY,
    PAYLOAD_LIMIT_BYTES,
    PRIORITY_LIMIT,
    TAG_LIMIT,
    Submission,
    _seconds,
    checked_limit,
)
from cortex_plane.jobs.model import INTERNAL_PREFIX, INTERNAL_QUEUE, JobId, KeyMode, NewJob
from cortex_plane.jobs.retry import check_max_retries, check_policy
from cortex_plane.json import KEY_LIMIT, dumps, normal, refuse_larger
from cortex_plane.people.model import checked_noun_name
from cortex_plane.people.sessions import check_sessions

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.agents.model import AgentRecord
    from cortex_plane.ids import NewId
    from cortex_plane.stores import Store


async def check_arguments(
    directory: Directory,
    agent: AgentRecord,
    payload: Mapping[str, Any],
    *,
    name: str = "payload",
    later: Collection[str] | None = (),
) -> None:
    """Raises InvalidInput with the field. Arguments in `later` may be missing still; None: all of them."""
    try:
        _check(directory, agent, payload, name, later)
    except InvalidInput:
        await directory.refresh()  # The agent may have been deployed anew since it was read.
        _check(directory, await directory.agent(agent.job_type), payload, name, later)


def _check(
    directory: Directory, agent: AgentRecord, payload: Mapping[str, Any], name: str, later: Collection[str] | None
) -> None:
    schema = agent.config.parameters
    if schema is None:
        return
    properties: dict[str, Any] = schema.get("properties", {})
    if schema.get("additionalProperties") is False:
        for key in (*payload, *(later or ())):
            if key not in properties:
                field = f"{name}.{key[:KEY_LIMIT]}"
                problem = f'{field} is not an argument of agent "{agent.job_type}".{did_you_mean(key, properties)}'
                raise InvalidInput(f"{problem} It takes: {_taken(schema)}.", field=field)
    missing = [] if later is None else [key for key in schema.get("required", ()) if key not in payload and key not in later]
    if missing:
        problem = f'{name}.{missing[0]} is missing. Agent "{agent.job_type}" takes: {_taken(schema)}.'
        raise InvalidInput(problem, field=f"{name}.{missing[0]}")
    directory.schema_of(agent).check(payload, name)


def _taken(schema: Mapping[str, Any]) -> str:
    names = [key if key in schema.get("required", ()) else f"{key} (optional)" for key in schema.get("properties", {})]
    return ", ".join(names) or "nothing"


# -- submit jobs -------------------------------------------------------------------------------
# Submits jobs: everything that is asked for is checked first, then all of it is stored, or nothing.


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
    await check_sessions(store, jobs)
    await check_budgets(store, directory, jobs)
    return await store.jobs.submit(jobs, connection)


async def checked(
    directory: Directory,
    new_id: NewId,
    asked: Submission,
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
    *,
    field: str = "payload",
    later: Collection[str] | None = (),
) -> NewJob:
    """What a submission comes to; raises InvalidInput, UnknownAgent or TenantNotFound. Arguments in `later` are given when the
    job is really submitted, and may be missing here; None: any of them. `field` is what the caller calls the payload."""
    if checked_noun_name(asked.agent, "agent").startswith(INTERNAL_PREFIX):
        raise UnknownAgent(asked.agent, directory.known_agents())  # The plane's own, which nobody else may ask for anything.
    agent = await directory.agent(asked.agent)
    payload, text = _payload(asked.payload, payload_limit_bytes)
    await check_arguments(directory, agent, payload, name=field, later=later)
    retry = agent.config.retry if asked.retry is None else check_policy(asked.retry)
    return NewJob(
        id=JobId(new_id()),
        tenant_id=await directory.tenant(checked_noun_name(asked.tenant, "tenant")),
        agent_id=agent.id,
        job_type=agent.job_type,
        queue=_queue(asked.queue if asked.queue is not None else agent.config.queue),
        payload=text,
        priority=check_priority(asked.priority),
        max_retries=check_max_retries(retry.max_retries if asked.max_retries is None else asked.max_retries),
        retry_policy=asked.retry,
        run_at=_run_at(asked),
        delay_seconds=_delay(asked.delay),
        timeout_seconds=checked_limit(asked.run_timeout, "run_timeout"),
        **_deadline(asked, agent.config.deadline_seconds),
        job_key=None if asked.job_key is None else checked_noun_name(asked.job_key, "job_key"),
        key_mode=_key_mode(asked.key_mode),
        serial_key=None if asked.serial_key is None else checked_noun_name(asked.serial_key, "serial_key"),
        tags=_tags(asked.tags),
        created_by=None if asked.created_by is None else checked_noun_name(asked.created_by, "created_by"),
        session_id=_session(asked.session),
        cancel_with_parent=bool(asked.cancel_with_parent),
    )


def _payload(payload: Mapping[str, Any] | None, limit_bytes: int) -> tuple[dict[str, Any], str]:
    if payload is not None and not isinstance(payload, Mapping):
        raise InvalidInput(
            f"payload must be a dict of the agent's arguments by name, not a {type(payload).__name__}.", field="payload"
        )
    advice = " Store the data elsewhere and pass a reference, or raise CORTEX_PAYLOAD_LIMIT_BYTES."
    refuse_larger(payload, limit_bytes, "payload", advice)
    document = cast(dict[str, Any], normal(payload or {}, "payload"))
    text = dumps(document)
    if (size := len(text.encode())) > limit_bytes:
        raise InvalidInput(f"payload is {size:,} bytes of JSON; the limit is {limit_bytes:,}.{advice}", field="payload")
    return document, text


def _session(value: str | None) -> str | None:
    try:
        return None if value is None else str(UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(f"session must be the id of a session, not {value!r:.80}.", field="session") from None


def _queue(value: str) -> str:
    if value == INTERNAL_QUEUE:
        raise InvalidInput(f'Queue "{INTERNAL_QUEUE}" is the plane\'s own. Choose another name.', field="queue")
    return checked_noun_name(value, "queue")


def _key_mode(mode: KeyMode) -> KeyMode:
    if mode not in get_args(KeyMode):
        raise InvalidInput(f"key_mode must be one of {', '.join(get_args(KeyMode))}, not {mode!r:.80}.", field="key_mode")
    return mode


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
    return _moment(asked.run_at, "run_at")


def _moment(value: datetime, field: str) -> int:
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    if not EARLIEST <= moment <= LATEST:
        raise InvalidInput(
            f"{field} is {moment.isoformat()}; it must lie between {EARLIEST:%Y} and {LATEST:%Y}. "
            "Were milliseconds taken for seconds?",
            field=field,
        )
    return instant(moment)


def _delay(delay: float | timedelta | None) -> float | None:
    if delay is None:
        return None
    seconds = _seconds(delay, "delay")
    if not 0 <= seconds <= LONGEST_DELAY.total_seconds():
        raise InvalidInput(f"delay must be from 0 seconds to 100 years, not {seconds:g} s.", field="delay")
    return seconds


class _Deadline(TypedDict, total=False):
    deadline_at: int
    deadline_seconds: float


def _deadline(asked: Submission, of_agent: float | None) -> _Deadline:
    deadline = of_agent if asked.deadline is None else asked.deadline
    if deadline is None:
        return {}
    if not isinstance(deadline, datetime):
        seconds = checked_limit(deadline, "deadline")
        return {} if seconds is None else {"deadline_seconds": seconds}
    at = _moment(deadline, "deadline")
    run_at = _run_at(asked)
    if run_at is not None and at <= run_at:
        raise InvalidInput("deadline must be later than run_at, or the job could never run.", field="deadline")
    return {"deadline_at": at}


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence) or len(tags) > TAG_LIMIT:
        raise InvalidInput(f"tags must be a list of at most {TAG_LIMIT} texts.", field="tags")
    return tuple(checked_noun_name(tag, f"tags[{index}]") for index, tag in enumerate(tags))
