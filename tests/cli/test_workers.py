"""`cortex workers`: who lives, how busy it is, and asking one to leave."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Plane
from cortex_plane.jobs.model import WorkerId
from cortex_plane.worker.model import NewWorker
from tests.cli.conftest import Cortex
from tests.cli.processes import started

RunIn = Callable[..., Any]

LIVING = "0199a8c2-7d1e-7c4f-9a43-3f2b1c0d9e8f"
GONE = "0199b8c2-7d1e-7c4f-9a43-3f2b1c0d9e8f"

LIST = """\
ID  NAME  STATUS  BUSY  HEARD OF  AGE  WORKS ON
<id>  host:1  ● LIVE  0 of 5  <ago> <span>  default, mail: greet
"""
ALL = LIST + "<id>  host:2  ✗ LOST  0 of 1  <ago> <span>  default: greet\n"


@pytest.fixture
def url(database_url: str, run_in: RunIn, monkeypatch: pytest.MonkeyPatch) -> str:
    async def fill(plane: Plane) -> None:
        workers = plane.store.workers
        await workers.register(NewWorker(WorkerId(LIVING), "host:1", ("default", "mail"), ("greet",), 5))
        await workers.register(NewWorker(WorkerId(GONE), "host:2", ("default",), ("greet",), 1))
        await workers.give_up(WorkerId(GONE))

    monkeypatch.setenv("COLUMNS", "160")
    run_in(database_url, fill)
    return database_url


def test_those_that_live_are_listed_and_all_on_demand(cortex: Cortex, url: str) -> None:
    assert cortex("workers", "list", "--database-url", url).shown == LIST
    assert cortex("workers", "list", "--all", "--database-url", url).shown == ALL


def test_one_is_asked_to_leave_once_and_is_shown_as_such(cortex: Cortex, url: str) -> None:
    first = cortex("workers", "drain", "host:1", "--reason", "a new machine", "--database-url", url)
    second = cortex("workers", "drain", LIVING[:8], "--json", "--database-url", url)

    assert (first.code, first.out.splitlines()[0]) == (0, "Asked host:1 to finish what it has, and to end.")
    assert json.loads(second.out) == {"id": LIVING, "name": "host:1", "changed": False}
    assert "◐ DRAINING  0 of 5" in cortex("workers", "list", "--database-url", url).shown
    [shown] = json.loads(cortex("workers", "list", "--json", "--database-url", url).out)["workers"]
    assert (shown["drain_asked_by"], shown["drain_reason"], shown["running"]) == ("cli:ada", "a new machine", 0)
    [record] = json.loads(cortex("audit", "list", "--action", "WORKER_DRAINED", "--json", "--database-url", url).out)["entries"]
    assert (record["entry"]["actor"], record["entry"]["object_id"]) == ("cli:ada", LIVING)


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        ("host:3", 3, "There is no worker host:3. To list workers: cortex workers list"),
        ("host:2", 4, f"Worker host:2 ({GONE}) is LOST. To list running workers: cortex workers list"),
        ("0199", 2, "0199 matches 2 workers"),
    ],
)
def test_what_cannot_be_drained_is_said(cortex: Cortex, url: str, asked: str, code: int, message: str) -> None:
    result = cortex("workers", "drain", asked, "--database-url", url)

    assert (result.code, result.out) == (code, "")
    assert message in result.err


def test_where_nobody_works_it_is_said_what_to_do(cortex: Cortex, folder: Path) -> None:
    cortex("db", "upgrade")

    assert cortex("workers", "list").out == "No worker lives. To start one:  cortex worker APP\n"


APP = """
from cortex_plane import Plane
plane = Plane()

@plane.agent("greet")
async def greet(ctx): return "Hello"
"""


def test_a_worker_process_that_is_drained_says_so_and_ends_with_0(cortex: Cortex, folder: Path) -> None:
    (folder / "app.py").write_text(APP)

    with started("worker", "app.py", folder=folder, CORTEX_LEASE_SECONDS="1") as worker:
        worker.wait_for("worker_started")
        [shown] = json.loads(cortex("workers", "list", "--json").out)["workers"]
        assert cortex("workers", "drain", shown["id"]).code == 0
        code, log = worker.ended()

    assert code == 0, log
    assert "worker_draining" in log
    assert log.endswith("Stopped in order.\n")
