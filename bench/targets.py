"""What we promise ourselves, each as a ratio to a named peer. More is better in every ratio."""

from __future__ import annotations

from dataclasses import dataclass

from bench.readings import Readings
from bench.systems import HUEY, OURS, PGQUEUER, StoreName


@dataclass(frozen=True, slots=True)
class Target:
    what: str
    measure: str
    store: StoreName
    peer: str
    ratio: float


TARGETS = (
    Target("drain on PostgreSQL", "drain", "PostgreSQL", PGQUEUER, 1.2),
    Target("drain on SQLite", "drain", "SQLite", HUEY, 1.0),
    Target("median pick-up on PostgreSQL", "latency_p50", "PostgreSQL", PGQUEUER, 1.0),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    target: Target
    ratio: float

    @property
    def met(self) -> bool:
        return self.ratio >= self.target.ratio

    def __str__(self) -> str:
        how = "as fast as" if self.target.measure.startswith("latency") else "x"
        outcome = "ok" if self.met else "MISSED"
        return f"{self.target.what}: {self.ratio:.2f} {how} {self.target.peer} (target {self.target.ratio:g}) {outcome}"


def judge(readings: Readings) -> list[Verdict]:
    return [Verdict(target, readings.ratio(target.store, target.measure, OURS, target.peer)) for target in TARGETS]
