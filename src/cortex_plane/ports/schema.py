"""The tables themselves: which version of them there is, and how they become the newest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Schema(Protocol):
    async def status(self) -> SchemaStatus: ...

    async def upgrade(self) -> list[str]:
        """Applies what is missing; returns the names. Any number of processes may do so at once."""


class SchemaStatus(Protocol):
    @property
    def current(self) -> int: ...
    @property
    def latest(self) -> int: ...
    @property
    def pending(self) -> Sequence[str]: ...
