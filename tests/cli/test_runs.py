"""`cortex runs`: one line for each execution, and one with everything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Plane
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]

LIST = """\
ID  STATUS  JOB  TRY  AGE  TOOK  WORKER OR ERROR
<id>  ✗ FAILED  <id>  2 <span> <span>  not today
<id>  ✗ FAILED  <id>  1 <span> <span>  not today
<id>  ✓ COMPLETED  <id>  1 <span> <span>  desk

To look at one:  cortex runs show ID --database-url <url>
"""

ONE = """\
Run <id> ✗ FAILED
  job  <id>
  attempt  1
  worker  desk  <id>
  started  <time> UTC, <ago>
  ended  <time> UTC, <ago>
  took <span>

Payload
  {}

Error
  ValueError: not today
  Traceback (most recent call last):
    File "<file>", line <n>, in flaky
      raise ValueError("not today")
  ValueError: not today

To see its job:  cortex jobs show <id> --database-url <url>
"""


@pytest.fixture
def url(database_url: str, run_in: RunIn) -> str:
    async def fill(plane: Plane) -> None:
        await plane.submit("greet", {"name": "Ada"})
        await plane.submit("flaky")
        await plane.run_worker(until_idle=True, name="desk")

    run_in(database_url, fill)
    return database_url


def runs_of(cortex: Cortex, url: str, *words: str) -> list[dict[str, Any]]:
    result = cortex("runs", "list", *words, "--json", "--database-url", url)
    assert result.code == 0, result.err
    found: list[dict[str, Any]] = json.loads(result.out)["runs"]
    return found


def test_runs_are_listed_newest_job_first(cortex: Cortex, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    result = cortex("runs", "list", "--database-url", url)

    assert (result.code, result.err) == (0, "")
    assert result.shown.replace(url, "<url>") == LIST


def test_runs_are_narrowed_by_job_status_and_worker(cortex: Cortex, url: str) -> None:
    [completed] = runs_of(cortex, url, "--status", "completed")

    assert [run["attempt"] for run in runs_of(cortex, url, "--status", "failed")] == [2, 1]
    assert runs_of(cortex, url, "--job", completed["job_id"]) == [completed]
    assert len(runs_of(cortex, url, "--worker", "desk")) == 3
    assert len(runs_of(cortex, url, "--worker", completed["worker_id"], "--limit", "2")) == 2
    assert cortex("runs", "list", "--status", "running", "--database-url", url).out == "No run fits.\n"


def test_one_run_is_shown_with_everything(cortex: Cortex, url: str) -> None:
    run = runs_of(cortex, url, "--status", "failed")[-1]

    result = cortex("runs", "show", run["id"], "--database-url", url)

    assert (result.code, result.err) == (0, "")
    shown = re.sub(r'File "[^"]+", line \d+', 'File "<file>", line <n>', result.shown.replace(url, "<url>"))
    assert re.sub(r"\n +[~^]+(?=\n)", "", shown) == ONE
    assert json.loads(cortex("runs", "show", run["id"], "--json", "--database-url", url).out) == {"run": run}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["list", "--status", "faild"], 2, 'Did you mean "failed"?'),
        (["list", "--limit", "0"], 2, "--limit must be from 1 to 1000, not 0."),
        (["list", "--worker", "nobody"], 3, "There is no worker nobody."),
        (["list", "--job", "01234567"], 3, "There is no job 01234567."),
        (["show", "01234567"], 3, "name its job too: --job ID"),
        (["show", "newest"], 2, "is not the id of a run"),
    ],
)
def test_what_does_not_exist_is_said(cortex: Cortex, url: str, words: list[str], code: int, message: str) -> None:
    result = cortex("runs", *words, "--database-url", url)

    assert (result.code, result.out) == (code, "")
    assert message in result.err
