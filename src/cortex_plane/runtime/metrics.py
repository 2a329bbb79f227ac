"""What this process has counted since it started. Whoever exports figures reads them here."""

from __future__ import annotations

import threading
from collections import Counter

Labels = tuple[tuple[str, str], ...]

_counts: Counter[tuple[str, Labels]] = Counter()
_lock = threading.Lock()


def count(name: str, by: int = 1, **labels: str) -> None:
    with _lock:
        _counts[name, tuple(sorted(labels.items()))] += by


def counted() -> dict[tuple[str, Labels], int]:
    with _lock:
        return dict(_counts)
