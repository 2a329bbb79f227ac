"""The image: hashed parts, no root, nothing written but to /data, and a worker that hears SIGTERM. Its build steps run here."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from dockerfile_parse import DockerfileParser  # type: ignore[import-untyped]

from tests.deploy.files import DEPLOY, ROOT, wrong_command, wrong_settings


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("image")
    shutil.copy(DEPLOY / "Dockerfile", folder / "Dockerfile")
    found: list[dict[str, Any]] = DockerfileParser(str(folder)).structure
    return [line for line in found if line["instruction"] != "COMMENT"]


def of(lines: list[dict[str, Any]], instruction: str) -> list[str]:
    return [line["value"] for line in lines if line["instruction"] == instruction]


def last_stage(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    begin = max(number for number, line in enumerate(lines) if line["instruction"] == "FROM")
    return lines[begin:]


def test_it_is_built_in_one_stage_and_run_in_another(lines: list[dict[str, Any]]) -> None:
    assert of(lines, "FROM") == ["${PYTHON} AS builder", "${PYTHON} AS runtime"]
    assert of(lines, "ARG")[0].startswith("PYTHON=python:3.")
    assert of(last_stage(lines), "COPY") == ["--from=builder /opt/cortex /opt/cortex"]


def test_everything_that_is_fetched_is_checked_by_its_hash(lines: list[dict[str, Any]]) -> None:
    fetching = [run for run in of(lines, "RUN") if "pip install" in run or "pip wheel" in run]

    unchecked = [run for run in fetching if not {"--require-hashes", "--no-index", "--no-build-isolation"} & set(run.split())]

    assert len(fetching) == 4
    assert unchecked == []


def test_the_lock_for_building_has_what_the_build_requires() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    locked = set(re.findall(r"(?m)^([a-z0-9.-]+)==", (ROOT / "requirements-build.lock").read_text()))

    missing = {re.split(r"[=<>~! ]", name.lower())[0] for name in required} - locked

    assert missing == set(), "add it to the group build in pyproject.toml, then make lock"


def test_it_runs_as_nobody_in_particular_and_writes_to_data_alone(lines: list[dict[str, Any]]) -> None:
    stage = last_stage(lines)

    assert of(stage, "USER") == ["10001:10001"]
    assert of(stage, "VOLUME") == ["/data"]
    assert "--uid 10001" in of(stage, "RUN")[0]
    assert "CORTEX_DATA_DIR=/data/files" in of(stage, "ENV")[0]
    assert "CORTEX_DATABASE_URL=sqlite:////data/cortex.db" in of(stage, "ENV")[0]


def test_it_stops_by_sigterm_and_says_how_it_is(lines: list[dict[str, Any]]) -> None:
    stage = last_stage(lines)

    assert of(stage, "STOPSIGNAL") == ["SIGTERM"]
    assert of(stage, "ENTRYPOINT") == ['["cortex"]']  # Not through a shell, which would keep the signal to itself.
    assert of(stage, "HEALTHCHECK")[0].endswith('CMD ["cortex", "doctor"]')
    assert wrong_command(["doctor"]) == ""
    assert wrong_settings(set(re.findall(r"CORTEX_\w+", of(stage, "ENV")[0]))) == set()


def test_what_is_copied_exists_and_is_let_through(lines: list[dict[str, Any]]) -> None:
    sources = [word for copy in of(lines, "COPY") if "--from" not in copy for word in copy.split()[:-1]]
    let_through = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()

    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if f"!{source}" not in let_through] == []


@pytest.mark.skipif(find_spec("pip") is None, reason="this environment has no pip to build the wheel with")
def test_its_own_steps_build_a_wheel_that_has_everything(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    sources = [word for copy in of(lines, "COPY")[1:3] for word in copy.split()[:-1]]
    for source in sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, tmp_path)
    (step,) = [run for run in of(lines, "RUN") if "pip wheel" in run]

    subprocess.run(step.replace("python", sys.executable, 1).split(), cwd=tmp_path, check=True, capture_output=True)

    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "cortex_plane").rglob("*")
        if path.suffix in (".py", ".sql", ".txt", ".html", ".css")
    }
    assert wanted - names == set()
    assert not any(name.startswith("tests/") for name in names)
