"""The files for the forge and for pre-commit are well-formed, and name versions and commands that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml

from docs.screenshots import chromium
from tools.house.tree import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
HOOKS = ROOT / ".pre-commit-config.yaml"


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    return found


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_workflow_fits_the_forge_s_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_supported_python_meets_every_supported_postgresql(jobs: dict[str, Any], project: dict[str, Any]) -> None:
    classifiers = [re.fullmatch(r".* :: (3\.\d+)", each) for each in project["project"]["classifiers"]]
    pythons = [found[1] for found in classifiers if found]
    page = (ROOT / "docs" / "policy.md").read_text()

    matrix = jobs["test"]["strategy"]["matrix"]

    assert matrix["python"] == jobs["check"]["strategy"]["matrix"]["python"] == pythons
    assert f"| Python | {', '.join(pythons)} |" in page
    assert f"| PostgreSQL | {', '.join(matrix['postgresql'])} |" in page


def test_the_workflow_runs_commands_of_the_makefile(jobs: dict[str, Any]) -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))

    scripts = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    named = set(re.findall(r"make ([a-z-]+)", "\n".join(scripts)))

    assert named == {"check", "test", "coverage", "release"}
    assert named <= targets


def test_hooks_are_local_and_run_the_tools_of_the_environment() -> None:
    repositories = yaml.safe_load(HOOKS.read_text())["repos"]
    makefile = (ROOT / "Makefile").read_text()

    hooks = [hook for repository in repositories for hook in repository["hooks"]]
    tools = [re.match(r"\.venv/bin/([\w-]+)", hook["entry"]) for hook in hooks]

    assert [repository["repo"] for repository in repositories] == ["local"]
    assert all(hook["language"] == "system" for hook in hooks)
    assert [tool[1] for tool in tools if tool and f"$(BIN)/{tool[1]}" not in makefile] == []
    assert len([tool for tool in tools if tool]) == len(hooks)


def test_coverage_is_of_branches_too_and_has_a_threshold(project: dict[str, Any]) -> None:
    settings = project["tool"]["coverage"]

    assert settings["run"]["branch"] is True
    assert settings["report"]["fail_under"] >= 95


def test_a_missing_browser_is_said_and_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*command: object, **options: object) -> None:
        raise AssertionError(f"This was started: {command}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setenv(chromium.SETTING, "")
    monkeypatch.setenv("PATH", "")

    assert chromium.describe() == chromium.MISSING


def test_only_a_person_who_asks_for_it_gets_system_packages() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    asked, _, rest = script.partition('if [ "${CORTEX_CI_INSTALL:-0}" = 1 ]; then')[2].partition("\nfi\n")

    assert "apt-get" in asked
    assert "apt-get" not in rest
    assert "apt-get" not in (ROOT / "Makefile").read_text()
