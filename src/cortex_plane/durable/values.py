"""Converts values to JSON and back according to annotations, so that callers get the same value on the first run and on replay.

encode(value)  ──▶ JSON in normal form, kept in the database ──▶  decode(json)  ──▶ the annotated type

What is encoded is always decoded again before anybody sees it, so that a replay cannot give something else. Three kinds:

JSON       no annotation, or one that says nothing: JSON in, JSON out
Plain...   bool, int, float, str, None, list, dict, Literal, and unions, lists and objects of them: checked here
RichType   everything else that pydantic knows: models, dataclasses, enums, datetimes, Decimal, tuples, sets, ...

pydantic is imported when the first rich type is met: programs with plain JSON do not pay for it.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from cortex_plane.errors import InvalidInput
from cortex_plane.json import NotJson, dumped, normal

MASKED_SECRET = b"*" * 10
"""The text that pydantic writes for a SecretStr."""


class WrongType(InvalidInput):
    """A value does not match its annotation."""


class ValueType:
    """JSON unchanged: the type of values without an annotation."""

    __slots__ = ()

    def encode(self, value: Any, name: str) -> Any:
        """Encodes to canonical JSON. Raises InvalidInput with the path of a value that cannot be stored."""
        if hasattr(value, "model_dump"):
            value = value.model_dump(mode="json")
        return normal(value, name)

    def decode(self, stored: Any, name: str) -> Any:
        """Decodes from JSON. Raises WrongType with the path of a value that does not match."""
        return stored

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        return {}


JSON = ValueType()


class PlainType(ValueType):
    """A type that JSON has, or one of several, checked without pydantic."""

    __slots__ = ("_as_float", "accepted", "json_names", "names")

    def __init__(self, accepted: tuple[type, ...], names: tuple[str, ...], json_names: tuple[str, ...]) -> None:
        self.accepted, self.names, self.json_names = accepted, names, json_names
        self._as_float = "number" in json_names and "integer" not in json_names

    def decode(self, stored: Any, name: str) -> Any:
        if type(stored) not in self.accepted:
            raise WrongType(f"{name} must be {' or '.join(self.names)}, not {_shown(stored)}.", field=name)
        return float(stored) if self._as_float and type(stored) is int else stored

    def schema(self) -> dict[str, Any]:
        return {"type": self.json_names[0] if len(self.json_names) == 1 else list(self.json_names)}

    def otherwise(self, other: PlainType) -> PlainType:
        """This one or the other."""
        return PlainType(self.accepted + other.accepted, self.names + other.names, self.json_names + other.json_names)


class LiteralType(ValueType):
    """One of some texts and numbers."""

    __slots__ = ("_values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self._values = values

    def decode(self, stored: Any, name: str) -> Any:
        if not any(type(stored) is type(value) and stored == value for value in self._values):
            known = ", ".join(repr(value) for value in self._values)
            raise WrongType(f"{name} must be one of {known}, not {_shown(stored)}.", field=name)
        return stored

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self._values)}


class PlainList(ValueType):
    """A list of values of one plain type."""

    __slots__ = ("_item",)

    def __init__(self, item: PlainType) -> None:
        self._item = item

    def decode(self, stored: Any, name: str) -> Any:
        item = self._item
        return [item.decode(value, f"{name}[{place}]") for place, value in enumerate(_LIST.decode(stored, name))]

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self._item.schema()}


class PlainDict(ValueType):
    """An object whose values are of one plain type."""

    __slots__ = ("_item",)

    def __init__(self, item: PlainType) -> None:
        self._item = item

    def decode(self, stored: Any, name: str) -> Any:
        item = self._item
        return {key: item.decode(value, f"{name}.{key}") for key, value in _DICT.decode(stored, name).items()}

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self._item.schema()}


_LIST = PlainType((list,), ("a list",), ("array",))
_DICT = PlainType((dict,), ("an object (dict)",), ("object",))
_NONE = PlainType((type(None),), ("None",), ("null",))
_PLAIN: dict[Any, ValueType] = {
    Any: JSON,
    object: JSON,
    None: _NONE,
    type(None): _NONE,
    bool: PlainType((bool,), ("true or false (bool)",), ("boolean",)),
    int: PlainType((int,), ("a whole number (int)",), ("integer",)),
    float: PlainType((float, int), ("a number (float)",), ("number",)),
    str: PlainType((str,), ("text (str)",), ("string",)),
    list: _LIST,
    list[Any]: _LIST,
    dict: _DICT,
    dict[str, Any]: _DICT,
}


def _plain_type(annotation: Any) -> ValueType | None:
    """The type for an annotation made of plain types; None if it needs pydantic."""
    if (known := _PLAIN.get(annotation)) is not None:
        return known
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return LiteralType(args) if all(type(value) in (str, int, bool, type(None)) for value in args) else None
    if origin not in (list, dict, typing.Union, types.UnionType) or (origin is dict and args[0] is not str):
        return None
    inner = [_plain_type(arg) for arg in args]
    plain = [each for each in inner if isinstance(each, PlainType)]
    if len(plain) < len(inner):
        return None
    if origin is list:
        return PlainList(plain[0])
    return PlainDict(plain[1]) if origin is dict else functools.reduce(PlainType.otherwise, plain)


_ONE_PASS = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
)


class RichType(ValueType):
    """A type handled by pydantic. JSON is validated strictly: "5" is not an int, but ISO 8601 text is a datetime."""

    __slots__ = ("_adapter", "_wrapped", "is_local")

    def __init__(self, annotation: Any) -> None:
        from pydantic import ConfigDict, PydanticUserError, TypeAdapter

        config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants")
        self._wrapped = False
        self.is_local = _is_local(annotation)
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=config)
        except PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
            # Models have their own configuration. A dataclass or a TypedDict takes that of the list around it.
            self._wrapped = not hasattr(annotation, "model_dump")
            self._adapter = TypeAdapter(list[annotation], config=config) if self._wrapped else TypeAdapter(annotation)

    def encode(self, value: Any, name: str) -> Any:
        from pydantic_core import PydanticSerializationError

        try:
            written = self._adapter.dump_python(
                [value] if self._wrapped else value, mode="json", by_alias=True, round_trip=True, warnings=False
            )
        except PydanticSerializationError as error:
            raise NotJson(f"{name} cannot be written as JSON: {error}.", field=name) from None
        except Exception as error:  # Exceptions of the user's own serializers.
            raise NotJson(f"{name} cannot be written as JSON: {type(error).__name__}: {error}.", field=name) from error
        return normal(written[0] if self._wrapped else written, name)

    def decode(self, stored: Any, name: str) -> Any:
        from pydantic import ValidationError

        text = dumped([stored] if self._wrapped else stored)
        if MASKED_SECRET in text and self._has_secrets():
            raise NotJson(
                f"{name} holds a SecretStr, and secrets are not stored. Pass the name of the secret instead.", field=name
            )
        try:
            found = self._adapter.validate_json(text, strict=True)
        except ValidationError as error:
            raise self._wrong_type(error, name) from None
        return found[0] if self._wrapped else found

    def _has_secrets(self) -> bool:
        return b'"writeOnly":true' in dumped(self.schema())

    def _wrong_type(self, error: Any, name: str) -> WrongType:
        first = error.errors(include_url=False, include_context=False)[0]
        path = f"{name}{_path(first['loc'][self._wrapped :])}"
        message = first["msg"][0].lower() + first["msg"][1:]
        return WrongType(f"{path}: {message}, not {_shown(first['input'])}.", field=path)

    def schema(self) -> dict[str, Any]:
        schema = self._adapter.json_schema(mode="validation")
        if self._wrapped:
            definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
            schema = {**schema["items"], **definitions}
        return schema


def _path(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def _shown(value: Any) -> str:
    shown = f"{value!r:.61}"
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


# -- from an annotation ---------------------------------------------------------------------------
def type_for(annotation: Any) -> ValueType:
    """The type for an annotation. An annotation that pydantic does not support counts as none: JSON in, JSON out."""
    try:
        known = _PLAIN.get(annotation)
    except TypeError:  # Annotations may be unhashable: Annotated[int, []].
        return _rich_type(annotation)
    return known if known is not None else _cached_type(annotation)


_types: dict[Any, ValueType] = {}
MOST_TYPES = 512
KEPT_TYPE = "__cortex_type__"


def _cached_type(annotation: Any) -> ValueType:
    """By the annotation, never by the function: a function may hold on to all that a finished job had. So may a class that is
    made inside of one; a dataclass, whose type takes a millisecond to make, keeps it itself."""
    found = _types.get(annotation) or getattr(annotation, "__dict__", {}).get(KEPT_TYPE)
    if found is None:
        found = _rich_type(annotation)
        if not isinstance(found, RichType) or not found.is_local:
            if len(_types) < MOST_TYPES:
                _types[annotation] = found
        elif isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            setattr(annotation, KEPT_TYPE, found)
    return found


def _is_local(annotation: Any) -> bool:
    """Whether it names something that was made inside a function. `list[Row]` shows the whole name of `Row`."""
    return "<locals>" in repr(annotation)


def _rich_type(annotation: Any) -> ValueType:
    origin = typing.get_origin(annotation) or annotation
    if origin in (typing.NoReturn, typing.Never) or origin in _ONE_PASS:
        return JSON
    if origin is collections.abc.Iterable:
        annotation = list[typing.get_args(annotation) or Any]  # type: ignore[misc]
    try:
        if (plain := _plain_type(annotation)) is not None:
            return plain
        return RichType(annotation if sys.version_info >= (3, 12) else _with_known_dicts(annotation))
    except Exception:  # Types without a schema, forward references, errors in the hooks of users' types.
        return JSON


def _with_known_dicts(annotation: Any) -> Any:
    """Before Python 3.12, pydantic supports only the TypedDict of typing_extensions."""
    if typing.is_typeddict(annotation):
        import typing_extensions

        hints = typing_extensions.get_type_hints(annotation, include_extras=True)
        required = annotation.__required_keys__
        fields = {name: hint if name in required else typing.NotRequired[hint] for name, hint in hints.items()}
        make: Any = typing_extensions.TypedDict
        return make(annotation.__name__, {name: _with_known_dicts(hint) for name, hint in fields.items()})
    args = typing.get_args(annotation)
    known = tuple(_with_known_dicts(arg) for arg in args)
    if known == args:
        return annotation
    origin = typing.get_origin(annotation)
    return typing.Union[known] if origin is types.UnionType else origin[known]  # noqa: UP007


_returned: WeakKeyDictionary[Any, ValueType] = WeakKeyDictionary()


def return_type(work: Callable[..., Any]) -> ValueType:
    """The type for the return annotation of a function; of an async function, of the awaited value."""
    function = _function_of(work)
    if isinstance(function, type):
        return type_for(function)
    try:
        if "return" not in (getattr(function, "__annotations__", None) or ()):
            return JSON
        found = _returned.get(function)
    except Exception:  # Neither hashable nor weakly referable, or annotations that fail when they are read.
        return _return_type(function)
    if found is None:
        found = _return_type(function)
        try:
            if not isinstance(found, RichType) or not found.is_local:  # It may hold on to the function.
                _returned[function] = found
        except TypeError:
            pass
    return found


def _function_of(work: Any) -> Any:
    while isinstance(work, functools.partial):
        work = work.func
    if isinstance(work, types.MethodType):
        return work.__func__
    if isinstance(work, type | types.FunctionType):
        return work
    return getattr(type(work), "__call__", work)  # noqa: B004


def _return_type(function: Any) -> ValueType:
    try:
        annotation = resolved(function, "return")
    except Exception:
        return JSON
    if typing.get_origin(annotation) in (collections.abc.Awaitable, collections.abc.Coroutine):
        annotation = typing.get_args(annotation)[-1]
    return type_for(annotation)


def resolved(function: Any, name: str, names: Mapping[str, Any] | None = None) -> Any:
    """One annotation of a function; text is evaluated in the function's scope. Raises the errors of the evaluation."""
    inner = inspect.unwrap(function)
    annotation = function.__annotations__[name]
    if isinstance(annotation, type):
        return annotation
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    local = {**_closed_over(inner), **(names or {})}
    return typing.get_type_hints(holder, getattr(inner, "__globals__", {}), local, include_extras=True)[name]


def _closed_over(function: Any) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells:
        return {}
    found = {}
    for name, cell in zip(code.co_freevars, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # Not assigned yet.
            pass
    return found
