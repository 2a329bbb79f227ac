"""A queue as operators see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cortex_plane.core.controls import Control


@dataclass(frozen=True, slots=True)
class QueueState:
    """`waiting` counts queue entries by state: ready, later, blocked, held."""

    name: str
    waiting: Mapping[str, int]
    running: int
    control: Control
