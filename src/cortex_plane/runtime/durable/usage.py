"""Tokens, as the answers of models name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cortex_plane.core.errors import InvalidInput

LARGEST_COUNT = 2**53


def check_count(value: int, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_COUNT:
        raise InvalidInput(f"{field} must be a whole number from 0, not {value!r:.80}.", field=field)
    return value


def tokens_in(answer: Any) -> tuple[int, int]:
    """Prompt and completion tokens of an answer's `usage`, under the names that providers use; 0 where there are none."""
    usage = _get(answer, "usage")
    if callable(usage):
        usage = usage()
    return (
        _count(usage, "prompt_tokens", "input_tokens", "request_tokens"),
        _count(usage, "completion_tokens", "output_tokens", "response_tokens"),
    )


def _count(usage: Any, *names: str) -> int:
    for name in names:
        value = _get(usage, name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT:
            return value
    return 0


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
