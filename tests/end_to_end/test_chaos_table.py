"""The short version of `make chaos`: after a fault nothing is lost, nothing is done twice, and work goes on soon."""

from __future__ import annotations

import pytest

from tests.end_to_end.chaos.campaign import TRIALS, NotHere, Trial, run

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

JOBS = 60
SOON_SECONDS = 10.0
"""On a busy machine. `make chaos` shows how long it takes; after the death of a worker, from the end of its lease."""
SHORT = (
    "a worker of another host killed (SQLite)",
    "a worker of another host killed (PostgreSQL)",
    "disk full (SQLite)",
    "network cut (PostgreSQL)",
    "server killed (PostgreSQL)",
)


@pytest.mark.parametrize("trial", [trial for trial in TRIALS if trial.name in SHORT], ids=lambda trial: trial.name)
async def test_a_fault_costs_no_job_and_work_goes_on(trial: Trial) -> None:
    try:
        figures = await run(trial, JOBS)
    except NotHere as why:
        pytest.skip(str(why))

    assert (figures.lost, figures.doubled) == (0, 0)
    assert figures.jobs > JOBS
    assert figures.seconds < SOON_SECONDS
