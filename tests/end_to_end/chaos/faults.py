"""The faults: what happens to the workers, their database, or the way between them."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import asyncpg

from cortex_plane import Submission
from tests.end_to_end.chaos.ground import CONCURRENCY, Ground, pause
from tests.runtime.helpers import eventually

FAULT_SECONDS = 1.5
SEED = 20260105
Recovery = Callable[[], Awaitable[None]]


async def kill_workers(ground: Ground) -> Recovery:
    """SIGKILL to one worker after the other, each replaced; the last one is not."""
    chance = random.Random(SEED)
    for _ in range(3):
        victim = chance.randrange(len(ground.workers))
        ground.workers[victim].kill()
        await ground.fleet.ends(ground.workers[victim])
        ground.workers[victim] = ground.start_worker()
        await pause(0.3)
    assert ground.plane is not None
    await ground.plane.submit_many([Submission("steady", {"seconds": 2.0}, priority=500) for _ in range(12)])
    last = ground.workers.pop()
    runs = await eventually(partial(_runs_of, ground, last.pid, 3))
    last.kill()
    await ground.fleet.ends(last)

    return partial(_all_taken_up, ground, runs)


async def kill_on_another_host(ground: Ground) -> Recovery:
    """SIGKILL to a worker whose process nobody else can look for: only its lease tells. New work does not wait for that."""
    assert ground.plane is not None
    elsewhere = ground.start_worker(host="elsewhere", queues=["far"])
    await ground.plane.submit_many(
        [Submission("steady", {"seconds": 3.0}, queue="far", priority=500) for _ in range(CONCURRENCY)]
    )
    runs = await eventually(partial(_runs_of, ground, elsewhere.pid, CONCURRENCY))
    ground.workers += [ground.start_worker(queues=["default", "far"]) for _ in range(2)]
    await ground.fleet.until("select count(*) = 6 from cortex.worker")
    elsewhere.kill()
    await ground.fleet.ends(elsewhere)
    await ground.a_new_job_completes()
    [(unseen,)] = await ground.query(f"select count(*) from cortex.job_run where status = 'RUNNING' and id in ({_quoted(runs)})")
    assert unseen == len(runs), "the new job waited for the lease"
    now = "cast(1000000 * unixepoch('subsec') as integer)" if ground.fleet.url.startswith("sqlite") else "cortex.now()"
    await ground.fleet.until(
        f"select status <> 'LIVE' or lease_until <= {now} from cortex.worker where process like '%elsewhere%'"
    )
    return partial(_all_taken_up, ground, runs)


async def _all_taken_up(ground: Ground, runs: list[str]) -> None:
    """All that a dead worker ran runs again, or has ended."""

    async def taken_up() -> bool:
        [(left,)] = await ground.query(
            f"select count(*) from cortex.job_run where status = 'RUNNING' and id in ({_quoted(runs)})"
        )
        [(waits,)] = await ground.query(
            f"select count(*) from cortex.job where id in (select job_id from cortex.job_run where id in ({_quoted(runs)}))"
            " and status in ('PENDING', 'RETRY')"
        )
        return left == 0 and waits == 0

    await eventually(taken_up)


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


async def restart_workers(ground: Ground) -> Recovery:
    """SIGTERM to all, one after the other, each replaced at once."""
    for index, worker in enumerate(ground.workers):
        worker.terminate()
        ground.workers[index] = ground.start_worker()
        await ground.fleet.ends(worker)
    return ground.a_new_job_completes


async def freeze_worker(ground: Ground) -> Recovery:
    """SIGSTOP for longer than its lease: others run its jobs meanwhile, and what it says later changes nothing."""
    victim = ground.workers[0]
    os.kill(victim.pid, signal.SIGSTOP)
    await pause(FAULT_SECONDS + 2.5)
    os.kill(victim.pid, signal.SIGCONT)
    return ground.a_new_job_completes


async def lock_rows(ground: Ground) -> Recovery:
    """Somebody else holds the rows of jobs that wait and of jobs that run."""
    connection = await asyncpg.connect(ground.fleet.url)
    for status in ("PENDING", "RUNNING"):
        await connection.execute("begin")
        await connection.fetch(f"select id from cortex.job where status = '{status}' limit 10 for update skip locked")
        await pause(FAULT_SECONDS)
        await connection.execute("rollback")
    await connection.close()
    return ground.a_new_job_completes


async def terminate_backends(ground: Ground) -> Recovery:
    """An administrator ends every session of the workers, again and again."""
    connection = await asyncpg.connect(ground.fleet.url)
    for _ in range(5):
        await connection.fetch(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
        await pause(0.2)
    await connection.close()
    return ground.a_new_job_completes


async def exhaust_connections(ground: Ground) -> Recovery:
    """No connection is left, and the sessions of the workers are ended too."""
    assert ground.cluster is not None
    taken: list[asyncpg.Connection[asyncpg.Record]] = []
    try:
        while len(taken) < 300:
            taken.append(await asyncpg.connect(ground.cluster.url()))
    except asyncpg.PostgresError:
        pass
    await taken[0].fetch("select pg_terminate_backend(pid) from pg_stat_activity where datname <> current_database()")
    await pause(FAULT_SECONDS)
    for connection in taken:
        await connection.close()
    return ground.a_new_job_completes


async def restart_server(ground: Ground) -> Recovery:
    assert ground.cluster is not None
    ground.cluster.stop()
    await pause(FAULT_SECONDS)
    ground.cluster.start()
    return ground.a_new_job_completes


async def kill_server(ground: Ground) -> Recovery:
    """As a power cut would."""
    assert ground.cluster is not None
    ground.cluster.kill()
    await pause(FAULT_SECONDS)
    ground.cluster.start()
    return ground.a_new_job_completes


async def fill_disk(ground: Ground) -> Recovery:
    """The database lies on a small disk of its own, which something else fills."""
    filler = Path(ground.fleet.url.removeprefix("sqlite:///")).with_name("filler")
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    await pause(FAULT_SECONDS)
    filler.unlink()
    return ground.a_new_job_completes


async def _runs_of(ground: Ground, pid: int, least: int) -> list[str]:
    """The open runs of long jobs of the worker in that process, when there are so many."""
    found = await ground.query(
        "select r.id, w.process from cortex.job_run r join cortex.worker w on w.id = r.worker_id"
        " join cortex.job j on j.id = r.job_id where r.status = 'RUNNING' and j.priority = 500"
    )
    runs = [str(run) for run, process in found if f",{pid}," in str(process)]
    return runs if len(runs) >= least else []
