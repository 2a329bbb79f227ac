"""Where a fault happens: workers at work on one database, and what is measured afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cortex_plane import JobStatus, Plane, Submission
from cortex_plane.testing import PostgresCluster
from tests.end_to_end.fleet import Fleet
from tests.end_to_end.inspection import broken_rules, query
from tests.forked import Forked

WORKERS = 3
CONCURRENCY = 4
LEASE_SECONDS = 2.0
PATIENCE_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Figures:
    jobs: int
    lost: int
    """They have not completed, though everything is over."""
    doubled: int
    """Handlers that were called a second time under one run, and jobs that completed twice."""
    seconds: float
    """From the end of the fault until work goes on as before."""


@dataclass(slots=True)
class Ground:
    fleet: Fleet
    jobs: int
    cluster: PostgresCluster | None = None
    workers_url: str | None = None
    """How the workers reach the database, where that is not the usual way."""
    workers_namespace: str | None = None
    """The network in which they are."""
    workers: list[Forked] = field(default_factory=list)
    plane: Plane | None = None

    def start_worker(self, **options: Any) -> Forked:
        straight = self.fleet.url
        self.fleet.url = self.workers_url or straight
        try:
            return self.fleet.start(
                lease_seconds=LEASE_SECONDS,
                concurrency=CONCURRENCY,
                settings={},
                network=self.workers_namespace,
                **options,
            )
        finally:
            self.fleet.url = straight

    async def query(self, sql: str) -> list[tuple[object, ...]]:
        return await query(self.fleet.url, sql)

    async def a_new_job_completes(self) -> None:
        """The sign that work goes on: one that was submitted now, before all others, is done."""
        assert self.plane is not None
        job = await self.plane.submit("steady", priority=1_000)
        await job.result(timeout=PATIENCE_SECONDS)


Fault = Callable[[Ground], Awaitable[Callable[[], Awaitable[None]]]]
"""Does the damage, ends it, and returns what to wait for: the sign of recovery."""


async def suffer(ground: Ground, fault: Fault) -> Figures:
    """Workers work on many short jobs, the fault happens in the middle, and everything is counted when all is done."""
    async with working(ground):
        recovery = await fault(ground)
        ended_at = time.monotonic()
        await recovery()
        seconds = time.monotonic() - ended_at
        await ground.fleet.until(
            "select count(*) = 0 from cortex.job where status not in ('COMPLETED', 'FAILED', 'CANCELLED')", PATIENCE_SECONDS
        )
    return await counted(ground, seconds)


@asynccontextmanager
async def working(ground: Ground) -> AsyncIterator[None]:
    async with ground.fleet.plane(lease_seconds=LEASE_SECONDS) as plane:
        ground.plane = plane
        await plane.submit_many([Submission("steady", {"seconds": 0.05}) for _ in range(ground.jobs)])
        ground.workers = [ground.start_worker() for _ in range(WORKERS)]
        await ground.fleet.until_started(ground.jobs // 10, PATIENCE_SECONDS)
        yield
        for worker in ground.workers:
            worker.terminate()
        for worker in ground.workers:
            await ground.fleet.ends(worker, PATIENCE_SECONDS)


async def counted(ground: Ground, seconds: float) -> Figures:
    [(jobs,)] = await ground.query("select count(*) from cortex.job where queue <> 'cortex'")
    [(done,)] = await ground.query(
        f"select count(*) from cortex.job where queue <> 'cortex' and status = '{JobStatus.COMPLETED}'"
    )
    broken = await broken_rules(ground.fleet.url)
    assert broken == {}, broken
    starts = ground.fleet.starts()
    assert isinstance(jobs, int)
    assert isinstance(done, int)
    return Figures(jobs, jobs - done, len(starts) - len(set(starts)), seconds)


def ground_in(folder: Path, url: str, jobs: int, cluster: PostgresCluster | None = None) -> Ground:
    return Ground(Fleet(url, folder), jobs, cluster)


async def pause(seconds: float) -> None:
    """How long a fault lasts."""
    await asyncio.sleep(seconds)
