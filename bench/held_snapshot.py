"""`python -m bench.held_snapshot`: drains while another session holds an old snapshot, beside PgQueuer.

Each system submits and drains the same number of jobs, round after round, on a server of its own. Before the first round somebody
begins a transaction and forgets it, so nothing that is deleted from then on can leave an index. With a system's name and an
order as arguments, this is the measured process. Cortex Plane also drains jobs with serial keys; `serial` as the only argument
does that alone.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import Any

from bench.order import Order, tell

ROUNDS = 6
JOBS = 10_000
SUBMITTED_AT_ONCE = 1_000
BATCH_SIZE = 100
SERIAL = ((8_000, 8_000), (10, 1_000))
"""Keys, and jobs of each round: many keys with few jobs each, and few with many."""


async def drain_again_and_again(system: Any, order: Order) -> None:
    await system.install()
    await system.start_worker(lambda at: None)
    for _ in range(order.options["rounds"]):
        began_at = time.perf_counter()
        for _ in range(order.jobs // SUBMITTED_AT_ONCE):
            await system.submit_batch(SUBMITTED_AT_ONCE)
        while await system.remaining():  # noqa: ASYNC110 - Neither system tells when it has nothing left.
            await asyncio.sleep(0.02)
        tell("rate", order.jobs / (time.perf_counter() - began_at))
    await system.stop_worker()


def measured_process(name: str, order: Order) -> None:
    if name == "cortex":
        import structlog

        from bench.drivers.cortex import CortexPlane
        from cortex_plane.event_loop import run

        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
        run(drain_again_and_again(CortexPlane(order), order))
    else:
        import logging

        import uvloop

        from bench.drivers.pgqueuer import PgQueuerSystem

        logging.disable(logging.CRITICAL)
        uvloop.run(drain_again_and_again(PgQueuerSystem(order), order))


@contextmanager
def held_snapshot(url: str) -> Any:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select 1 from pg_class limit 1")
        yield


def measure(name: str, python: str, held: bool, jobs: int = JOBS, serial_keys: int = 0) -> list[float]:
    from contextlib import nullcontext

    from bench.places import durable_cluster, fresh_database

    with durable_cluster() as cluster, fresh_database(cluster) as url:
        order = Order(url, jobs, 0, options={"rounds": ROUNDS, "batch_size": BATCH_SIZE, "serial_keys": serial_keys})
        with held_snapshot(url) if held else nullcontext():
            done = subprocess.run(
                [python, "-m", "bench.held_snapshot", name, order.text()], check=True, stdout=subprocess.PIPE, text=True
            )
    return [json.loads(line)["value"] for line in done.stdout.splitlines()]


def show(label: str, held: bool, rates: list[float]) -> None:
    label += ", a snapshot is held" if held else ", nobody holds a snapshot"
    print(f"{label:<70}" + "".join(f"{rate:>8,.0f}" for rate in rates), flush=True)


def main(only: str | None = None) -> None:
    from bench.systems import PEERS_PYTHON

    systems = [("cortex", sys.executable)] + ([("pgqueuer", str(PEERS_PYTHON))] if PEERS_PYTHON.exists() else [])
    print(f"Jobs each second, submitted and drained, in {ROUNDS} rounds, of {JOBS:,} if nothing else is said")
    for name, python in systems if only is None else ():
        for held in (False, True):
            show(name, held, measure(name, python, held))
    for keys, jobs in SERIAL:
        for held in (False, True):
            rates = measure("cortex", sys.executable, held, jobs, keys)
            show(f"cortex, rounds of {jobs:,} over {keys:,} serial keys", held, rates)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        measured_process(sys.argv[1], Order(**json.loads(sys.argv[2])))
    else:
        main(*sys.argv[1:])
