"""Runs a page at a time: where a page ends is where the next one begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cortex_plane.core.jobs import JobId, Run, RunId


class RunPlace(NamedTuple):
    """A run's place among all of them, those of the newest jobs first."""

    job_id: JobId
    run_id: RunId


@dataclass(frozen=True, slots=True)
class RunPage:
    """`next_before` is where the next page begins; None when everything was looked at."""

    runs: list[Run]
    next_before: RunPlace | None
