"""Behind a real PgBouncer, in both modes: workers, the server and every command start, and work goes on under load."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Context, Plane, Settings
from cortex_plane.jobs.fields import Submission
from cortex_plane.testing import PostgresCluster
from cortex_plane.wiring import open_store
from tests.pgbouncer import Mode, pgbouncer

pytestmark = pytest.mark.anyio

CORTEX = str(Path(sys.executable).with_name("cortex"))
JOBS = 300


@pytest.fixture(params=["transaction", "session"])
def mode(request: pytest.FixtureRequest) -> Mode:
    given: Mode = request.param
    return given


@pytest.fixture
def pooled_url(cluster: PostgresCluster, postgres_url: str, mode: Mode) -> Iterator[str]:
    """In session mode each client has a server connection of its own; in transaction mode all share five."""
    with pgbouncer(cluster.port, mode, pool_size=5 if mode == "transaction" else 60) as bouncer:
        yield bouncer.url(postgres_url)


async def test_opening_finds_out_whether_notifications_and_sessions_are_kept(pooled_url: str, mode: Mode) -> None:
    stores: list[Any] = [open_store(pooled_url) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))

    assert {store.signals.pushed for store in stores} == {mode == "session"}
    assert {store.database.bounds_waits for store in stores} == {mode == "session"}
    for store in stores:
        await store.close()


async def test_workers_drain_a_queue_with_steps_and_serial_keys(pooled_url: str) -> None:
    planes = [_plane(pooled_url) for _ in range(3)]
    async with planes[0] as first, planes[1] as second, planes[2] as third:
        await first.submit_many(
            Submission("work", {"number": number}, serial_key=f"key-{number % 7}" if number % 3 == 0 else None)
            for number in range(JOBS)
        )
        await asyncio.wait_for(asyncio.gather(*(plane.run_worker(until_idle=True) for plane in (first, second, third))), 60)
        waiting = [queue.waiting for queue in await first.queues.list() if queue.waiting]

    assert waiting == []
    assert sum(plane.done for plane in planes) == JOBS


class Counting(Plane):
    done = 0


def _plane(url: str) -> Counting:
    plane = Counting(settings=Settings(database_url=url))

    @plane.agent("work")
    async def work(ctx: Context, number: int) -> int:
        await ctx.step("one", asyncio.sleep, 0)
        await ctx.step("two", asyncio.sleep, 0)
        plane.done += 1
        return number

    return plane


COMMANDS = (
    ("jobs", "list"),
    ("queues", "list"),
    ("doctor",),
    ("db", "status"),
    ("workers", "list"),
    ("approvals", "list"),
    ("schedules", "list"),
    ("gate", "status"),
)


@pytest.mark.timeout(240)
def test_commands_that_run_at_the_same_time_all_succeed(pooled_url: str, tmp_path: Path) -> None:
    running = [_start(tmp_path, pooled_url, *command) for command in COMMANDS]
    ended = [
        (command, process.communicate(timeout=120)[1], process.returncode)
        for command, process in zip(COMMANDS, running, strict=True)
    ]

    assert [(command, error) for command, error, code in ended if code != 0] == []


def _start(folder: Path, url: str, *command: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "CORTEX_DATABASE_URL": url}
    return subprocess.Popen(
        [CORTEX, *command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


APP = """
from cortex_plane import Context, Plane

plane = Plane()


@plane.agent("greet")
async def greet(ctx: Context, name: str) -> str:
    return f"Hello {name}"
"""


@pytest.mark.timeout(240)
def test_workers_and_a_server_start_and_work(pooled_url: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    key = _start(tmp_path, pooled_url, "keys", "add", "ops", "--role", "admin")  # `serve` refuses to start for nobody.
    assert (key.communicate(timeout=120)[1], key.returncode) == ("", 0)
    workers = [_start(tmp_path, pooled_url, "worker", "app.py") for _ in range(2)]
    server = _start(tmp_path, pooled_url, "serve", "--port", "0")
    try:
        submitted = [
            _start(tmp_path, pooled_url, "jobs", "submit", "greet", "name=Ada", "--app", "app.py", "--wait") for _ in range(2)
        ]
        ended = [(process.communicate(timeout=120), process.returncode) for process in submitted]
        assert [error for (_, error), code in ended if code != 0] == []
        assert [process.poll() for process in (*workers, server)] == [None] * 3
    finally:
        for process in (*workers, server):
            process.terminate()
        said = [process.communicate(timeout=120)[1] for process in (*workers, server)]
    assert [line for text in said for line in text.splitlines() if "PreparedStatement" in line] == []
