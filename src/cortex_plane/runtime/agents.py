"""An agent in code: a name, a handler, and how it is to be treated."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from cortex_plane.core.agents import AgentConfig
from cortex_plane.core.errors import InvalidInput

Kind = Literal["async", "thread", "command"]
OnPromptChange = Literal["continue", "restart", "fail"]


@dataclass(frozen=True, slots=True)
class AgentCode:
    job_type: str
    handler: Callable[..., Any]
    kind: Kind
    config: AgentConfig
    system_prompt: str = ""
    on_prompt_change: OnPromptChange = "continue"
    renamed_steps: Mapping[str, str] = field(default_factory=dict)
    """Recorded names of steps, and what the code calls them now."""
    state_migrations: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)
    """How the agent's working data becomes that of the next version."""

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


def payload_for(job_type: str, handler: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, by name. The context is the handler's first argument and never part of it."""
    try:
        bound = _signature(handler).bind(None, *args, **kwargs)
    except TypeError as error:
        raise _wrong_arguments(job_type, handler, error) from None
    names = list(bound.signature.parameters)
    payload = {name: value for name, value in bound.arguments.items() if name != names[0]}
    for parameter in bound.signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            payload.update(payload.pop(parameter.name, {}))
        elif parameter.kind is parameter.VAR_POSITIONAL and parameter.name in payload:
            raise InvalidInput(f'Agent "{job_type}" takes *{parameter.name}; jobs carry arguments by name only.', field="payload")
    return payload


_signature = lru_cache(maxsize=1024)(inspect.signature)


def wrong_arguments(agent: AgentCode, error: TypeError) -> InvalidInput:
    return _wrong_arguments(agent.job_type, agent.handler, error)


def _wrong_arguments(job_type: str, handler: Callable[..., Any], error: TypeError) -> InvalidInput:
    return InvalidInput(f'{error}. Agent "{job_type}" takes {signature_of(handler)}.', field="payload")


def check_handler(job_type: str, handler: Callable[..., Any]) -> None:
    parameters = list(inspect.signature(handler).parameters.values())
    if not parameters or parameters[0].kind not in (parameters[0].POSITIONAL_ONLY, parameters[0].POSITIONAL_OR_KEYWORD):
        raise InvalidInput(
            f'The handler of agent "{job_type}" must take the context first: def {handler.__name__}(ctx, ...).', field="handler"
        )


def signature_of(handler: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(handler, eval_str=True)  # Otherwise annotations that are kept as text stand in quotes.
    except Exception:  # They may name what only type checkers know.
        signature = inspect.signature(handler)
    rest = [parameter for place, parameter in enumerate(signature.parameters.values()) if place > 0]
    return str(signature.replace(parameters=rest, return_annotation=signature.empty))
