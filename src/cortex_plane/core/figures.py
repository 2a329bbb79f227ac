"""How much there is to do at this moment, in all tenants: what an operator watches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """Jobs of one queue in one state; how long ago the oldest of them was due, or asked for a decision."""

    queue: str
    state: str
    jobs: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Only of what goes on: what has ended is counted by those who end it."""

    waiting: tuple[Waiting, ...]
    running: dict[str, int]
    approvals: tuple[Waiting, ...]
    slots_late: int
    slots_late_seconds: float
    workers_live: int
    gate_open: bool
