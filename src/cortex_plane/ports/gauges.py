"""What operators watch, asked of the database in a few questions whose cost does not grow with finished work."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.figures import Figures
from cortex_plane.core.jobs import JobId


class Gauges(Protocol):
    async def figures(self) -> Figures: ...

    async def pick_up_seconds(self, job_id: JobId) -> float | None:
        """How long a job was due before its first run began; None when it has not, or is gone."""
