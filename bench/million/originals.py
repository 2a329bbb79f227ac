"""The jobs that are copied. They were really run, so their copies look as the product leaves its rows."""

from __future__ import annotations

import asyncio
import logging

import structlog

from bench.million.columns import earlier
from bench.million.load import Load
from cortex_plane import Context, Plane

FINISHED = 1_000
LATER = 100
COPIES = 999

ALL_FINISHED = FINISHED * (COPIES + 1)
ALL_LATER = LATER * (COPIES + 1)


async def run_originals(database_url: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    plane = Plane(database_url)

    @plane.agent("noop")
    async def noop(ctx: Context, at: float) -> None: ...

    async with plane:
        await plane.submit_many([noop.submission(at=0.0)] * FINISHED)
        await plane.submit_many([noop.options(delay=86_400.0).submission(at=0.0)] * LATER)
        await plane.run_worker(concurrency=FINISHED, until_idle=True)


FINISHED_AND_LATER = Load(run_originals, ("job", "job_run", "job_history", "queue_entry"), COPIES, earlier)


async def prepare(database_url: str) -> None:
    """Tables with nothing in them."""
    async with Plane(database_url):
        pass


def check_copy(database_url: str, job_id: str) -> None:
    """The product itself reads a copy as it reads any other job."""
    asyncio.run(_check_copy(database_url, job_id))


async def _check_copy(database_url: str, job_id: str) -> None:
    async with Plane(database_url) as plane:
        job, history, runs = await plane.jobs.get(job_id), await plane.jobs.history(job_id), await plane.jobs.runs(job_id)
    assert job.status == "COMPLETED", job
    assert [entry.new_status for entry in history] == ["PENDING", "RUNNING", "COMPLETED"], history
    assert [run.status for run in runs] == ["COMPLETED"], runs
    assert history[-1].run_id == runs[0].id, (history, runs)
