"""Shows that an installed Cortex Plane works: its command, its version, and a job on SQLite.

`python -I tools/smoke_test.py`, with the Python of the environment that it is installed in. Files go to the present folder.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cortex_plane

COMMAND = Path(sys.executable).with_name("cortex")
AGENT = """
from cortex_plane import Context, Plane

plane = Plane()

async def greet(name: str) -> str:
    return f"Hello, {name}!"

@plane.agent("greeter")
async def greeter(ctx: Context, name: str) -> str:
    return await ctx.step("greet", greet, name)
"""


def main() -> None:
    _check_version()
    asyncio.run(_check_python())
    _check_commands()
    print(f"cortex {version('cortex-plane')} is installed and ran two jobs: one from Python, one by commands.")


def _check_version() -> None:
    assert "site-packages" in str(cortex_plane.__file__), f"this is not an installed package: {cortex_plane.__file__}"
    assert version("cortex-plane") == cortex_plane.__version__
    assert cortex_plane.__version__ in _cortex("--version")


async def _check_python() -> None:
    plane = cortex_plane.Plane("sqlite:///smoke.db")

    @plane.agent("double")
    async def double(ctx: Any, number: int) -> int:
        return int(await ctx.step("double", _double, number))

    async with plane:
        job = await plane.submit("double", {"number": 21})
        await plane.run_worker(until_idle=True)
        assert await job.result(30) == 42


async def _double(number: int) -> int:
    return 2 * number


def _check_commands() -> None:
    """In `cortex.db`, as a newcomer would."""
    Path("agents.py").write_text(AGENT)
    _cortex("worker", "agents.py", "--until-idle")  # Creates the database and registers the agent.
    _cortex("jobs", "submit", "greeter", "name=Ada")
    _cortex("worker", "agents.py", "--until-idle")
    assert "COMPLETED" in _cortex("jobs", "list")


def _cortex(*words: str) -> str:
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"cortex {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


if __name__ == "__main__":
    main()
