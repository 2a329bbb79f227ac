"""A real store with faults around chosen calls: an error instead of the call, or a call whose answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cortex_plane.errors import Unavailable
from cortex_plane.stores import Store

Around = Callable[..., Any]
"""Takes the real method and its arguments."""

PARTS = ("jobs", "queue", "checkpoints", "workers", "audit", "events")


class FaultyPart:
    def __init__(self, real: Any) -> None:
        self._real = real
        self._around: dict[str, Around] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        return partial(self._around[name], method) if name in self._around else method


class FaultyStore:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._parts = {name: FaultyPart(getattr(store, name)) for name in PARTS}

    def __getattr__(self, name: str) -> Any:
        return self._parts[name] if name in self._parts else getattr(self._store, name)

    def around(self, part: str, method: str, fault: Around) -> None:
        self._parts[part]._around[method] = fault

    def heal(self) -> None:
        for part in self._parts.values():
            part._around.clear()


def fails(times: float, error: Exception | None = None) -> Around:
    """The first so many calls do not reach the database."""
    calls = 0

    async def fault(method: Around, *values: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise error or Unavailable("The database is away.")
        return await method(*values)

    return fault


def loses_answer(times: int) -> Around:
    """The first so many calls are done, but the caller is told that nobody answered."""
    calls = 0

    async def fault(method: Around, *values: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = await method(*values)
        if calls <= times:
            raise Unavailable("The connection broke.")
        return answer

    return fault


class Outage:
    """While it is `down`, no call reaches the database."""

    def __init__(self) -> None:
        self.down = False

    async def __call__(self, method: Around, *values: Any) -> Any:
        self._check()
        return await method(*values)

    def blocking(self, method: Around, *values: Any) -> Any:
        self._check()
        return method(*values)

    def _check(self) -> None:
        if self.down:
            raise Unavailable("The database is away.")


class Recorder:
    """Passes everything on, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def __call__(self, method: Around, *values: Any) -> Any:
        self.asked.append(values[0])
        return await method(*values)
