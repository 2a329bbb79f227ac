"""`ctx.memory`, and the count of tokens and costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from cortex_plane.durable.schema import RESERVED
from cortex_plane.errors import InvalidInput
from cortex_plane.json import encode, loads


class WorkingData(MutableMapping[str, Any]):
    """A mapping of JSON values. Reading returns a copy: assign to store a change."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.changes = 0

    def __getitem__(self, key: str) -> Any:
        return loads(self.texts[key])

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str) or key == RESERVED:
            raise InvalidInput(f"{key!r:.80} cannot be a key of ctx.memory.data; use other text.", field="key")
        encode(key, "key")
        self.texts[key] = encode(value, f"memory.data[{key!r}]")
        self.changes += 1

    def __delitem__(self, key: str) -> None:
        del self.texts[key]
        self.changes += 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"WorkingData({dict(self)!r})"


class Memory:
    """`ctx.memory`. Facts are only ever added; the summary is replaced; `data` is a mapping."""

    def __init__(self) -> None:
        self._facts: list[str] = []
        self._summary: str | None = None
        self._changes = 0
        self.data = WorkingData()

    @property
    def version(self) -> int:
        """A counter that changes with every change."""
        return self._changes + self.data.changes

    @property
    def facts(self) -> tuple[str, ...]:
        return tuple(self._facts)

    def add_fact(self, fact: str) -> None:
        if not isinstance(fact, str):
            raise InvalidInput(f"A fact is text, not a {type(fact).__name__}.", field="fact")
        encode(fact, "fact")
        self._facts.append(fact)
        self._changes += 1

    @property
    def summary(self) -> str | None:
        return self._summary

    @summary.setter
    def summary(self, text: str | None) -> None:
        if text is not None and not isinstance(text, str):
            raise InvalidInput(f"A summary is text, not a {type(text).__name__}.", field="summary")
        encode(text, "summary")
        self._summary = text
        self._changes += 1

    def state(self) -> MemoryState:
        return (tuple(self._facts), self._summary, tuple(sorted(self.data.texts.items())))

    def restore(self, state: MemoryState) -> None:
        facts, self._summary, data = state
        self._facts, self.data.texts = list(facts), dict(data)
        self._changes += 1


MemoryState = tuple[tuple[str, ...], str | None, tuple[tuple[str, str], ...]]
"""Facts, summary, and the working data as JSON texts by key."""


# -- usage -------------------------------------------------------------------------------------
# Tokens, as the answers of models name them.


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
