"""Resumes a job from its checkpoint, settles uncertain calls, and holds jobs whose code does not fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from cortex_plane.audit.model import AuditEntry
from cortex_plane.durable.checkpoint import Recorder, RunServices
from cortex_plane.durable.journal import Journal
from cortex_plane.durable.load import Blob, Record, blob_digests, check_blobs, checked_record, journal_from
from cortex_plane.durable.schema import RESERVED, StoredCheckpoint, resealed
from cortex_plane.errors import CheckpointCorrupted, InvalidInput, KnownMisfit, NothingToResume, PromptChanged
from cortex_plane.jobs.changes import add_linked
from cortex_plane.jobs.model import BornWith, Claimed, JobId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json import encode, normal
from cortex_plane.worker.threads import in_a_thread

if TYPE_CHECKING:
    from cortex_plane.agents.code import AgentCode
    from cortex_plane.durable.store import CheckpointStore
    from cortex_plane.ids import NewId
    from cortex_plane.stores import Store

log = structlog.get_logger()

Result = TypeVar("Result")

LONG_BYTES = 256 * 1024
"""A longer record is read and checked in a thread: 100,000 steps take a second."""

MOST_HANDED_BACK = 10
"""How often in a row a job is handed back for workers with other code; if none has taken it by then, there is none."""


async def resume(
    checkpoints: CheckpointStore, claimed: Claimed, agent: AgentCode, agent_id: str, services: RunServices, code: str = ""
) -> Recorder:
    """Restores the recorder of a job from its checkpoint. Raises CheckpointCorrupted, CodeChanged or KnownMisfit if the job
    cannot be resumed; nothing is changed then.

    `code` is the fingerprint of this worker's code. A job that did not fit it is handed back while another worker may have
    code that fits. If none has taken it in time, it is tried again, because functions in other modules may have changed."""
    stored = await checkpoints.load(claimed.job_id)
    if stored is None:
        raise CheckpointCorrupted("missing", "the job had a checkpoint when it was claimed, and has none now.")
    hold = stored.hold
    did_not_fit = hold is not None and code in hold.codes
    if hold is not None and did_not_fit and hold.offered and hold.handed_back < MOST_HANDED_BACK:
        raise KnownMisfit(hold.handed_back, hold.error or {})
    is_long = _length(stored) > LONG_BYTES
    record = await _done(is_long, lambda: checked_record(stored))
    if _begins_anew(record.blob, agent, claimed):
        sealed = record.sealed.anew()
        journal = Journal(seed=services.new_id(), state_version=agent.state_version, sealed=sealed, repeats=True)
    else:
        digests = blob_digests(record.blob)
        found = await checkpoints.blobs(claimed.job_id, digests) if digests else {}
        is_long = is_long or sum(map(len, found.values())) > LONG_BYTES
        await _done(is_long, lambda: check_blobs(digests, found))
        try:
            journal = await _done(is_long, lambda: journal_from(record, found, agent.state_migrations, agent.renamed_steps))
        except CheckpointCorrupted as error:
            error.known = did_not_fit
            raise
    recorder = Recorder(claimed, agent_id, agent.config, agent.prompt_hash, services, journal, stored.checkpoint_id)
    recorder.did_not_fit = did_not_fit
    return recorder


def _length(stored: StoredCheckpoint) -> int:
    return len(stored.document) + sum(len(segment.content) for segment in stored.segments or ())


async def _done(in_thread: bool, work: Callable[[], Result]) -> Result:
    return await in_a_thread(work) if in_thread else work()


def _begins_anew(blob: Blob, agent: AgentCode, claimed: Claimed) -> bool:
    """Applies the agent's `on_prompt_change` when its system prompt differs from that of the checkpoint."""
    if blob["memory_context"]["system_prompt_hash"] == agent.prompt_hash:
        return False
    log.warning("system_prompt_changed", job_id=claimed.job_id, agent=claimed.job_type, policy=agent.on_prompt_change)
    match agent.on_prompt_change:
        case "continue":
            return False
        case "restart":
            return True
        case "fail":
            raise PromptChanged(
                "start",
                f'The system prompt of agent "{claimed.job_type}" has changed since this job began; its policy is to fail then. '
                'To start over: cortex jobs retry ID. To continue instead: on_prompt_change="continue".',
            )


# -- settling ----------------------------------------------------------------------------------
# Uncertain tool calls: listing those of a checkpoint, and settling one.


LONGEST_RESULT = 65_536
BEGUN = ("pending", "running")


@dataclass(frozen=True, slots=True)
class UncertainCall:
    """A tool call that was started and whose outcome is unknown."""

    call: str
    """Its identity: the name, with `#2` for the second occurrence; inside a step or branch, with the path."""
    tool: str
    invocation_id: str
    doubt: str | None
    """The exception it raised; None: its worker died or stopped."""
    caught: bool
    """The handler has caught ToolUncertain and gone on, so it cannot be settled any more."""


def uncertain_calls(blob: Blob, status: JobStatus) -> list[UncertainCall]:
    """In the order in which they were begun. While a job runs, a call that is under way is not uncertain."""
    tools = {tool["invocation_id"]: tool for tool in blob["active_tools"] if tool["status"] in BEGUN}
    entries = sorted(_steps(blob).items(), key=lambda item: int(item[1]["order"]))
    return [
        UncertainCall(
            call=_shown(key),
            tool=tools[entry["invocation"]]["tool_name"],
            invocation_id=entry["invocation"],
            doubt=entry.get("doubt"),
            caught=entry.get("error") is not None,
        )
        for key, entry in entries
        if entry.get("invocation") in tools and (status is not JobStatus.RUNNING or entry.get("error") is not None)
    ]


def settled(record: Record, call: str, checkpoint_id: str, *, applied: bool, result: Any = None) -> tuple[str, str]:
    """The document in which the call has the given result, or has failed without effect; and the id of the call."""
    if not applied and result is not None:
        raise InvalidInput("A call that was not applied has no result.", field="result")
    text = encode(result, "result")
    if len(text) > LONGEST_RESULT:
        raise InvalidInput(f"The result has {len(text):,} characters; the limit is {LONGEST_RESULT:,}.", field="result")
    found = _found(record.blob, call)
    document = record.document  # A call that is not settled is in no segment.
    tools = [
        {**tool, "status": "completed" if applied else "failed", "result": normal(result, "result")}
        if tool["invocation_id"] == found.invocation_id
        else tool
        for tool in document["active_tools"]
    ]
    steps = {
        key: {**entry, "settled": applied} if entry.get("invocation") == found.invocation_id else entry
        for key, entry in _steps(document).items()
    }
    data = document["memory_context"]["working_data"]
    context = {**document["memory_context"], "working_data": {**data, RESERVED: {**data[RESERVED], "steps": steps}}}
    changed = {"checkpoint_id": checkpoint_id, "active_tools": tools, "memory_context": context}
    return resealed({**document, **changed}), found.invocation_id


def _found(blob: Blob, call: str) -> UncertainCall:
    """By its identity, or by the name of its tool if only one call of it, inside a step or branch, can be settled."""
    uncertain = uncertain_calls(blob, JobStatus.FAILED)
    wanted = [one for one in uncertain if one.call in (call, call.removesuffix("#1"))]
    if not wanted:
        named = [one for one in uncertain if one.tool == call and not one.caught]
        wanted = named if len(named) == 1 else []
    if not wanted:
        known = ", ".join(one.call for one in uncertain if not one.caught) or "none"
        raise InvalidInput(f'There is no uncertain call "{call:.200}" in this job. Uncertain: {known}.', field="call")
    if wanted[0].caught:
        raise InvalidInput(
            f'The handler has caught that "{call:.200}" is uncertain and gone on, so it cannot be settled any more.', field="call"
        )
    return wanted[0]


def _steps(blob: Blob) -> dict[str, Any]:
    steps: dict[str, Any] = blob["memory_context"].get("working_data", {}).get(RESERVED, {}).get("steps", {})
    return steps


def _shown(key: str) -> str:
    return key.removesuffix("#1")


# -- settle call -------------------------------------------------------------------------------
# An operator settles an uncertain tool call; the job resumes as a linked job.


SettledCheckpoint = Callable[[JobId], Awaitable[BornWith]]
"""The checkpoint of a job in which the call is settled; raises InvalidInput when there is no such uncertain call."""


async def settle_call(
    store: Store,
    new_id: NewId,
    job_id: JobId,
    call: str,
    checkpoint_of: SettledCheckpoint,
    *,
    applied: bool,
    result: Any = None,
    actor: str | None = None,
    revision: int | None = None,
) -> JobId:
    """The id of the linked job. Raises StillRunning, naming the live job, for a job that has not ended."""
    settled: list[BornWith] = []

    async def check(last_id: JobId, status: JobStatus) -> None:
        if status is JobStatus.COMPLETED:
            raise NothingToResume(last_id)
        settled.append(await checkpoint_of(last_id))

    async def make(last_id: JobId, successor: JobId) -> bool:
        made = await store.jobs.settle(last_id, successor, settled[-1], actor)
        if made:
            details = {"call": call, "applied": applied, "result": result, "settled_as": successor}
            job = await store.jobs.get(last_id)
            tenant_id = None if job is None else job.tenant_id
            await store.audit.record(
                [AuditEntry("TOOL_CALL_SETTLED", "job", last_id, actor, tenant_id=tenant_id, details=details)]
            )
        return made

    return await add_linked(store, new_id, job_id, make, check=check, revision=revision)


# -- resume job --------------------------------------------------------------------------------
# Resumes a job that failed or was cancelled: a linked job at the end of its chain continues from its checkpoint.
#
# Recorded calls are answered; the failed call is repeated. A job without a record starts from the beginning.


CheckCheckpoint = Callable[[JobId], Awaitable[None]]
"""Raises CheckpointCorrupted if no worker could resume this job from its record."""


async def resume_job(
    store: Store,
    new_id: NewId,
    job_id: JobId,
    check_checkpoint: CheckCheckpoint,
    *,
    actor: str | None = None,
    revision: int | None = None,
) -> JobId:
    """The id of the linked job. With a revision, only while the job is at it and has no successor."""

    async def check(last_id: JobId, status: JobStatus) -> None:
        if status is JobStatus.COMPLETED:
            raise NothingToResume(last_id)
        await check_checkpoint(last_id)

    async def make(last_id: JobId, successor: JobId) -> bool:
        return await store.jobs.resume(last_id, successor, actor)

    return await add_linked(store, new_id, job_id, make, check=check, revision=revision)


async def resume_child(store: Store, new_id: NewId, parent: Claimed, child_id: JobId) -> JobId:
    """For a parent that calls a failed or cancelled child again: returns the last job of the child's chain if it is live."""
    await store.jobs.resume(child_id, JobId(new_id()), f"job:{parent.job_id}", parent.job_id)
    end = await store.jobs.chain_end(child_id)
    return child_id if end is None else end[0]
