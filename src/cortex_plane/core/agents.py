"""An agent as the database knows it: a name, and the policies that others need when its own code is not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cortex_plane.core.approval_config import USUAL_CONFIG, ApprovalConfig
from cortex_plane.core.jobs import DEFAULT_QUEUE, AgentId
from cortex_plane.core.retry import CRASH_LIMIT, CrashPolicy, RetryPolicy

Granularity = Literal["per_step", "per_tool_call", "per_llm_response"]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What is stored in `agent.skill_config`."""

    queue: str = DEFAULT_QUEUE
    retry: RetryPolicy = RetryPolicy()
    on_crash: CrashPolicy = "resume"
    crash_limit: int = CRASH_LIMIT
    timeout_seconds: float | None = None
    max_concurrency: int | None = None
    """At most so many of its jobs run at a time, over all workers, unless an operator has said otherwise."""
    checkpoint_granularity: Granularity = "per_step"
    """When calls inside a step are written: with the step, or each tool call or model's answer at once."""
    side_effect_tools: tuple[str, ...] | None = None
    """The tools that change something outside; None: all of them."""
    budget_cents: int | None = None
    """What one of its jobs may cost; once that is spent, people are asked."""
    approval: ApprovalConfig = USUAL_CONFIG
    """How long people have to decide."""

    def to_json(self) -> dict[str, Any]:
        return {
            "queue": self.queue,
            "retry": self.retry.to_json(),
            "on_crash": self.on_crash,
            "crash_limit": self.crash_limit,
            "timeout_seconds": self.timeout_seconds,
            "max_concurrency": self.max_concurrency,
            "checkpoint_granularity": self.checkpoint_granularity,
            "side_effect_tools": None if self.side_effect_tools is None else list(self.side_effect_tools),
            "budget_cents": self.budget_cents,
            "approval": self.approval.to_json(),
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> AgentConfig:
        """Tolerant of fields that are missing or newer than this code: another version may have written them."""
        return cls(
            queue=stored.get("queue", DEFAULT_QUEUE),
            retry=RetryPolicy.from_json(stored.get("retry", {})),
            on_crash=stored.get("on_crash", "resume"),
            crash_limit=stored.get("crash_limit", CRASH_LIMIT),
            timeout_seconds=stored.get("timeout_seconds"),
            max_concurrency=stored.get("max_concurrency"),
            checkpoint_granularity=stored.get("checkpoint_granularity", "per_step"),
            side_effect_tools=None if stored.get("side_effect_tools") is None else tuple(stored["side_effect_tools"]),
            budget_cents=stored.get("budget_cents"),
            approval=ApprovalConfig.from_json(stored.get("approval", {})),
        )


@dataclass(frozen=True, slots=True)
class AgentRecord:
    id: AgentId
    job_type: str
    config: AgentConfig
