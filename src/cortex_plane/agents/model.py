"""An agent as stored: a name, and the policies that programs without its code need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cortex_plane.approvals.rules import USUAL_CONFIG, ApprovalConfig
from cortex_plane.jobs.model import DEFAULT_QUEUE, AgentId
from cortex_plane.jobs.retry import CRASH_LIMIT, MAX_RETRY_AFTER_SECONDS, CrashPolicy, RetryPolicy

Granularity = Literal["per_step", "per_tool_call", "per_llm_response"]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Stored in `agent.skill_config`."""

    queue: str = DEFAULT_QUEUE
    retry: RetryPolicy = RetryPolicy()
    on_crash: CrashPolicy = "resume"
    crash_limit: int = CRASH_LIMIT
    timeout_seconds: float | None = None
    """How long one run may take."""
    deadline_seconds: float | None = None
    """How long after its submission one of its jobs must have ended."""
    max_retry_after_seconds: float = MAX_RETRY_AFTER_SECONDS
    """How long `RetryAfter` may make one of its jobs wait."""
    max_concurrency: int | None = None
    """The maximum number of its jobs running at a time, over all workers. A limit set by an operator overrides it."""
    checkpoint_granularity: Granularity = "per_step"
    """When calls inside a step are written: with the step, or each tool call or model's answer at once."""
    side_effect_tools: tuple[str, ...] | None = None
    """The tools that change something outside; None: all of them."""
    budget_cents: int | None = None
    """The budget of one of its jobs, in cents; once it is used up, approvers are asked."""
    approval: ApprovalConfig = USUAL_CONFIG
    """How long people have to decide."""
    parameters: dict[str, Any] | None = None
    """The JSON Schema of its arguments; None if no program with its code has registered it."""

    def to_json(self) -> dict[str, Any]:
        return {
            "queue": self.queue,
            "retry": self.retry.to_json(),
            "on_crash": self.on_crash,
            "crash_limit": self.crash_limit,
            "timeout_seconds": self.timeout_seconds,
            "deadline_seconds": self.deadline_seconds,
            "max_retry_after_seconds": self.max_retry_after_seconds,
            "max_concurrency": self.max_concurrency,
            "checkpoint_granularity": self.checkpoint_granularity,
            "side_effect_tools": None if self.side_effect_tools is None else list(self.side_effect_tools),
            "budget_cents": self.budget_cents,
            "approval": self.approval.to_json(),
            "parameters": self.parameters,
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> AgentConfig:
        """Tolerates missing and unknown fields: another version may have written them."""
        return cls(
            queue=stored.get("queue", DEFAULT_QUEUE),
            retry=RetryPolicy.from_json(stored.get("retry", {})),
            on_crash=stored.get("on_crash", "resume"),
            crash_limit=stored.get("crash_limit", CRASH_LIMIT),
            timeout_seconds=stored.get("timeout_seconds"),
            deadline_seconds=stored.get("deadline_seconds"),
            max_retry_after_seconds=stored.get("max_retry_after_seconds", MAX_RETRY_AFTER_SECONDS),
            max_concurrency=stored.get("max_concurrency"),
            checkpoint_granularity=stored.get("checkpoint_granularity", "per_step"),
            side_effect_tools=None if stored.get("side_effect_tools") is None else tuple(stored["side_effect_tools"]),
            budget_cents=stored.get("budget_cents"),
            approval=ApprovalConfig.from_json(stored.get("approval", {})),
            parameters=stored.get("parameters"),
        )


@dataclass(frozen=True, slots=True)
class AgentRecord:
    id: AgentId
    job_type: str
    config: AgentConfig
