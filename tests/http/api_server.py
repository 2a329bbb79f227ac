"""A real server with agents and some of everything, for programs that try out an API by its description."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

from cortex_plane import Context, Plane, Settings
from cortex_plane.jobs.fields import Submission
from cortex_plane.people.tenants import add_tenant

SERVER = "import sys; from cortex_plane.cli.main import main; sys.exit(main())"
PASSWORD = "correct horse battery staple"


@contextmanager
def serving(database_url: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Its address, and the key of an admin of everything."""
    plane = Plane(settings=Settings(database_url=database_url))
    sync = plane.sync
    key = sync.run(_furnish(plane))
    sync.close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-c", SERVER, "serve", "--port", str(port), "--database-url", database_url]
    quiet = {**os.environ, "CORTEX_LOG_LEVEL": "error"}  # A full pipe that nobody reads would stop the server.
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True, env=quiet) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        while not _answers(port):
            assert process.poll() is None, said + process.stderr.read()
        yield f"http://127.0.0.1:{port}", key
        process.terminate()
        process.stderr.read()


def _answers(port: int) -> bool:
    """Its first line may come before it listens."""
    try:
        socket.create_connection(("127.0.0.1", port), 0.1).close()
    except OSError:
        sleep(0.02)
        return False
    return True


async def _furnish(plane: Plane) -> str:
    @plane.agent("release-bot")
    async def release(ctx: Context, version: str = "1", group: dict[str, Any] | None = None) -> str:
        return await ctx.step("build", "built ".__add__, version)

    @plane.agent("fail")
    async def fail(ctx: Context) -> None:
        raise ValueError("no")

    await plane.submit_many([Submission("release-bot", {"version": str(number)}) for number in range(3)])
    await plane.submit("fail", max_retries=0)
    await plane.run_worker(until_idle=True)
    await plane.submit_many([Submission("release-bot", {"version": str(number)}, delay=3_600) for number in range(3)])
    await plane.groups.submit([Submission("release-bot", delay=3_600), Submission("release-bot", delay=3_600)])
    await plane.templates.save("nightly", "release-bot")
    await plane.webhooks.add("https://example.com/hook")
    await plane.access.add_user("ada")
    await plane.access.set_password("ada", PASSWORD)
    await plane.access.give_role("ada", "operator")
    await plane.retention.add(86_400 * 365, agent="fail")
    await add_tenant(plane.store, plane._ids, "acme")
    return (await plane.access.add_key("test", ["admin", "approver"])).secret
