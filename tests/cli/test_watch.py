"""`cortex jobs watch` and `submit --wait`: each change as it happens, and an exit code that says how it ended."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Plane
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]

COMPLETED = """\
<clock>  ○ PENDING  submitted
<clock>  ▶ RUNNING  attempt 1 begins
<clock>  ✓ COMPLETED  done after <span>
"Hello, Ada!"
"""

FAILED = """\
<clock>  ○ PENDING  submitted
<clock>  ▶ RUNNING  attempt 1 begins
<clock>  ↻ RETRY  failed, next try in <span>: not today
<clock>  ▶ RUNNING  attempt 2 begins
<clock>  ✗ FAILED  failed, no retries are left: not today
To see why:  cortex jobs show <id> --database-url <url>
"""

CANCELLED = """\
<clock>  ○ PENDING  submitted
<clock>  ⊘ CANCELLED  cancelled: wrong version
"""


@pytest.fixture
def jobs(database_url: str, run_in: RunIn) -> dict[str, str]:
    async def fill(plane: Plane) -> dict[str, str]:
        greeted, failed = await plane.submit("greet", {"name": "Ada"}), await plane.submit("flaky")
        cancelled = await plane.submit("greet")
        await plane.jobs.cancel(cancelled.id, reason="wrong version")
        await plane.run_worker(until_idle=True)
        return {"completed": greeted.id, "failed": failed.id, "cancelled": cancelled.id}

    found: dict[str, str] = run_in(database_url, fill)
    return found


@pytest.mark.parametrize(
    ("ending", "code", "lines"), [("completed", 0, COMPLETED), ("failed", 7, FAILED), ("cancelled", 7, CANCELLED)]
)
def test_a_job_that_has_ended_is_told_from_the_start(
    cortex: Cortex, database_url: str, jobs: dict[str, str], ending: str, code: int, lines: str
) -> None:
    result = cortex("jobs", "watch", jobs[ending], "--database-url", database_url)

    assert (result.code, result.err) == (code, "")
    assert result.shown.replace(database_url, "<url>") == lines


def test_json_is_one_event_on_each_line_and_at_last_the_end(cortex: Cortex, database_url: str, jobs: dict[str, str]) -> None:
    result = cortex("jobs", "watch", jobs["failed"], "--json", "--database-url", database_url)

    lines = [json.loads(line) for line in result.out.splitlines()]
    assert result.code == 7
    assert [line["type"] for line in lines] == ["state"] * 5 + ["ended"]
    assert [line["position"] for line in lines] == ["1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0", "5.0.0"]
    assert (lines[-1]["status"], lines[-1]["error_message"]) == ("FAILED", "not today")


def test_changes_are_told_as_they_happen(cortex: Cortex, database_url: str, run_in: RunIn) -> None:
    """The worker begins only after the watcher has told that the job is pending."""
    watching = threading.Event()
    job_id = run_in(database_url, _submitted)
    worker = threading.Thread(target=lambda: (watching.wait(20), run_in(database_url, _work)))
    worker.start()

    from cortex_plane.jobs.cli_watch import Lines

    told = Lines.waiting

    def tell(self: Lines, job: Any) -> None:
        told(self, job)
        watching.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lines, "waiting", tell)
        result = cortex("jobs", "watch", job_id, "--database-url", database_url)
    worker.join()

    assert result.code == 0
    assert result.shown == COMPLETED


async def _submitted(plane: Plane) -> str:
    return str((await plane.submit("greet", {"name": "Ada"})).id)


async def _work(plane: Plane) -> None:
    await plane.run_worker(until_idle=True)


def test_submit_and_wait_ends_as_the_job_ends(cortex: Cortex, database_url: str, run_in: RunIn) -> None:
    known, stop = threading.Event(), threading.Event()

    async def work_until_told(plane: Plane) -> None:
        known.set()
        working = asyncio.create_task(plane.run_worker(queues=["default"]))
        await asyncio.to_thread(stop.wait, 30)
        plane.stop_workers()
        await working

    worker = threading.Thread(target=lambda: run_in(database_url, work_until_told))
    worker.start()
    known.wait(20)
    try:
        done = cortex("jobs", "submit", "greet", "name=Ada", "--wait", "--database-url", database_url)
        failed = cortex("jobs", "submit", "hopeless", "--queue", "default", "--wait", "--json", "--database-url", database_url)
    finally:
        stop.set()
        worker.join()

    assert (done.code, done.shown) == (0, f"Submitted greet as <id>\n{COMPLETED}")
    assert failed.code == 7
    assert json.loads(failed.out)["status"] == "FAILED"


def test_an_unknown_job_cannot_be_watched(cortex: Cortex, folder: Path) -> None:
    cortex("db", "upgrade")

    result = cortex("jobs", "watch", "01234567-0000-7000-8000-000000000000")

    assert result.code == 3
    assert result.err == "Error: There is no job 01234567-0000-7000-8000-000000000000. To list jobs: cortex jobs list\n"
