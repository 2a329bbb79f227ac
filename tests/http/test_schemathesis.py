"""The API is as it describes itself: requests made from its description, good and bad, on both stores, all checks.

In the suite a short round, the phases shared between the stores. `make schemathesis` runs all of them on both, for longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.http.api_server import serving

ROOT = Path(__file__).parents[2]
EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "")
SHORT = {"sqlite": ("examples,coverage", "1"), "postgresql": ("fuzzing,stateful", "2")}
LONG_SECONDS = 3_600

# Streams do not end while their job, or list, goes on.
LEFT_OUT = ["/api/v1/jobs/{job_id}/events", "/api/v1/jobs/events"]


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    with serving(database_url, tmp_path) as served:
        yield served


@pytest.mark.timeout(2 * LONG_SECONDS if EXAMPLES else 180)
def test_the_api_is_as_it_describes_itself(server: tuple[str, str], database_url: str, tmp_path: Path) -> None:
    address, key = server
    assert httpx.get(f"{address}/healthz", timeout=30).status_code == 200
    phases, examples = SHORT[database_url.partition(":")[0]] if not EXAMPLES else ("examples,coverage,fuzzing,stateful", EXAMPLES)
    words = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{address}/openapi.json", "--header"]
    words += [f"Authorization: Bearer {key}", "--phases", phases, "--max-examples", examples, "--workers", "2"]
    # Databases refuse NUL characters, also deep in payloads; our own tests try them.
    words += ["--generation-allow-x00", "false", "--seed", "1", "--no-color"]
    for path in LEFT_OUT:
        words += ["--exclude-path", path]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.http.schemathesis_hooks", "PYTHONPATH": _path()}

    done = subprocess.run(
        words,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS if EXAMPLES else 170,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def _path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
