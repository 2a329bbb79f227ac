"""`cortex jobs show`: everything that is known about one job."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Plane
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]

COMPLETED = """\
Job <id> ✓ COMPLETED
  agent  greet
  queue  default, priority 5
  created  <time> UTC, <ago>
  by  ada
  started  <time> UTC, <ago>
  finished  <time> UTC, <ago>
  tries  1 (0 of 3 retries used)
  serial key  ada
  tags  a, b

Payload
  {"name": "Ada"}

Output
  "Hello, Ada!"

Runs
  TRY  STATUS  BEGAN  TOOK  EXIT  ERROR
    1  ✓ COMPLETED  <clock> <span>

History
  TIME  STATUS  BY  WHAT HAPPENED
  <clock>  ○ PENDING  ada  submitted
  <clock> <span>  ▶ RUNNING  worker <name>  attempt 1 begins
  <clock> <span>  ✓ COMPLETED  worker <name>  done after <span>
"""

FAILED = """\
Job <id> ✗ FAILED
  agent  flaky
  queue  default
  created  <time> UTC, <ago>
  started  <time> UTC, <ago>
  finished  <time> UTC, <ago>
  tries  2 (1 of 1 retries used)

Payload
  {}

Error
  ValueError: not today
  Traceback (most recent call last):
    File "<file>", line <n>, in flaky
      raise ValueError("not today")
  ValueError: not today

Runs
  TRY  STATUS  BEGAN  TOOK  EXIT  ERROR
    1  ✗ FAILED  <clock> <span>  not today
    2  ✗ FAILED  <clock> <span>  not today

History
  TIME  STATUS  BY  WHAT HAPPENED
  <clock>  ○ PENDING  submitted
  <clock> <span>  ▶ RUNNING  worker <name>  attempt 1 begins
  <clock> <span>  ↻ RETRY  worker <name>  failed, next try in <span>: not today
  <clock> <span>  ▶ RUNNING  worker <name>  attempt 2 begins
  <clock> <span>  ✗ FAILED  worker <name>  failed, no retries are left: not today
"""


@pytest.fixture
def jobs(database_url: str, run_in: RunIn) -> dict[str, str]:
    async def fill(plane: Plane) -> dict[str, str]:
        greeted = await plane.submit("greet", {"name": "Ada"}, priority=5, serial_key="ada", tags=["a", "b"], created_by="ada")
        failed = await plane.submit("flaky")
        await plane.run_worker(until_idle=True)
        return {"greet": greeted.id, "flaky": failed.id}

    found: dict[str, str] = run_in(database_url, fill)
    return found


def test_a_completed_job_is_shown_with_its_data_runs_and_history(cortex: Cortex, database_url: str, jobs: dict[str, str]) -> None:
    result = cortex("jobs", "show", jobs["greet"], "--database-url", database_url)

    assert (result.code, result.err) == (0, "")
    assert result.shown == COMPLETED


def test_a_failed_job_is_shown_with_the_agents_own_traceback(cortex: Cortex, database_url: str, jobs: dict[str, str]) -> None:
    import re

    result = cortex("jobs", "show", jobs["flaky"], "--database-url", database_url)

    shown = re.sub(r'File "[^"]+", line \d+', 'File "<file>", line <n>', result.shown)
    shown = re.sub(r"\n +[~^]+(?=\n)", "", shown)
    assert shown == FAILED


def test_the_first_part_of_an_id_is_enough(cortex: Cortex, database_url: str, jobs: dict[str, str]) -> None:
    result = cortex("jobs", "show", jobs["greet"][:23], "--json", "--database-url", database_url)

    assert json.loads(result.out)["job"]["id"] == jobs["greet"]


def test_json_holds_the_job_its_runs_and_its_history(cortex: Cortex, database_url: str, jobs: dict[str, str]) -> None:
    document = json.loads(cortex("jobs", "show", jobs["flaky"], "--json", "--database-url", database_url).out)

    assert document["job"]["error"]["type"] == "ValueError"
    assert 'raise ValueError("not today")' in document["job"]["error"]["traceback"]
    assert [run["status"] for run in document["runs"]] == ["FAILED", "FAILED"]
    assert [entry["new_status"] for entry in document["history"]] == ["PENDING", "RUNNING", "RETRY", "RUNNING", "FAILED"]
    assert document["job"]["created_at"].endswith("+00:00")


@pytest.mark.parametrize(
    ("job_id", "code", "message"),
    [
        ("01234567-0000-7000-8000-000000000000", 3, "There is no job 01234567-0000-7000-8000-000000000000."),
        ("abcd", 3, "There is no job abcd."),
        ("xyz", 2, "'xyz' is not a job id, nor the first four or more characters of one."),
    ],
)
def test_a_wrong_id_is_refused(
    cortex: Cortex, database_url: str, jobs: dict[str, str], job_id: str, code: int, message: str
) -> None:
    result = cortex("jobs", "show", job_id, "--database-url", database_url)

    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"Error: {message}")


def test_an_ambiguous_id_names_some_that_fit(cortex: Cortex, database_url: str, jobs: dict[str, str]) -> None:
    result = cortex("jobs", "show", jobs["greet"][:4], "--database-url", database_url)

    assert result.code == 2
    assert jobs["greet"] in result.err
    assert jobs["flaky"] in result.err


def test_text_from_outside_cannot_steer_the_terminal(cortex: Cortex, folder: Path, run_in: RunIn) -> None:
    url = f"sqlite:///{folder}/x.db"

    async def nasty(plane: Plane) -> str:
        job = await plane.submit("greet", {"name": "\x1b[2J\u009b2J [red]"}, tags=["\x1b]0;owned\x07"])
        await plane.jobs.cancel(job.id, reason="[bold]\x1b[31m")
        return str(job.id)

    result = cortex("jobs", "show", run_in(url, nasty), "--database-url", url)

    assert not set(result.out) & {"\x1b", "\x07", "\u009b"}
    assert "[bold]\\x1b[31m" in result.out
    assert "[red]" in result.out
