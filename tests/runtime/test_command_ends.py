"""A program never outlives its job: it ends with everything that it has started."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Agent, JobFailed, JobStatus, RunStatus
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, is_alive, line_in, process_ends, text_of, working

pytestmark = pytest.mark.anyio

# Starts a child of its own, says who both are, and waits.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
with open(sys.argv[1] + ".tmp", "w") as file:
    print(os.getpid(), child.pid, file=file)
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
time.sleep(120)
"""

# The same, and neither heeds a polite request.
DEAF_FAMILY = FAMILY.replace("import os,", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); import os,").replace(
    '-c", "import time', '-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)'
)


def family(plane: TestPlane, code: str, pids: Path, **options: Any) -> Agent[..., dict[str, Any]]:
    return plane.command("family", [sys.executable, "-c", code, str(pids)], **{"max_retries": 0, **options})


async def members(pids: Path) -> list[int]:
    found = [int(word) for word in (await line_in(pids)).split()]
    assert all(is_alive(pid) for pid in found)
    return found


async def test_cancelling_ends_the_program_and_its_children(plane: TestPlane, tmp_path: Path) -> None:
    job = await family(plane, FAMILY, tmp_path / "pids").submit()

    async with working(plane):
        pids = await members(tmp_path / "pids")
        await job.cancel()
        for pid in pids:
            await process_ends(pid)

    assert await job.status() is JobStatus.CANCELLED


async def test_a_timeout_ends_the_program_and_its_children(plane: TestPlane, tmp_path: Path) -> None:
    program = 'sleep 120 & echo $$ $! > "$1.tmp"; mv "$1.tmp" "$1"; wait'  # A shell is up long before the time is.
    words = ["sh", "-c", program, "family", str(tmp_path / "pids")]
    job = await plane.command("family", words, run_timeout=1.5, max_retries=0).submit()

    async with working(plane):
        pids = await members(tmp_path / "pids")
        with pytest.raises(JobFailed, match="did not finish"):
            await job.result(timeout=PATIENCE_SECONDS)
        for pid in pids:
            await process_ends(pid)

    assert [run.status for run in await job.runs()] == [RunStatus.FAILED]


async def test_a_program_that_ignores_the_request_is_killed_with_its_children(
    plane: TestPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_plane.worker.commands.TERM_SECONDS", 0.3)
    job = await family(plane, DEAF_FAMILY, tmp_path / "pids").submit()

    async with working(plane):
        pids = await members(tmp_path / "pids")
        await job.cancel()
        for pid in pids:
            await process_ends(pid)

    assert await job.status() is JobStatus.CANCELLED


async def test_a_child_that_ignores_the_request_dies_though_its_parent_went_politely(
    plane: TestPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortex_plane.worker.commands.TERM_SECONDS", 0.3)
    code = FAMILY.replace('"import time; time', '"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time')
    job = await family(plane, code, tmp_path / "pids").submit()

    async with working(plane):
        _, child = await members(tmp_path / "pids")
        await job.cancel()
        await process_ends(child)


async def test_stopping_the_worker_ends_the_program_and_the_job_goes_on_elsewhere(plane: TestPlane, tmp_path: Path) -> None:
    job = await family(plane, FAMILY, tmp_path / "pids").submit()

    async with working(plane):
        pids = await members(tmp_path / "pids")
        asyncio.get_running_loop().call_soon(plane.stop_workers)
    for pid in pids:
        await process_ends(pid)

    waiting = await job.job()
    assert (waiting.status, waiting.wait_reason, waiting.retry_count) == (JobStatus.RETRY, "interrupted", 0)
    assert [run.status for run in await job.runs()] == [RunStatus.INTERRUPTED]


async def test_the_log_of_a_program_that_ran_out_of_time_is_found(plane: TestPlane) -> None:
    job = await plane.command("slow", ["sh", "-c", "echo halfway; sleep 60"], run_timeout=1.5, max_retries=0).submit()
    await plane.work()

    (run,) = await job.runs()
    assert run.log_path is not None
    assert text_of(run.log_path) == "halfway\n"
