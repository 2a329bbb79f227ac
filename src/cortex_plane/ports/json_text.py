"""JSON as text: the one encoder and decoder of the plane."""

from __future__ import annotations

from typing import Any

import orjson

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.normal_json import normal


def encode(value: Any, name: str = "value") -> str:
    """The normal form of a value from outside, as text. Raises InvalidInput naming the path of what cannot be stored."""
    return dumps(normal(value, name))


def dumps(value: Any) -> str:
    """Text of a value that is in normal form already."""
    return dumped(value).decode()


def dumped(value: Any) -> bytes:
    """The same in UTF-8."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise InvalidInput(f"This cannot be written as JSON: {error}.") from error


def loads(text: str | bytes) -> Any:
    return orjson.loads(text)


def embedded(text: str) -> Any:
    """JSON text to be placed inside a larger document without decoding it first."""
    return orjson.Fragment(text)


def fingerprint(value: Any) -> bytes:
    """Bytes that are the same for the same data. What is not data, such as a connection, counts by its type only."""
    try:
        return orjson.dumps(value, default=_by_type, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # Integers beyond 64 bits, text that is no text, circles.
        return repr(value).encode("utf-8", "backslashreplace")


def _by_type(value: Any) -> str:
    return f"<{type(value).__module__}.{type(value).__qualname__}>"
