"""`python -m bench.guards`: what the triggers that refuse rewriting by raw SQL cost a drain on PostgreSQL.

The same worker drains the same number of jobs with the triggers enabled and disabled, in alternating order.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import time

import asyncpg
import structlog

from cortex_plane import Context, Plane, Submission
from cortex_plane.testing import PostgresCluster

GUARDS = {
    "job_born_so": "job",
    "job_ended_so": "job",
    "job_revision": "job",
    "job_order_fixed": "job",
    "run_no_insert": "job_run",
    "run_closed_by_hand": "job_run",
    "run_params": "job_run",
    "history_no_insert": "job_history",
}
TARGET = 1.05


async def compare(url: str, jobs: int, rounds: int) -> list[float]:
    """For each round, the time with the triggers divided by the time without."""
    plane = Plane(url)

    @plane.agent("noop")
    async def noop(ctx: Context) -> None: ...

    async def drain(*, guarded: bool) -> float:
        for trigger, table in GUARDS.items():
            await connection.execute(f"alter table cortex.{table} {'enable' if guarded else 'disable'} trigger {trigger}")
        await plane.submit_many([Submission("noop")] * jobs)
        begun = time.perf_counter()
        await plane.run_worker(concurrency=200, until_idle=True)
        return time.perf_counter() - begun

    async with plane:
        connection = await asyncpg.connect(url)
        await drain(guarded=True)  # Connections, plans and caches.
        ratios = []
        for number in range(rounds):
            guarded_first = number % 2 == 0
            taken = {guarded: await drain(guarded=guarded) for guarded in (guarded_first, not guarded_first)}
            ratios.append(taken[True] / taken[False])
        await connection.close()
    return ratios


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.guards", description=__doc__)
    parser.add_argument("--jobs", type=int, default=15_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with PostgresCluster() as cluster:
        ratios = asyncio.run(compare(cluster.create_database("guards"), options.jobs, options.rounds))
    median = statistics.median(ratios)
    print(f"guarded / unguarded in {options.rounds} rounds of {options.jobs:,} jobs: median {median:.3f}")
    print(f"single rounds: {min(ratios):.2f} to {max(ratios):.2f}")
    return int(median > TARGET)


if __name__ == "__main__":
    raise SystemExit(main())
