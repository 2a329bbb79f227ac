"""The API is as it describes itself: requests made from its description, good and bad, on both stores. A short round."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cortex_plane import Plane, Settings

SERVER = "import sys; from cortex_plane.adapters.cli.main import main; sys.exit(main())"
CASES = 5

# What is well-formed may still be refused: a cursor of another list, a step that is not there, 5.0 where 5 is meant.
UNSUITED = "positive_data_acceptance"
# Streams do not end while their job goes on.
LEFT_OUT = ["/api/v1/jobs/{job_id}/events"]


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The real thing in a process of its own, and a key of an admin of everything."""
    plane = Plane(settings=Settings(database_url=database_url)).sync
    key = plane.run(plane.plane.access.add_key("test", ["admin", "approver"])).secret
    plane.close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-c", SERVER, "serve", "--port", str(port), "--database-url", database_url]
    quiet = {**os.environ, "CORTEX_LOG_LEVEL": "error"}  # A full pipe that nobody reads would stop the server.
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=quiet) as process:
        assert process.stderr is not None
        process.stderr.readline()
        yield f"http://127.0.0.1:{port}", key
        process.terminate()
        process.stderr.read()


@pytest.mark.timeout(120)
def test_the_api_is_as_it_describes_itself(server: tuple[str, str], tmp_path: Path) -> None:
    address, key = server
    assert httpx.get(f"{address}/healthz", timeout=30).status_code == 200
    words = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{address}/openapi.json", "--header"]
    words += [f"Authorization: Bearer {key}", "--max-examples", str(CASES), "--phases", "examples,fuzzing"]
    words += ["--exclude-checks", UNSUITED, "--seed", "1", "--no-color"]
    for path in LEFT_OUT:
        words += ["--exclude-path", path]

    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
