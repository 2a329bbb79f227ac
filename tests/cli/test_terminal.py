"""In a terminal there are colours and a spinner; in a pipe, and with NO_COLOR, there are none."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Plane
from tests.cli.conftest import Cortex
from tests.cli.processes import COMMAND, started

RunIn = Callable[..., Any]


def in_a_terminal(folder: Path, *words: str, until: str = "", **settings: str) -> str:
    """Everything that the terminal got; `until` ends the program once that text was seen."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS"}}
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        env={**environment, "TERM": "xterm-256color", **settings},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = ""
    try:
        while chunk := _read(ours):
            seen += chunk
            if until and until in seen:
                process.send_signal(signal.SIGINT)
                until = ""
        process.wait(20)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return seen


def _read(descriptor: int) -> str:
    try:
        return os.read(descriptor, 65536).decode()
    except OSError:  # Nobody writes to the terminal any more.
        return ""


def test_the_front_page_has_colours_only_in_a_terminal(cortex: Cortex, folder: Path) -> None:
    assert "\x1b[1mCortex Plane\x1b[0m" in in_a_terminal(folder)
    assert "\x1b" not in in_a_terminal(folder, NO_COLOR="1")
    assert "\x1b" not in cortex().out


def test_a_table_has_colours_only_in_a_terminal(cortex: Cortex, folder: Path, run_in: RunIn) -> None:
    url = f"sqlite:///{folder}/x.db"
    run_in(url, lambda plane: plane.submit("greet"))
    words = ("jobs", "list", "--database-url", url)

    assert "\x1b[34m○ PENDING" in in_a_terminal(folder, *words)
    assert "\x1b[3" not in in_a_terminal(folder, *words, NO_COLOR="1")
    assert "\x1b" not in cortex(*words).out


def test_an_error_is_red_only_in_a_terminal(cortex: Cortex, folder: Path) -> None:
    assert "\x1b[1;31mError:\x1b[0m There is no database file" in in_a_terminal(folder, "jobs", "list")
    assert cortex("jobs", "list").err.startswith("Error: There is no database file")


def test_watching_shows_what_is_going_on_and_can_be_left(cortex: Cortex, folder: Path, run_in: RunIn) -> None:
    url = f"sqlite:///{folder}/x.db"

    async def wait_for_ever(plane: Plane) -> str:
        return str((await plane.submit("greet", {}, delay=3600)).id)

    job_id = run_in(url, wait_for_ever)
    seen = in_a_terminal(folder, "jobs", "watch", job_id, "--database-url", url, until="begins in 59 min")

    assert f"The job goes on. To follow it again:  cortex jobs watch {job_id} --database-url {url}" in seen.replace("\r\n", "")
    assert seen.endswith("Interrupted.\r\n")


def test_leaving_a_watch_is_exit_code_130(folder: Path, run_in: RunIn) -> None:
    url = f"sqlite:///{folder}/x.db"
    job_id = run_in(url, _pending)

    with started("jobs", "watch", job_id, "--database-url", url, folder=folder) as watch:
        watch.wait_for_output("PENDING")
        watch.signal(signal.SIGINT)

        assert watch.ended()[0] == 130


async def _pending(plane: Plane) -> str:
    return str((await plane.submit("greet")).id)


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_reader_that_has_gone_is_no_error(folder: Path, run_in: RunIn, form: str) -> None:
    url = f"sqlite:///{folder}/x.db"
    run_in(url, lambda plane: plane.submit("greet"))

    line = " ".join(f"'{word}'" for word in [*COMMAND, "jobs", "list", "--database-url", url])
    done = subprocess.run(["sh", "-c", f"{line} {form} | true"], check=True, capture_output=True, text=True, cwd=folder)

    assert done.stderr == ""


def test_characters_that_a_terminal_cannot_show_do_not_stop_it(folder: Path, run_in: RunIn) -> None:
    url = f"sqlite:///{folder}/x.db"
    run_in(url, lambda plane: plane.submit("greet"))

    done = subprocess.run(
        [*COMMAND, "jobs", "list", "--database-url", url],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "? PENDING" in done.stdout
