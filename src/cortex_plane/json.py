"""JSON text: encoding, decoding, size limits, and canonical form.

The canonical form does not change in a round trip through jsonb: keys are sorted at every depth, integral floats below 2^64
become integers, -0.0 becomes 0. Values that jsonb or orjson would reject or silently change, such as integers beyond 64 bits,
are rejected with their path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any

import orjson

from cortex_plane.errors import InvalidInput

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

MAX_DEPTH = 200
LEVELS_AROUND = 20
KEY_LIMIT = 80
PATH_LIMIT = 1_000
"""Maximum length of a key, and of a path, in a message."""
LOWEST_INTEGER, HIGHEST_INTEGER = -(2**63), 2**64 - 1
"""The integers that JSON readers and writers keep exactly: 64 bits, signed and unsigned."""


class NotJson(InvalidInput):
    """A value of a type that JSON does not have."""


def normal(value: Any, name: str = "value") -> Json:
    """The value in canonical form. Raises InvalidInput with the path of the first value that cannot be stored."""
    return _normal(value, (None, name), 0)


def normal_around(document: Any, name: str) -> Json:
    """Like `normal`, for a document that contains canonical values: it may be nested deeper."""
    return _normal(document, (None, name), -LEVELS_AROUND)


Path = tuple[Any, Any]
"""The path of the parent (None at the top), and the key or index. The text is built for errors only: building it for each item
would copy long keys many times."""


def _shown(path: Path) -> str:
    parts: list[str] = []
    around: Path | None = path
    while around is not None:
        around, key = around
        parts.append(f"[{key}]" if isinstance(key, int) else str(key) if around is None else f".{str(key)[:KEY_LIMIT]}")
    return "".join(reversed(parts))[:PATH_LIMIT]


def _refused(problem: str, path: Path) -> InvalidInput:
    """`{}` in the problem is replaced by the path."""
    shown = _shown(path)
    return InvalidInput(problem.replace("{}", shown, 1), field=shown)


def _normal(value: Any, path: Path, depth: int) -> Json:
    kind = type(value)
    if value is None or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is str:
        return _text(value, path)
    if kind is int:
        return _integer(value, path)
    if kind is float:
        return _number(value, path)
    if depth >= MAX_DEPTH:
        raise _refused(f"{{}} is nested more than {MAX_DEPTH} levels deep. Flatten it.", path)
    if isinstance(value, Mapping):
        return {_key(key, path): _normal(item, (path, key), depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_normal(item, (path, index), depth + 1) for index, item in enumerate(value)]
    return _converted(value, path, depth)


def _converted(value: Any, path: Path, depth: int) -> Json:
    """Subclasses of plain types are stored as plain values. Other types are rejected."""
    if isinstance(value, Enum):
        return _normal(value.value, path, depth + 1)
    for plain in (str, int, float):
        if isinstance(value, plain):
            return _normal(plain(value), path, depth + 1)
    shown = _shown(path)
    raise NotJson(
        f"{shown} is of type {type(value).__name__}, which is not JSON. "
        "Use None, bool, int, float, str, list and dict, or convert it first.",
        field=shown,
    )


def _number(value: float, path: Path) -> int | float:
    if not isfinite(value):
        raise _refused(f"{{}} is {value}, which JSON cannot hold. Use null or a finite number.", path)
    if value.is_integer() and LOWEST_INTEGER <= value <= HIGHEST_INTEGER:
        return int(value)
    return value


def _integer(value: int, path: Path) -> int:
    if LOWEST_INTEGER <= value <= HIGHEST_INTEGER:
        return value
    raise _refused("{} is an integer beyond 64 bits (-2^63 to 2^64 - 1), which readers of JSON round. Store it as text.", path)


def _text(value: str, path: Path) -> str:
    if "\x00" in value:
        raise _refused("{} contains a NUL character, which databases refuse. Remove it.", path)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refused("{} contains half of a surrogate pair, which is not valid text.", path) from None
    return value


def _key(key: Any, path: Path) -> str:
    if not isinstance(key, str):
        raise _refused(f"{{}} has the key {key!r:.80}; keys must be text.", path)
    return _text(str(key), (path, repr(key[:KEY_LIMIT])))


# -- json text ---------------------------------------------------------------------------------
# JSON as text.


def encode(value: Any, name: str = "value") -> str:
    """The canonical text of a value from outside. Raises InvalidInput with the path of the first value that cannot be stored."""
    return dumps(normal(value, name))


def dumps(value: Any) -> str:
    """The text of a value that is canonical already."""
    return dumped(value).decode()


def dumped(value: Any) -> bytes:
    """Like `dumps`, as UTF-8 bytes."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise InvalidInput(f"This cannot be written as JSON: {error}.") from error


def refuse_larger(value: Any, limit_bytes: int, name: str, advice: str = "") -> None:
    """Raises InvalidInput if the value is larger. Call this before walking a value from outside: a large one would block the
    event loop."""
    try:
        size = len(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))
    except TypeError:
        size = _least_size(value)
    if size > limit_bytes:
        raise InvalidInput(f"{name} is {size:,} bytes of JSON; the limit is {limit_bytes:,}.{advice}", field=name)


def _least_size(value: Any) -> int:
    """A lower bound for values that orjson rejects (large integers, lone surrogates, objects). `normal` rejects them by name."""
    try:
        return len(json.dumps(value, default=lambda _: None, skipkeys=True, ensure_ascii=False, separators=(",", ":")))
    except (TypeError, ValueError, RecursionError):
        return 0


def loads(text: str | bytes) -> Any:
    return orjson.loads(text)


def loads_exactly(text: str) -> Any:
    """Like `loads`, for text written by people: integers beyond 64 bits are kept, so that `normal` can reject them by name."""
    found = orjson.loads(text)
    return json.loads(text) if _LONG_NUMBER.search(text) else found


def loads_stored(text: str | bytes) -> Any:
    """The same for what is in the database, where anybody may write: numbers that no float holds are given as text, so that
    the row that has one can be read like every other."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, parse_int=_number_or_text, parse_float=_number_or_text)


def _number_or_text(text: str) -> int | float | str:
    number = float(text)
    if not isfinite(number):
        return text
    return int(text) if text.lstrip("-").isdigit() and LOWEST_INTEGER <= int(text) <= HIGHEST_INTEGER else number


_LONG_NUMBER = re.compile(r"\d{19}")


def embedded(text: str) -> Any:
    """JSON text that is inserted into a larger document without being decoded."""
    return orjson.Fragment(text)


def fingerprint(value: Any) -> bytes:
    """Bytes that are equal for equal data. Objects that are not data, such as connections, are represented by their type."""
    try:
        return orjson.dumps(value, default=_fingerprinted, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # Integers beyond 64 bits, lone surrogates, cycles.
        return repr(value).encode("utf-8", "backslashreplace")


def _fingerprinted(value: Any) -> Any:
    """Arguments of steps that orjson cannot write."""
    match value:
        case Decimal() | PurePath():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case timedelta():
            return [value.days, value.seconds, value.microseconds]
        case tuple():
            return list(value)
        case set() | frozenset():
            return sorted(fingerprint(item).hex() for item in value)
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return dump()
    return f"<{type(value).__module__}.{type(value).__qualname__}>"
