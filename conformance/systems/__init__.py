"""One module for each system: how its own documentation says that a durable agent is written, started and started again."""

from __future__ import annotations

from typing import Protocol

from conformance.agent import Doings
from conformance.boundaries import Boundaries

Recorded = list[tuple[str, str]]
"""Names and results of the steps that a system has recorded as done, in order."""


class System(Protocol):
    def watch(self, boundaries: Boundaries) -> None:
        """Wraps the driver of the database in this process, so that every commit that writes is a boundary."""

    def prepare(self, database: str) -> None:
        """Creates its tables, and whatever else is there before the program is."""

    def run(self, database: str, doings: Doings) -> list[str]:
        """The program: starts the ten steps, or goes on with them, and returns their results. A restart runs it again."""

    def recorded(self, database: str) -> Recorded:
        """What the system itself says of its progress, without running anything."""

    def ask(self, database: str, doings: Doings) -> list[str]:
        """The program with the two questions, and the person who answers them; returns the answers that the agent got."""

    def pay(self, database: str, doings: Doings) -> list[str]:
        """The program that calls `doings.pay(key)` under an idempotency key of the system's, and repeats it when refused."""

    def resume(self, database: str, doings: Doings) -> list[str]:
        """Goes on with the ten steps after one of them failed for good, by the system's own means."""

    def spread(self, database: str, doings: Doings) -> list[str]:
        """The program that makes the six calls in parallel, and repeats those that are refused by the system's own means."""

    def alter(self, database: str, old: str, new: str) -> bool:
        """Changes a stored result behind the system's back, as a failing disk would; both texts have the same length."""
