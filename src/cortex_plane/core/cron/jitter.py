"""Spreads schedules that are due at the same minute."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256

from cortex_plane.core.instants import instant


def jitter(schedule_id: str, slot: datetime, seconds: float) -> float:
    """From 0 to `seconds`; the same wherever and however often it is asked for, so that a slot has one time."""
    digest = sha256(f"{schedule_id}:{instant(slot)}".encode()).digest()
    return (int.from_bytes(digest[:8]) >> 11) / 2**53 * seconds
