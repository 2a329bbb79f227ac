"""Several processes on one database: they take turns, all of them, and nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cortex_plane.testing import ManualClock, PostgresCluster
from cortex_plane.wiring import open_store
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

PROCESSES = 10

OPEN = """
import asyncio, sys
from cortex_plane.wiring import open_store

async def main():
    store = open_store(sys.argv[1])
    sys.stdin.readline()
    await store.open()
    status = await store.schema.status()
    print(status.current, len(status.pending))
    await store.close()

print("ready", flush=True)
asyncio.run(main())
"""

WRITE = """
import asyncio, sys, time
from cortex_plane.ids import new_id
from cortex_plane.agents.model import AgentConfig, AgentRecord
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, NewJob
from cortex_plane.wiring import open_store

async def main():
    store = open_store(sys.argv[1])
    await store.open()
    await store.agents.register([AgentRecord(new_id(), "echo", AgentConfig())])
    agent = (await store.agents.list())[0]
    longest = 0.0
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        job = NewJob(new_id(), DEFAULT_TENANT_ID, agent.id, "echo", "default", "{}")
        began = time.monotonic()
        await store.jobs.submit([job])
        longest = max(longest, time.monotonic() - began)
        print(job.id, flush=True)
    await store.close()
    print("longest", longest, flush=True)

asyncio.run(main())
"""


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that has said it is ready and waits for its first line of input."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "ready\n", process.stderr.read() if process.stderr else ""
    return process


def finish_all(processes: list[subprocess.Popen[str]]) -> list[str]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = []
    for process in processes:
        output, errors = process.communicate(timeout=50)
        assert process.returncode == 0, errors
        outputs.append(output)
    return outputs


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/test.db"
        return
    cluster: PostgresCluster = request.getfixturevalue("cluster")
    yield cluster.create_database("test_empty")
    cluster.drop_database("test_empty")


async def test_ten_processes_open_an_empty_database_at_once(empty_url: str) -> None:
    processes = [start(OPEN, empty_url) for _ in range(PROCESSES)]
    outputs = await asyncio.to_thread(finish_all, processes)

    assert len(set(outputs)) == 1
    assert outputs[0].endswith(" 0\n")
    store: Any = open_store(empty_url, ManualClock())
    await store.open()
    assert (await store.schema.status()).pending == ()
    await store.close()


async def test_two_processes_that_write_at_once_take_turns(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/test.db"
    processes = [start(WRITE, url, "150") for _ in range(2)]
    outputs = [output.split() for output in await asyncio.to_thread(finish_all, processes)]

    store: Any = open_store(url, ManualClock())
    await store.open()
    listed = {job.id for job in await store.jobs.list(limit=1000)}
    await store.close()
    assert listed == {job_id for output in outputs for job_id in output[:150]}
    assert len(listed) == 300
    assert max(float(output[-1]) for output in outputs) < 3.0, "nobody is left waiting while others write"


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/test.db"
    process = start(WRITE, url, "100000")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    acknowledged = [process.stdout.readline().strip() for _ in range(100)]
    process.send_signal(signal.SIGKILL)
    acknowledged += process.communicate(timeout=20)[0].split()
    whole = {job_id for job_id in acknowledged if len(job_id) == 36}

    store: Any = open_store(url, ManualClock())
    await store.open()
    scene = Scene(store, ManualClock())
    found = {job.id for job in await store.jobs.list(limit=200_000)}
    depths = await store.queue.depths()
    assert whole <= found
    assert depths == {"default": {"ready": len(found)}}
    assert len(await scene.claim(await scene.worker(), 10)) == 10
    await store.close()


async def test_a_commit_of_another_process_wakes_who_waits_here(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/test.db"
    store: Any = open_store(url, ManualClock())
    await store.open()
    process = start(WRITE, url, "1")
    woken = asyncio.Event()
    store.signals.subscribe(woken, queues=frozenset({"default"}))
    await asyncio.wait_for(woken.wait(), 5)
    woken.clear()

    await asyncio.to_thread(finish_all, [process])
    await asyncio.wait_for(woken.wait(), 5)
    store.signals.unsubscribe(woken)
    await store.close()
