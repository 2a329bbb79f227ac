"""Agents in code: handler, options and fingerprint."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Literal, TypedDict, Unpack, get_args

from cortex_plane.agents.arguments import HandlerTypes
from cortex_plane.agents.model import AgentConfig, Granularity
from cortex_plane.approvals.rules import ApprovalConfig
from cortex_plane.durable.schema import SCHEMA_VERSION
from cortex_plane.durable.scopes import checked_step_name
from cortex_plane.errors import InvalidInput, check_options
from cortex_plane.jobs.fields import checked_limit, refuse_timeout
from cortex_plane.jobs.model import DEFAULT_QUEUE
from cortex_plane.jobs.retry import CRASH_LIMIT, MAX_RETRY_AFTER_SECONDS, CrashPolicy, RetryPolicy, check_policy
from cortex_plane.json import normal

Kind = Literal["async", "thread", "command"]
OnPromptChange = Literal["continue", "restart", "fail"]
OnCodeChange = Literal["hold", "fail"]


@dataclass(frozen=True, slots=True)
class AgentCode:
    job_type: str
    handler: Callable[..., Any]
    kind: Kind
    config: AgentConfig
    system_prompt: str = ""
    on_prompt_change: OnPromptChange = "continue"
    on_code_change: OnCodeChange = "hold"
    version: str = ""
    """The author's version of the code; part of the code's fingerprint."""
    renamed_steps: Mapping[str, str] = field(default_factory=dict)
    """Recorded step names, and their current names in the code."""
    state_migrations: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)
    """How the agent's working data becomes that of the next version."""
    local_names: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """Of a handler that is defined inside a function: the local names in its annotations."""
    types: HandlerTypes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", HandlerTypes(self.job_type, self.handler, self.local_names))

    def described(self) -> AgentConfig:
        """The definition stored for programs without the agent's code."""
        try:
            return replace(self.config, parameters=normal(self.types.schema(), "schema"))  # type: ignore[arg-type]
        except InvalidInput:  # Types may hold values that the database does not take, such as NUL.
            return self.config

    @property
    def prompt_hash(self) -> str:
        return _hash(self.system_prompt)

    @property
    def state_version(self) -> int:
        return max(self.state_migrations, default=0) + 1


@lru_cache(maxsize=1024)
def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def kind_of(handler: Callable[..., Any]) -> Kind:
    return "async" if inspect.iscoroutinefunction(handler) else "thread"


def check_handler(job_type: str, handler: Callable[..., Any]) -> None:
    """Raises InvalidInput when a handler cannot be called with a context and arguments by name."""
    parameters = list(inspect.signature(handler).parameters.values())
    if not parameters or parameters[0].kind not in (parameters[0].POSITIONAL_ONLY, parameters[0].POSITIONAL_OR_KEYWORD):
        raise InvalidInput(
            f'The handler of agent "{job_type}" must take the context first: def {handler.__name__}(ctx, ...).', field="handler"
        )
    for parameter in parameters[1:]:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidInput(
                f'The handler of agent "{job_type}" takes "{parameter.name}" by position only, and jobs carry arguments by name. '
                "Move the / in front of it.",
                field="handler",
            )


# -- agent options -----------------------------------------------------------------------------
# Options of an agent, and their validation.


class WorkOptions(TypedDict, total=False):
    """For every agent, commands too."""

    queue: str
    retry: RetryPolicy
    max_retries: int | None
    on_crash: CrashPolicy
    crash_limit: int
    run_timeout: float | timedelta | None
    deadline: float | timedelta | None
    max_retry_after: float | timedelta
    max_concurrency: int | None


class AgentOptions(WorkOptions, total=False):
    """For agents that are functions."""

    checkpoint_granularity: Granularity
    side_effect_tools: Sequence[str] | None
    system_prompt: str
    on_prompt_change: OnPromptChange
    on_code_change: OnCodeChange
    version: str
    renamed_steps: Mapping[str, str]
    budget_cents: int | None
    approval_ttl: float | timedelta
    approval_max_ttl: float | timedelta


def agent_code(
    name: str,
    handler: Callable[..., Any],
    kind: Kind,
    local_names: Mapping[str, Any] | None = None,
    **options: Unpack[AgentOptions],
) -> AgentCode:
    refuse_timeout(options)
    takes = WorkOptions if kind == "command" else AgentOptions
    check_options(f'{"Command" if kind == "command" else "Agent"} "{name}"', options, takes.__annotations__)
    return AgentCode(
        name,
        handler,
        kind,
        _config(options),
        system_prompt=_text(options.get("system_prompt", ""), "system_prompt"),
        on_prompt_change=_one_of(options.get("on_prompt_change", "continue"), OnPromptChange, "on_prompt_change"),
        on_code_change=_one_of(options.get("on_code_change", "hold"), OnCodeChange, "on_code_change"),
        version=_text(options.get("version", ""), "version"),
        renamed_steps=_renamed(options.get("renamed_steps", {})),
        local_names=local_names,
    )


def _renamed(names: Any) -> dict[str, str]:
    if not isinstance(names, Mapping):
        raise InvalidInput(f'renamed_steps must be a dict, {{"old": "new"}}, not {names!r:.80}.', field="renamed_steps")
    return {checked_step_name(old): checked_step_name(new) for old, new in names.items()}


def _config(options: AgentOptions) -> AgentConfig:
    retry, max_retries = check_policy(options.get("retry", RetryPolicy())), options.get("max_retries")
    if max_retries is not None:
        retry = RetryPolicy(retry.mode, max_retries, retry.backoff)
    most, tools = options.get("max_concurrency"), options.get("side_effect_tools")
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
        timeout_seconds=checked_limit(options.get("run_timeout"), "run_timeout"),
        deadline_seconds=checked_limit(options.get("deadline"), "deadline"),
        max_retry_after_seconds=checked_limit(options.get("max_retry_after"), "max_retry_after") or MAX_RETRY_AFTER_SECONDS,
        max_concurrency=most,
        checkpoint_granularity=_one_of(options.get("checkpoint_granularity", "per_step"), Granularity, "checkpoint_granularity"),
        side_effect_tools=None if tools is None else tuple(checked_step_name(tool) for tool in tools),
        budget_cents=budget,
        approval=_approval(options),
    )


def _approval(options: AgentOptions) -> ApprovalConfig:
    return ApprovalConfig(_seconds(options.get("approval_ttl")), _seconds(options.get("approval_max_ttl")))


def _seconds(length: float | timedelta | None) -> float | None:
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


# -- fingerprints ------------------------------------------------------------------------------
# The fingerprint of an agent's code: a hash that is the same in every process with this code.
#
# It covers the handler (its bytecode, constants, names, defaults, closure and everything nested in it), the source of the
# module
# that the handler is in, and what the agent's options say about its record. It does not cover functions of other modules:
# where
# those matter, give the agent a `version`.


LENGTH = 16


def fingerprint(agent: AgentCode) -> str:
    options = (agent.version, sorted(agent.renamed_steps.items()), sorted(agent.state_migrations), SCHEMA_VERSION)
    parts = [repr(options), _module_source(agent.handler), *_parts(agent.handler, set())]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:LENGTH]


def _parts(value: Any, seen: set[int]) -> Iterator[str]:
    """A deterministic text for a value. Mutable values count by type only."""
    match value:
        case CodeType():
            yield from _code(value, seen)
        case FunctionType() if id(value) not in seen:
            seen.add(id(value))
            yield from _function(value, seen)
        case None | bool() | int() | float() | complex() | str() | bytes():
            yield repr(value)
        case tuple():
            yield "tuple"
            for one in value:
                yield from _parts(one, seen)
        case frozenset():
            yield from sorted("\1".join(_parts(one, seen)) for one in value)
        case _:
            yield type(value).__qualname__


def _code(code: CodeType, seen: set[int]) -> Iterator[str]:
    """Without file names and line numbers: code that only moved is the same."""
    yield code.co_code.hex()
    yield repr((code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_kwonlyargcount))
    for constant in code.co_consts:
        yield from _parts(constant, seen)


def _function(function: FunctionType, seen: set[int]) -> Iterator[str]:
    yield from _code(function.__code__, seen)
    yield from _parts(function.__defaults__ or (), seen)
    yield from _parts(tuple(sorted((function.__kwdefaults__ or {}).items(), key=lambda item: item[0])), seen)
    for cell in function.__closure__ or ():
        try:
            yield from _parts(cell.cell_contents, seen)
        except ValueError:  # Not set yet.
            yield "unset"
    yield from _parts(getattr(function, "__wrapped__", None), seen)


def _module_source(handler: Callable[..., Any]) -> str:
    """Empty where there is no file: in a terminal, in a test that makes its agents itself."""
    module = sys.modules.get(getattr(inspect.unwrap(handler), "__module__", None) or "")
    try:
        return "" if module is None else inspect.getsource(module)
    except (OSError, TypeError):
        return ""
