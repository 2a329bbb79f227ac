"""`cortex dev`: one link to enter, a worker that may be killed, new code when a file changes, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from cortex_plane.cli.dev import folder_of, snapshot
from tests.cli.conftest import Cortex

APP = """
from cortex_plane import Context, Plane

plane = Plane()

@plane.agent("echo")
async def echo(ctx: Context) -> str:
    return "{word}"
"""
PROGRAM = "import sys; from cortex_plane.cli.main import main; sys.exit(main())"


class Dev:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def until(self, words: str) -> str:
        """The next line that has these words."""
        assert self.process.stderr is not None
        seen: list[str] = []
        for line in self.process.stderr:
            seen.append(line)
            if re.search(words, line):
                return line
        raise AssertionError(f"It ended without {words!r}:\n{''.join(seen)}")


@contextmanager
def dev_of(folder: Path) -> Iterator[Dev]:
    words = [sys.executable, "-c", PROGRAM, "dev", "app.py", "--port", "0"]
    environment = {**os.environ, "CORTEX_LOG_JSON": "false"}
    with subprocess.Popen(
        words, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield Dev(process)
        finally:
            process.send_signal(signal.SIGTERM)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.timeout(180)
def test_one_enters_kills_the_worker_changes_the_code_and_stops_everything(folder: Path) -> None:
    (folder / "app.py").write_text(APP.format(word="one"))
    with dev_of(folder) as dev:
        link = dev.until(r"/first\?token=").strip()
        dev.until("Ready for jobs")
        dev.until("worker_started")
        with httpx.Client(base_url=link.partition("/first")[0], follow_redirects=True, timeout=60) as browser:
            home = browser.get(link)
            page = browser.get("/workers").text
            token = page.partition('name="csrf_token" value="')[2].partition('"')[0]
            name = page.partition('name="name" value="')[2].partition('"')[0]
            killed = browser.post("/workers/kill", data={"csrf_token": token, "name": name})
            dev.until("The worker was killed: starting another")
            dev.until("worker_started")
            (folder / "app.py").write_text(APP.format(word="two, which is longer"))
            dev.until("A file changed: restarting the worker")
            dev.until("worker_started")
            (folder / "app.py").write_text("this is not Python")
            dev.until("The worker exited")
            (folder / "app.py").write_text(APP.format(word="three"))
            dev.until("worker_started")
            page = browser.get("/workers").text
        living = int(page.partition('name="name" value="')[2].partition('"')[0].rpartition(":")[2])
        assert is_there(living)
        dev.process.send_signal(signal.SIGTERM)
        dev.until("worker_stopped|Stopped in order")
        assert dev.process.wait(60) == 0

    assert home.status_code == 200
    assert "Overview" in home.text
    assert f"Killed {name} with SIGKILL." in killed.text
    assert not is_there(living)


@pytest.mark.timeout(120)
def test_a_worker_ends_when_the_process_that_started_it_is_killed(folder: Path) -> None:
    (folder / "app.py").write_text(APP.format(word="one"))
    with dev_of(folder) as dev:
        dev.until("worker_started")
        dev.process.kill()
        assert dev.process.wait(30) == -signal.SIGKILL

        assert dev.process.stderr is not None
        rest = dev.process.stderr.read()  # To the end of it: the worker has it open as long as it lives.

    assert "worker_stopped" in rest
    assert rest.endswith("Stopped in order.\n")


@pytest.mark.timeout(120)
def test_what_a_schedule_starts_goes_through_the_server_of_cortex_dev(folder: Path, cortex: Cortex) -> None:
    (folder / "app.py").write_text(APP.format(word="one"))
    with dev_of(folder) as dev:
        address = dev.until(r"/first\?token=").strip().partition("/first")[0]
        dev.until("worker_started")
        assert cortex("schedules", "add", "hourly", "agent:echo", "0 * * * *").code == 0
        assert cortex("schedules", "trigger", "hourly").code == 0
        slots = json.loads(cortex("jobs", "list", "--agent", "cortex.slot", "--json").out)["jobs"]
        assert cortex("jobs", "watch", slots[0]["id"]).code == 0
        [job] = json.loads(cortex("jobs", "list", "--agent", "echo", "--json").out)["jobs"]
        with httpx.Client(base_url=address, timeout=30) as client:
            figures = client.get("/metrics").text
            stranger = client.post("/api/internal/graphs/agent:echo/runs", json={})

    assert job["status"] == "COMPLETED"
    assert STARTED in figures
    assert stranger.status_code == 401


STARTED = 'cortex_http_request_seconds_count{route="/api/internal/graphs/{graph_id:path}/runs"} 1.0'


def test_the_files_of_an_app_are_those_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop" / "__pycache__").mkdir(parents=True)
    (tmp_path / ".venv").mkdir()
    for name in ("shop/agents.py", "shop/notes.txt", "shop/__pycache__/agents.py", ".venv/lib.py", "other.py"):
        (tmp_path / name).write_text("1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert folder_of("shop/agents.py:plane") == tmp_path / "shop"
    assert folder_of("other:plane") == tmp_path
    assert {Path(path).name for path in snapshot(tmp_path)} == {"agents.py", "other.py"}


def test_a_change_of_a_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("1")
    before = snapshot(tmp_path)
    (tmp_path / "app.py").write_text("12")

    assert snapshot(tmp_path) != before
