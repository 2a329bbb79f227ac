"""A job's arguments as words of a command line: key=value pairs, one JSON object, or a file of JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cortex_plane.core.errors import InvalidInput, NotFound

HOW = """Write key=value pairs (name=Ada count=3), one JSON object ('{"name": "Ada"}'), or @file.json (@- for stdin)."""


def payload_from(words: Sequence[str]) -> dict[str, Any]:
    match words:
        case ["@-"]:
            return _object(sys.stdin.read(), "What came from stdin")
        case [word] if word.startswith("@"):
            return _object(_read(Path(word[1:])), word[1:])
        case [word] if word.lstrip().startswith("{"):
            return _object(word, "The payload")
        case _:
            return _pairs(words)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}. You are in {Path.cwd()}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}", field="payload") from None


def _object(text: str, name: str) -> dict[str, Any]:
    from cortex_plane.ports.json_text import loads

    try:
        found = loads(text)
    except ValueError as error:
        raise InvalidInput(f"{name} is not valid JSON: {error}.\n{HOW}", field="payload") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{name} is not a JSON object.\n{HOW}", field="payload")
    return found


def _pairs(words: Sequence[str]) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise InvalidInput(f'"{word:.60}" is not a key=value pair.\n{HOW}', field="payload")
        if key in payload:
            raise InvalidInput(f"\"{key}\" is given twice. For a list, write JSON: {key}='[1, 2]'", field="payload")
        payload[key] = _value(text)
    return payload


def _value(text: str) -> Any:
    """JSON where it is JSON, else text: `3` is a number, `"3"` and `three` are texts."""
    from cortex_plane.ports.json_text import loads

    try:
        return loads(text)
    except ValueError:
        return text
