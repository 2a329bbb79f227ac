"""A real PgBouncer in front of a test cluster, on a free port. Tests that use it are skipped where it is not installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import pytest

Mode = Literal["transaction", "session"]

NOBODY = 65534
START_SECONDS = 10.0
MISSING = "PgBouncer is not installed. Debian: apt-get install pgbouncer"


@contextmanager
def pgbouncer(server_port: int, mode: Mode, pool_size: int = 5) -> Iterator[PgBouncer]:
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="cortex-pgbouncer-"))
    folder.chmod(0o755)
    bouncer = PgBouncer(_free_port())
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"""
[databases]
* = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {bouncer.port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = {mode}
default_pool_size = {pool_size}
max_client_conn = 500
"""
    )
    process = subprocess.Popen(
        [program, "-q", str(folder / "pgbouncer.ini")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_as_nobody()
    )
    try:
        _wait_for(bouncer.port, process)
        yield bouncer
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


class PgBouncer:
    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, server_url: str) -> str:
        """The same database through the pooler."""
        parts = urlsplit(server_url)
        return urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{self.port}"))


def _as_nobody() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("PgBouncer did not start.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
