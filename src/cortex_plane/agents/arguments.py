"""Types and schema of the arguments of a handler.

The arguments of a handler: how a call becomes the payload of a job, and how a payload becomes the arguments again.

agent.submit(...) ──bind──▶ values by name ──encode──▶ payload (JSON) ──decode──▶ handler(ctx, **arguments)

Their JSON Schema is stored with the agent, so that programs without its code can refuse what does not fit.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import FrameType
from typing import Any

import structlog

from cortex_plane.durable.values import JSON, ValueType, resolved, return_type, type_for
from cortex_plane.errors import InvalidInput, did_you_mean
from cortex_plane.jobs.fields import SUBMISSION_OPTIONS

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Parameter:
    type: ValueType
    required: bool
    default: Any = inspect.Parameter.empty


class HandlerTypes:
    """The parameters of a handler besides its context, and its return type. Evaluated on first use: annotations may refer to
    names defined below the handler."""

    def __init__(self, job_type: str, handler: Callable[..., Any], names: Mapping[str, Any] | None = None) -> None:
        """`names` are local names used in annotations: see `names_around`."""
        self._job_type, self._handler, self._names = job_type, handler, names

    @cached_property
    def signature(self) -> inspect.Signature:
        """Without the context."""
        signature = inspect.signature(self._handler)
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    @cached_property
    def returns(self) -> ValueType:
        try:
            return type_for(resolved(self._handler, "return", self._names))
        except Exception:
            return return_type(self._handler)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        found = {}
        for parameter in self.signature.parameters.values():
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                required = parameter.default is parameter.empty
                found[parameter.name] = Parameter(self._type_of(parameter), required, parameter.default)
        return found

    @cached_property
    def others(self) -> ValueType | None:
        """The type of arguments by other names, for a handler with **kwargs."""
        for parameter in self.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                return self._type_of(parameter)
        return None

    def _type_of(self, parameter: inspect.Parameter) -> ValueType:
        if parameter.annotation is parameter.empty:
            return JSON
        try:
            annotation = resolved(self._handler, parameter.name, self._names)
        except Exception as error:
            log.warning(
                "annotation_not_resolved",
                agent=self._job_type,
                argument=parameter.name,
                annotation=str(parameter.annotation),
                error=f"{type(error).__name__}: {error}",
                advice="The handler gets plain JSON for it. Import the type at run time, not only for type checkers.",
            )
            return JSON
        return JSON if typing.get_origin(annotation) is typing.Unpack else type_for(annotation)

    # -- from a call to a payload ----------------------------------------------------------------

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The payload for a call with these arguments. Raises InvalidInput with the field that the handler does not accept."""
        payload = {name: self._type(name).encode(value, f"payload.{name}") for name, value in self._bound(args, kwargs).items()}
        self.decode(payload)
        return payload

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            self._check_names({**dict(zip(self.parameters, args, strict=False)), **kwargs})
            raise self._refusal(f"{error}.".capitalize(), "payload") from None
        values = dict(bound.arguments)
        for parameter in self.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                values.update(values.pop(parameter.name, {}))
            elif parameter.kind is parameter.VAR_POSITIONAL and parameter.name in values:
                raise self._refusal(
                    f"Jobs carry arguments by name only, so nothing can be given for *{parameter.name}.", "payload"
                )
        return values

    # -- from a payload to a call ----------------------------------------------------------------

    def decode(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments for the handler, decoded from a payload. Raises InvalidInput with the field that it does not accept."""
        self._check_names(payload)
        return {name: self._type(name).decode(value, f"payload.{name}") for name, value in payload.items()}

    def _type(self, name: str) -> ValueType:
        known = self.parameters.get(name)
        return known.type if known is not None else self.others or JSON

    def _check_names(self, given: Mapping[str, Any]) -> None:
        if self.others is None:
            for name in given:
                if name not in self.parameters:
                    raise self._refusal(f'There is no argument "{name}".{self._hint(name)}', f"payload.{name}")
        for name, parameter in self.parameters.items():
            if parameter.required and name not in given:
                raise self._refusal(f'The argument "{name}" is missing.', f"payload.{name}")

    def _hint(self, name: str) -> str:
        if close := did_you_mean(name, self.parameters):
            return close
        if name in SUBMISSION_OPTIONS:
            return f" To submit with that option: .options({name}=...).submit(...)."
        return ""

    def _refusal(self, problem: str, field: str) -> InvalidInput:
        return InvalidInput(f'{problem} Agent "{self._job_type}" takes {self.shown}.', field=field)

    @property
    def shown(self) -> str:
        """The signature for people."""
        try:
            whole = inspect.signature(self._handler, eval_str=True)  # Quoted annotations.
            signature = whole.replace(parameters=list(whole.parameters.values())[1:])
        except Exception:  # They may refer to names that exist for type checkers only.
            signature = self.signature
        return str(signature.replace(return_annotation=signature.empty))

    # -- for programs without the code -----------------------------------------------------------

    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the payload; None when anything is taken."""
        if self.others is JSON and not self.parameters:
            return None
        properties = {name: _schema_of(parameter) for name, parameter in self.parameters.items()}
        others = False if self.others is None else _schema_of(Parameter(self.others, required=True)) or True
        definitions: dict[str, Any] = {}
        for own in (*properties.values(), others):
            if isinstance(own, dict):
                definitions.update(own.pop("$defs", {}))
        schema = {
            "type": "object",
            "properties": properties,
            "required": [name for name, parameter in self.parameters.items() if parameter.required],
            "additionalProperties": others,
        }
        return schema | ({"$defs": definitions} if definitions else {})


def _schema_of(parameter: Parameter) -> dict[str, Any]:
    try:
        schema = parameter.type.schema()
    except Exception:  # pydantic can check some types that it cannot describe.
        return {}
    try:
        if not parameter.required:
            schema = {**schema, "default": parameter.type.encode(parameter.default, "default")}
    except Exception:  # Defaults may be anything: a sentinel, for example.
        pass
    return schema


def names_around(handler: Callable[..., Any], frame: FrameType | None) -> dict[str, Any]:
    """The local names around a handler that its annotations use, so that types defined inside a function are found too."""
    if frame is None or "<locals>" not in getattr(handler, "__qualname__", ""):
        return {}
    texts = [text for text in getattr(handler, "__annotations__", {}).values() if isinstance(text, str)]
    local = frame.f_locals
    return {name: local[name] for text in texts for name in _names_in(text) if name in local}


def _names_in(annotation: str) -> tuple[str, ...]:
    try:
        return compile(annotation, "<annotation>", "eval").co_names
    except (SyntaxError, ValueError):
        return ()
