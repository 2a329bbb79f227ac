"""What an agent's author may say about it, and the checks of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, Unpack, get_args

from cortex_plane.core.agents import AgentConfig, Granularity
from cortex_plane.core.approval_config import ApprovalConfig
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import DEFAULT_QUEUE
from cortex_plane.core.retry import CRASH_LIMIT, CrashPolicy, RetryPolicy
from cortex_plane.runtime.agents import AgentCode, Kind, OnPromptChange
from cortex_plane.runtime.durable.scopes import checked_step_name


class WorkOptions(TypedDict, total=False):
    """For every agent, commands too."""

    queue: str
    retry: RetryPolicy
    max_retries: int | None
    on_crash: CrashPolicy
    crash_limit: int
    timeout: float | timedelta | None
    max_concurrency: int | None


class AgentOptions(WorkOptions, total=False):
    """For agents that are functions."""

    checkpoint_granularity: Granularity
    side_effect_tools: Sequence[str] | None
    system_prompt: str
    on_prompt_change: OnPromptChange
    renamed_steps: Mapping[str, str]
    budget_cents: int | None
    approval_ttl: float | timedelta
    approval_max_ttl: float | timedelta


def agent_code(name: str, handler: Callable[..., Any], kind: Kind, **options: Unpack[AgentOptions]) -> AgentCode:
    return AgentCode(
        name,
        handler,
        kind,
        _config(options),
        system_prompt=_text(options.get("system_prompt", ""), "system_prompt"),
        on_prompt_change=_one_of(options.get("on_prompt_change", "continue"), OnPromptChange, "on_prompt_change"),
        renamed_steps={
            checked_step_name(old): checked_step_name(new) for old, new in dict(options.get("renamed_steps", {})).items()
        },
    )


def _config(options: AgentOptions) -> AgentConfig:
    retry, max_retries = options.get("retry", RetryPolicy()), options.get("max_retries")
    if max_retries is not None:
        retry = RetryPolicy(retry.mode, max_retries, retry.backoff)
    timeout, most, tools = options.get("timeout"), options.get("max_concurrency"), options.get("side_effect_tools")
    if most is not None:
        check_positive(most, "max_concurrency")
    budget = options.get("budget_cents")
    if budget is not None:
        check_positive(budget, "budget_cents")
    if isinstance(tools, str):
        raise InvalidInput("side_effect_tools must be a list of names.", field="side_effect_tools")
    return AgentConfig(
        queue=options.get("queue", DEFAULT_QUEUE),
        retry=retry,
        on_crash=_one_of(options.get("on_crash", "resume"), CrashPolicy, "on_crash"),
        crash_limit=options.get("crash_limit", CRASH_LIMIT),
        timeout_seconds=timeout.total_seconds() if isinstance(timeout, timedelta) else timeout,
        max_concurrency=most,
        checkpoint_granularity=_one_of(options.get("checkpoint_granularity", "per_step"), Granularity, "checkpoint_granularity"),
        side_effect_tools=None if tools is None else tuple(checked_step_name(tool) for tool in tools),
        budget_cents=budget,
        approval=_approval(options),
    )


def _approval(options: AgentOptions) -> ApprovalConfig:
    usual = ApprovalConfig()
    return ApprovalConfig(
        _seconds(options.get("approval_ttl", usual.token_ttl_seconds)),
        _seconds(options.get("approval_max_ttl", usual.max_ttl_seconds)),
    )


def _seconds(length: float | timedelta) -> float:
    return length.total_seconds() if isinstance(length, timedelta) else length


def check_positive(value: int, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"{field} must be a whole number of 1 or more, not {value!r}.", field=field)


def _one_of(value: Any, known: Any, field: str) -> Any:
    names = get_args(known)
    if value not in names:
        quoted = [f'"{name}"' for name in names]
        raise InvalidInput(f"{field} must be {', '.join(quoted[:-1])} or {quoted[-1]}, not {value!r}.", field=field)
    return value


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{field} must be text, not a {type(value).__name__}.", field=field)
    return value
