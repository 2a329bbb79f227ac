"""Runs one job and notes which functions of the source tree are called: `python probe.py SRC FOLDER` writes FOLDER/called.json.

It is started in a process of its own by `tools.house.life`, so that
it can run the code of another revision. It uses only what every revision has: `Plane`, `agent`, `submit`, `run_worker`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sqlite3
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any


class Recorder:
    """Notes each function of the source tree that is called, in every thread that starts after `install`.

    Code of modules and classes is left out: it runs when they are imported. So are lambdas and comprehensions."""

    def __init__(self, src: str) -> None:
        self.on = False
        self.called: set[tuple[str, str]] = set()
        self._src = src

    def install(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not self.on or event != "call" or not code.co_filename.startswith(self._src):
            return
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
            self.called.add((code.co_filename.removeprefix(self._src), code.co_qualname))


async def double(number: int) -> int:
    return 2 * number


async def run_jobs(database: Path, recorder: Recorder) -> None:
    """Records the second of two jobs: the first opens the database, imports what is imported late, and fills caches."""
    from cortex_plane import Plane

    plane = Plane(f"sqlite:///{database}")

    @plane.agent("probe")
    async def probe(ctx: Any, number: int) -> int:
        doubled = await ctx.step("step", double, number)
        return int(await ctx.tool("tool", double, doubled))

    async with plane:
        await _run_job(plane)
        recorder.on = True
        await _run_job(plane)
        recorder.on = False


async def _run_job(plane: Any) -> None:
    await plane.submit("probe", {"number": 21})
    await plane.run_worker(until_idle=True)


def check_jobs(database: Path) -> None:
    """Looks into the file itself, because the methods that read jobs have other names in other revisions."""
    connection = sqlite3.connect(database)
    found = connection.execute("select status, output from job").fetchall()
    connection.close()
    if found.count(("COMPLETED", "84")) != 2:
        raise SystemExit(f"Two jobs should be completed: {found}")


def main(src: str, folder: str) -> None:
    sys.path.insert(0, src)
    import cortex_plane

    if not str(cortex_plane.__file__).startswith(src):
        raise SystemExit(f"Another source tree was imported: {cortex_plane.__file__}")
    database = Path(folder) / "probe.db"
    recorder = Recorder(src)
    recorder.install()
    asyncio.run(run_jobs(database, recorder))
    check_jobs(database)
    (Path(folder) / "called.json").write_text(json.dumps(sorted(recorder.called)))


if __name__ == "__main__":
    main(*sys.argv[1:])
