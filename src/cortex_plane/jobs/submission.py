"""Validates submissions and inserts jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from cortex_plane.costs.service import check_budgets
from cortex_plane.errors import InvalidInput, UnknownAgent, did_you_mean
from cortex_plane.jobs.fields import PAYLOAD_LIMIT_BYTES, Submission, check_queue, checked_options
from cortex_plane.jobs.model import INTERNAL_PREFIX, JobId, NewJob
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
    columns = checked_options(asked)
    columns.setdefault("queue", check_queue(agent.config.queue))
    columns.setdefault("max_retries", columns.get("retry_policy", agent.config.retry).max_retries)
    if agent.config.deadline_seconds is not None and "deadline_at" not in columns:
        columns.setdefault("deadline_seconds", agent.config.deadline_seconds)
    return NewJob(
        id=JobId(new_id()),
        tenant_id=await directory.tenant(columns.pop("tenant")),
        agent_id=agent.id,
        job_type=agent.job_type,
        payload=text,
        **columns,
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
