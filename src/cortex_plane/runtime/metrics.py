"""What this process has counted and measured since it started. Whoever exports figures reads them here."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter

Labels = tuple[tuple[str, str], ...]

BOUNDS: dict[str, tuple[float, ...]] = {
    "run_seconds": (0.005, 0.02, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 7200),
    "pick_up_seconds": (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300),
    "checkpoint_bytes": (1_024, 4_096, 16_384, 65_536, 262_144, 524_288, 1_048_576),
    "http_request_seconds": (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
}

_counts: Counter[tuple[str, Labels]] = Counter()
_histograms: dict[tuple[str, Labels], Histogram] = {}
_lock = threading.Lock()


class Histogram:
    """How many values were up to each bound. Its one writer needs no lock; with two, a value may be lost, and that is all."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def count(name: str, by: int = 1, **labels: str) -> None:
    with _lock:
        _counts[name, tuple(sorted(labels.items()))] += by


def histogram(name: str, **labels: str) -> Histogram:
    """The one of this name and these labels; who measures often keeps it."""
    key = name, tuple(sorted(labels.items()))
    with _lock:
        if key not in _histograms:
            _histograms[key] = Histogram(BOUNDS[name])
        return _histograms[key]


def counted() -> dict[tuple[str, Labels], int]:
    with _lock:
        return dict(_counts)


def measured() -> dict[tuple[str, Labels], Histogram]:
    with _lock:
        return dict(_histograms)
