"""The shape of a checkpoint, as the specification has it. Importing this is slow, so only those who load one do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

Uuid = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[a-f0-9]{64}$")]
Name = Annotated[str, StringConstraints(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Moment = Annotated[AwareDatetime, Field(strict=False)]


class Strict(BaseModel):
    """Nothing is converted, nothing is added, nothing is ignored."""

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
    """One durable call, under its identity. A step leaves out what is usual."""

    order: Count
    kind: Literal["step", "tool", "llm", "sleep", "now", "call", "approval"] = "step"
    after: Count | None = None
    input: str | None = None
    result: Any = None
    blob: str | None = None
    error: dict[str, Any] | None = None
    invocation: Uuid | None = None
    until: int | None = None
    child: Uuid | None = None
    request: Uuid | None = None
    memory: dict[str, Any] | None = None
    spent: list[int] | None = None


class EngineData(Strict):
    """What `memory_context.working_data["$cortex"]` holds: the engine's own journal."""

    state_version: Annotated[int, Field(ge=1)]
    seed: str
    spent_cents: int
    granted_cents: list[int] = []
    steps: dict[str, JournalEntry]


def problem_with(blob: Any) -> str | None:
    """What is wrong with the shape of a checkpoint, in a few words; None when nothing is."""
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
