"""What a host is told and what it answers, as JSON. Standard library only: peers run in another environment."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

LOCKED = "inside a transaction that locks the file"


@dataclass(frozen=True, slots=True)
class Order:
    """`server` is empty for SQLite. With `at_most`, only so many kills, spread evenly over the boundaries."""

    system: str
    server: str
    folder: str
    at_most: int
    in_parallel: int

    @classmethod
    def read(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def text(self) -> str:
        return json.dumps(asdict(self))


@dataclass(slots=True)
class Life:
    """What one process did from its start to its end: `ended` is "killed", "frozen", "done", "failed" or "hung"."""

    ended: str
    executed: list[str] = field(default_factory=list)
    answer: list[str] | None = None
    trouble: str = ""


@dataclass(slots=True)
class Trial:
    """One disturbance and what was seen of it. `recorded` is None when the system could not read its own state.

    kind         the disturbance
    steps        a kill; the store was copied at that moment, and `fork` ran on the copy
    questions    a kill of the program that asks two questions
    altered      a stored result was changed while the program was down
    payment      a kill of the program that pays under an idempotency key
    frozen       the process was stopped; another one finished the work; then the first one was continued. `at` is LOCKED if
                 the process held the lock of the SQLite file meanwhile, so that no other could write
    failed       a step failed for good; the cause was removed; the job was resumed
    parallel     some of six parallel calls were refused once
    """

    kind: str
    number: int
    at: str = ""
    first: Life = field(default_factory=lambda: Life("done"))
    recorded: list[list[str]] | None = None
    again: Life | None = None
    recorded_at_end: list[list[str]] | None = None
    fork: Life | None = None
    fork_recorded_at_end: list[list[str]] | None = None
    effects: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    boundaries: int = 0
    not_offered: str = ""

    @property
    def was_killed(self) -> bool:
        return self.first.ended == "killed"

    @property
    def was_disturbed(self) -> bool:
        """An undisturbed run proves nothing about disturbances."""
        return self.first.ended in ("killed", "frozen") or self.kind in ("failed", "parallel")

    @classmethod
    def read(cls, text: str) -> Self:
        values: dict[str, Any] = json.loads(text)
        for name in ("first", "again", "fork"):
            values[name] = Life(**values[name]) if values[name] else None
        return cls(**values)

    def text(self) -> str:
        return json.dumps(asdict(self))
