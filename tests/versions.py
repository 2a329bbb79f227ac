"""Tests what is installed: `python -m tests.versions lowest|newest|core`.

lowest, newest   a part of the tests, with those versions of every dependency
core             tests/architecture/test_light_core.py, with what `pip install cortex-plane` brings today

The environment is made in build/versions. `lowest` takes each package that pyproject.toml names at its floor, as uv's
`--resolution lowest-direct` does; what those packages need themselves is taken as new as they allow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "versions"
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
EXTRAS = ("server", "email", "otel")

TESTS = (
    "tests/adapters",
    "tests/built_in/test_email.py",
    "tests/cli/test_apps.py",
    "tests/cli/test_errors.py",
    "tests/cli/test_help.py",
    "tests/cli/test_keys_and_serve.py",
    "tests/cli/test_list.py",
    "tests/cli/test_logs.py",
    "tests/cli/test_server_jobs.py",
    "tests/cli/test_show.py",
    "tests/cli/test_submit.py",
    "tests/cli/test_usage.py",
    "tests/cli/test_worker.py",
    "tests/contract/test_approvals.py",
    "tests/contract/test_checkpoints.py",
    "tests/contract/test_claim.py",
    "tests/contract/test_events.py",
    "tests/contract/test_finish.py",
    "tests/contract/test_submit.py",
    "tests/core/test_json_round_trip.py",
    "tests/core/test_normal_json.py",
    "tests/dashboard",
    "tests/durable/test_approvals.py",
    "tests/durable/test_steps.py",
    "tests/durable/test_tools.py",
    "tests/durable/test_types.py",
    "tests/durable/test_values.py",
    "tests/http/test_events.py",
    "tests/http/test_execution.py",
    "tests/http/test_frame.py",
    "tests/http/test_jobs.py",
    "tests/http/test_metrics.py",
    "tests/http/test_nouns.py",
    "tests/http/test_signing_in.py",
    "tests/http/test_who_may.py",
    "tests/operations",
    "tests/runtime/test_arguments.py",
    "tests/runtime/test_traces.py",
)


def main(arguments: Sequence[str]) -> int:
    """More arguments than the resolution are handed to pytest, in place of the list of tests."""
    if arguments == ["core"]:
        return _try_the_core()
    if not arguments or arguments[0] not in RESOLUTIONS:
        print("Usage: python -m tests.versions core, or lowest|newest [TEST ...]", file=sys.stderr)
        return 2
    which, chosen = arguments[0], arguments[1:] or [test for test in TESTS if (ROOT / test).exists()]
    environment = install(which)
    tests = [str(environment / "bin" / "python"), "-m", "pytest", "-n", "2", "--dist", "worksteal", *OPTIONS, *chosen]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode


OPTIONS = (
    "--override-ini=addopts=-q --strict-markers --import-mode=importlib",
    "--override-ini=filterwarnings=default",  # Warnings of packages about each other are not ours to correct.
)


def _try_the_core() -> int:
    environment = FOLDER / "core"
    _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(environment))
    python = environment / "bin" / "python"
    _uv("pip", "install", "--quiet", "--python", str(python), str(ROOT))
    _uv("pip", "list", "--python", str(python))
    test = [sys.executable, "-m", "pytest", "-n", "2", "tests/architecture/test_light_core.py"]
    return subprocess.run(test, cwd=ROOT, check=False, env={**os.environ, "CORTEX_TEST_CORE_PYTHON": str(python)}).returncode


def install(which: str) -> Path:
    """The environment with these versions, made again when they have changed."""
    environment, wanted = FOLDER / which, FOLDER / f"{which}.txt"
    FOLDER.mkdir(parents=True, exist_ok=True)
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    _uv("pip", "compile", "--quiet", "pyproject.toml", *extras, "--python-version", version, "--no-header", "--no-annotate",
        "--resolution", RESOLUTIONS[which], "--output-file", str(wanted), "--upgrade")  # fmt: skip
    _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(environment))
    into = ("pip", "install", "--quiet", "--python", str(environment / "bin" / "python"))
    _uv(*into, "--requirement", str(wanted), "--group", f"{ROOT / 'pyproject.toml'}:tests", "--constraint", str(wanted))
    _uv(*into, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    print(f"With the {which} versions: {' '.join(wanted.read_text().split())}", flush=True)
    return environment


def _uv(*words: str) -> None:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise SystemExit("This needs uv. To install it: pip install uv")
    subprocess.run([uv, *words], cwd=ROOT, check=True, env={**os.environ, "UV_NO_PROGRESS": "1"})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
