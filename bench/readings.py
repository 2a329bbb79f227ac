"""What was measured: every reading of every round, their medians, and the ratios of each round."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

Key = tuple[str, str, str]


class Readings:
    """By store, system and measure. One lucky or disturbed round must not decide, so the round in the middle speaks for all."""

    def __init__(self) -> None:
        self._values: dict[Key, list[float]] = defaultdict(list)

    def add(self, store: str, system: str, measure: str, value: float) -> None:
        self._values[store, system, measure].append(value)

    def has(self, store: str, system: str, measure: str) -> bool:
        return (store, system, measure) in self._values

    def all(self, store: str, system: str, measure: str) -> list[float]:
        return self._values[store, system, measure]

    def typical(self, store: str, system: str, measure: str) -> float:
        return median(self._values[store, system, measure])

    def ratio(self, store: str, measure: str, ours: str, other: str) -> float:
        """How many times better ours is, in the middle of all rounds: within one, whatever disturbs the machine disturbs both."""
        rounds = zip(self.all(store, ours, measure), self.all(store, other, measure), strict=True)
        return median(b / a if measure.startswith("latency") else a / b for a, b in rounds)

    def as_json(self) -> list[dict[str, object]]:
        return [
            {"store": store, "system": system, "measure": measure, "values": [round(value, 3) for value in values]}
            for (store, system, measure), values in self._values.items()
        ]
