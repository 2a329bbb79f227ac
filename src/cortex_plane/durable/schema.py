"""The checkpoint document: values, schema, and the codec of its entries.

A snapshot of a job's progress as storage sees it: a document, what it refers to, and the fence.

    job.checkpoint    fixed fields, memory, and the recent entries of the record
         └── names the newest of its segments, by number and SHA-256
    job_blob          large results; sealed segments, each naming the one before: the older entries of the record

A document stays small however long its job is: what is settled is moved to a segment, in the same transaction.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from cortex_plane.jobs.model import AgentId, JobId, RunId
from cortex_plane.json import dumped, dumps, embedded

RESERVED = "$cortex"
"""The key of the working data that holds the engine's journal."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A large result or a sealed segment, as JSON text in normal form; the checkpoint refers to it by its SHA-256 (64
    hexadecimal digits). A segment has a number, from 1."""

    sha256: str
    content: str
    seq: int | None = None


def blob_of(text: str) -> Blob:
    return Blob(sha256(text.encode()).hexdigest(), text)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`document` is canonical JSON. It is applied only while `run_id` is the job's open run and `previous_id` is the job's
    current checkpoint. It adds the costs since that checkpoint to the job's cost."""

    job_id: JobId
    run_id: RunId
    checkpoint_id: str
    previous_id: str | None
    document: str
    blobs: tuple[Blob, ...] = ()
    cost_cents: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """The hold of a job whose record did not fit the code of a worker."""

    codes: frozenset[str]
    """Fingerprints of the code that did not fit."""
    offered: bool
    """It was made due for workers that have other code."""
    handed_back: int
    error: Any
    """Where record and code differ."""


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as stored, not verified: it may have been changed outside the engine."""

    job_id: JobId
    agent_id: AgentId
    job_type: str
    checkpoint_id: str | None
    document: str
    segments: tuple[Blob, ...] | None = ()
    """By their numbers. None: they were not read."""
    hold: Hold | None = None


# -- shape -------------------------------------------------------------------------------------
# The schema of a checkpoint as specified. Importing pydantic is slow, so only code that loads a checkpoint imports this.


Uuid = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[a-f0-9]{64}$")]
Name = Annotated[str, StringConstraints(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Moment = Annotated[AwareDatetime, Field(strict=False)]


class Strict(BaseModel):
    """Nothing is converted, nothing is added. Fields that are not known were left out before: see `without_unknown_fields`."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ToolCall(Strict):
    tool_name: Name
    invocation_id: Uuid
    status: Literal["pending", "running", "completed", "failed"]
    input_hash: Sha256
    result: Any = None


class TokenUsage(Strict):
    prompt_tokens: Count
    completion_tokens: Count


class MemoryContext(Strict):
    system_prompt_hash: Sha256
    token_usage: TokenUsage
    conversation_summary: str | None = None
    accumulated_facts: list[str] = []
    working_data: dict[str, Any] = {}


class LoggedStep(Strict):
    step_index: Count
    step_id: Name
    started_at: Moment
    finished_at: Moment
    result_summary: str
    tool_calls: Count


class CheckpointBlob(Strict):
    """A whole checkpoint."""

    checkpoint_id: Uuid
    schema_version: Annotated[int, Field(ge=1)]
    agent_id: Uuid
    created_at: Moment
    step_index: Count
    step_id: Name
    status: Literal["in_progress", "awaiting_approval", "completed", "failed"]
    active_tools: list[ToolCall]
    memory_context: MemoryContext
    execution_log: list[LoggedStep]
    crc32: int


class JournalEntry(Strict):
    """One durable call, stored under its identity. Default values of a step are omitted."""

    order: Count
    kind: Literal["step", "tool", "llm", "sleep", "now", "call", "approval", "patched", "cleanup"] = "step"
    after: Count | None = None
    input: str | None = None
    result: Any = None
    blob: str | None = None
    error: dict[str, Any] | None = None
    invocation: Uuid | None = None
    asked: Count | None = None
    doubt: str | None = None
    until: int | None = None
    child: Uuid | None = None
    failed: Uuid | None = None
    request: Uuid | None = None
    supersedes: list[Uuid] | None = None
    memory: dict[str, Any] | None = None
    spent: list[int] | None = None
    settled: bool | None = None
    """An operator has given the result."""
    tools: Count | None = None
    """Of a finished step: how many tools were called inside of it."""
    aside: bool | None = None
    """The call was made while the handler dealt with an exception: a run in which that is not raised does not ask for it."""
    again: bool | None = None
    """A failure in a segment that was taken back: the call is made again."""


class SealedSegments(Strict):
    """Which segments hold the older entries; see `segments`."""

    first: Annotated[int, Field(ge=1)]
    last: Annotated[int, Field(ge=1)]
    steps: Count
    logged: Count
    sha256: Sha256 | None


class EngineData(Strict):
    """The engine's journal in `memory_context.working_data["$cortex"]`."""

    encoding: Literal["json"] = "json"
    sealed: SealedSegments | None = None
    state_version: Annotated[int, Field(ge=1)]
    seed: str
    spent_cents: int
    granted_cents: list[int] = []
    repeats: bool = False
    steps: dict[str, JournalEntry]


def without_unknown_fields(blob: Any) -> Any:
    """A checkpoint without unknown fields. Values of a wrong type are left for `problem_with`."""
    known = _known(blob, CheckpointBlob)
    if not isinstance(known, dict):
        return known
    for name, model in (("active_tools", ToolCall), ("execution_log", LoggedStep)):
        if isinstance(listed := known.get(name), list):
            known[name] = [_known(one, model) for one in listed]
    if isinstance(context := _known(known.get("memory_context"), MemoryContext), dict):
        known["memory_context"] = context
        if "token_usage" in context:
            context["token_usage"] = _known(context["token_usage"], TokenUsage)
        if isinstance(data := context.get("working_data"), dict) and isinstance(engine := data.get(RESERVED), dict):
            context["working_data"] = {**data, RESERVED: _known_engine(engine)}
    return known


def _known_engine(engine: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = _known(engine, EngineData)
    if "sealed" in known:
        known["sealed"] = _known(known["sealed"], SealedSegments)
    if isinstance(steps := known.get("steps"), dict):
        known["steps"] = {key: _known(entry, JournalEntry) for key, entry in steps.items()}
    return known


def _known(value: Any, model: type[Strict]) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: field for name, field in value.items() if name in model.model_fields}


def problem_with(blob: Any) -> str | None:
    """Describes the first schema violation of a checkpoint; None if it is valid."""
    try:
        CheckpointBlob.model_validate(blob)
        engine = blob["memory_context"].get("working_data", {}).get("$cortex")
        if engine is not None:
            EngineData.model_validate(engine)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return None


# -- snapshot ----------------------------------------------------------------------------------
# The stored form: one canonical JSON document with the CRC-32 of all other fields.


SCHEMA_VERSION = 1
BEFORE_CRC = ("active_tools", "agent_id", "checkpoint_id")


def with_crc(blob: Mapping[str, Any]) -> str:
    """The document of a checkpoint. All values are in normal form, or embedded text of it.
    Keys are sorted, so the CRC's place is between two halves."""
    tail = {**blob}
    head = {name: tail.pop(name) for name in BEFORE_CRC}
    front, back = dumped(head)[:-1] + b",", dumped(tail)[1:]
    crc = zlib.crc32(back, zlib.crc32(front))
    return (front + b'"crc32":%d,' % crc + back).decode()


def resealed(blob: Mapping[str, Any]) -> str:
    """A changed checkpoint with its CRC put right: for migrations and forks, never for resuming."""
    rest = {name: value for name, value in blob.items() if name != "crc32"}
    return dumps({**rest, "crc32": crc_of(rest)})


def crc_of(rest: Mapping[str, Any]) -> int:
    """The CRC of a checkpoint without its `crc32`, independent of how the database formats the JSON."""
    return zlib.crc32(dumped(rest))


# -- entries -----------------------------------------------------------------------------------
# The codec of journal entries and tool calls. Default values are omitted, because most entries are written many times.


Entry = dict[str, Any]

STEP = "step"
STEPS = frozenset((STEP, "llm"))
"""Kinds of calls that are recorded once they have ended, with all that was recorded inside of them."""
NOTHING = "null"
WITHOUT_ARGUMENTS = hashlib.sha256(b"[[],{}]").hexdigest()[:16]
"""The digest of the input of a call that was given nothing."""


@dataclass(slots=True)
class ToolState:
    """A tool call as `active_tools` shows it. `result` is JSON text; a large one is kept apart, and its entry refers to it."""

    tool_name: str
    invocation_id: str
    input_hash: str
    status: str = "pending"
    result: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "tool_name": self.tool_name,
            "invocation_id": self.invocation_id,
            "status": "running" if self.status == "pending" else self.status,  # Once that is written, the call may be made.
            "input_hash": self.input_hash,
            "result": None if self.result is None else embedded(self.result),
        }


def packed(entry: Entry, result: str | None) -> Entry:
    """Encodes an entry; `result` is the JSON text of its result, if any."""
    if entry["kind"] != STEP:
        return entry
    usual = _usual(entry["order"])
    given = {name: value for name, value in entry.items() if name not in usual or value != usual[name]}
    if result == NOTHING:
        given.pop("result", None)
    return given


def whole(entry: Mapping[str, Any]) -> Entry:
    """As it was before it was packed."""
    return {**entry} if "kind" in entry else {**_usual(entry["order"]), **entry}


def _usual(order: int) -> Entry:
    """The defaults of a step entry: no input, no result, one logged step for each entry."""
    return {"kind": STEP, "input": WITHOUT_ARGUMENTS, "after": order - 1, "result": None}
