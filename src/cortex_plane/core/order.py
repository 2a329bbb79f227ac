"""The order in which jobs wait: priority, then position, then age, then id. It comes from stored fields alone."""

from __future__ import annotations

from enum import StrEnum

GAP = 100


class Place(StrEnum):
    BEFORE = "before"
    AFTER = "after"
    FRONT = "front"
    BACK = "back"


def between(low: int, high: int) -> int | None:
    """A whole number strictly between two positions, or None when there is none."""
    return (low + high) // 2 if high - low >= 2 else None
