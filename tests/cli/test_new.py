"""`cortex new`: a project whose tests pass and whose agent runs, as it stands there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from cortex_plane.cli.new import FILES, NEXT
from tests.cli.conftest import Cortex
from tests.cli.processes import started

MADE = """\
Created otters with app.py, tests/test_app.py, README.md, pyproject.toml, .gitignore. Next:

  cd otters
  python -m pytest                               one test kills a worker; no work is lost
  cortex worker app.py                           in one terminal; or with a dashboard: cortex dev app.py
  cortex jobs submit report topic=otters --wait  in another
"""


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.timeout(180)
def test_a_new_project_tests_itself_and_completes_a_job_within_a_minute(folder: Path) -> None:
    began = time.monotonic()
    with started("new", "otters", folder=folder) as making:
        assert making.ended()[0] == 0
    project = folder / "otters"

    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"], cwd=project, capture_output=True, text=True, check=False
    )
    with started("worker", "app.py", folder=project) as worker:
        worker.wait_for("worker_started")
        with started("jobs", "submit", "report", "topic=otters", "--wait", folder=project) as job:
            job.wait_for_output("COMPLETED")
            job.wait_for_output("3 lines are out")
            assert job.ended()[0] == 0

    assert "2 passed" in tests.stdout, tests.stdout
    assert time.monotonic() - began < 60


def test_it_tells_what_it_made_and_what_to_type_next(cortex: Cortex, folder: Path) -> None:
    result = cortex("new", "otters")

    assert (result.code, result.out, result.err) == (0, MADE, "")
    assert files_in(folder / "otters") == {*FILES}


def test_json_names_the_files_and_the_next_commands(cortex: Cortex) -> None:
    document = json.loads(cortex("new", "otters", "--json").out)

    assert document["files"] == list(FILES)
    assert document["next"] == ["cd otters", *(command for command, _ in NEXT)]


def test_the_project_has_the_name_and_names_us(cortex: Cortex, folder: Path) -> None:
    cortex("new", "Otters_2.0")

    described = tomllib.loads((folder / "Otters_2.0" / "pyproject.toml").read_text())["project"]
    assert (described["name"], described["dependencies"]) == ("Otters_2.0", ["cortex-plane"])
    assert not any("{{" in (folder / "Otters_2.0" / name).read_text() for name in FILES)


def test_what_git_ignores_is_what_running_it_leaves_behind(cortex: Cortex, folder: Path) -> None:
    cortex("new", "otters")
    project = folder / "otters"
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    for name in ("cortex.db", "cortex.db-wal", "cortex.db-shm", ".cortex/logs/1", "__pycache__/app.pyc"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()

    seen = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=project, capture_output=True, text=True, check=True
    ).stdout

    assert {line[3:] for line in seen.splitlines()} == {*FILES}


def test_an_empty_folder_is_filled(cortex: Cortex, folder: Path) -> None:
    (folder / "otters").mkdir()

    assert cortex("new", "otters").code == 0


def test_a_folder_with_something_in_it_is_left_as_it_is(cortex: Cortex, folder: Path) -> None:
    (folder / "otters").mkdir()
    (folder / "otters" / "mine.txt").write_text("precious")

    result = cortex("new", "otters")

    assert (result.code, result.out) == (4, "")
    assert result.err == "Error: The folder otters is not empty. Choose another name, or empty it first.\n"
    assert files_in(folder / "otters") == {"mine.txt"}


def test_a_file_of_that_name_is_left_as_it_is(cortex: Cortex, folder: Path) -> None:
    (folder / "otters").write_text("precious")

    result = cortex("new", "otters")

    assert (result.code, result.err) == (4, "Error: otters already exists and is not a folder. Choose another name.\n")
    assert (folder / "otters").read_text() == "precious"


UNFIT = ["", ".", "..", "a/b", "../a", "-a", "a b", "a\\nb", "ä", "x" * 101, "cortex-plane", "Cortex_Plane"]


@pytest.mark.parametrize("name", UNFIT)
def test_a_name_that_no_project_can_have_is_refused(cortex: Cortex, folder: Path, name: str) -> None:
    result = cortex("new", "--", name)

    assert (result.code, result.out) == (2, "")
    assert "cannot be the name of a project" in result.err or "the name of this package" in result.err
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_cannot_be_written_is_named(cortex: Cortex, folder: Path) -> None:
    folder.chmod(0o500)

    result = cortex("new", "otters")

    assert result.code == 5
    assert result.err == "Error: otters cannot be written: Permission denied.\n"
