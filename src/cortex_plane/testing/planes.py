"""A plane on a throw-away store, with a clock that the test turns and workers that die where the test wants."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cortex_plane.clock import Instant
from cortex_plane.durable.suspension import SleepUntil
from cortex_plane.jobs.model import WorkerId
from cortex_plane.plane import Plane
from cortex_plane.settings import Settings
from cortex_plane.testing.clock import ManualClock
from cortex_plane.testing.crashes import CrashPoint, SimulatedCrash
from cortex_plane.worker.rescue import rescue_runs


class TestPlane(Plane):
    """A plane whose clock is the test's."""

    __test__ = False
    clock: ManualClock

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fault = self._reach
        self.crashes = 0
        self._points: list[CrashPoint] = []
        self._replays = False

    def adopt(self, plane: Plane) -> None:
        """Has the agents of an app too, so that they run here: `cortex_plane.adopt(app.plane)`."""
        self.agents.update(plane.agents)

    async def work(self, **options: Any) -> None:
        """Runs everything that is ready now, to its end. What a crash left behind is rescued first, and goes on."""
        await self.rescue()
        await self.run_worker(until_idle=True, **options)

    async def rescue(self) -> int:
        """Makes the jobs of dead workers ready again, as another worker would; returns how many."""
        return await rescue_runs(self.store, WorkerId(self._ids()), self._ids, self._chance)

    def crash_before(self, name: str, occurrence: int = 1) -> None:
        """The worker dies right before this tool is called, or this step is done: a tool's call is recorded as begun."""
        self._points += [CrashPoint("before_tool", name, occurrence), CrashPoint("before_step", name, occurrence)]

    def crash_in(self, tool: str, occurrence: int = 1) -> None:
        """The worker dies when this tool has taken effect, and before its result is recorded: the call becomes uncertain."""
        self._points.append(CrashPoint("after_tool", tool, occurrence))

    def crash_after(self, name: str, occurrence: int = 1) -> None:
        """The worker dies right after this step, or tool call, is recorded."""
        self._points.append(CrashPoint("after_step", name, occurrence))

    def crash_asking(self, name: str = "approval", occurrence: int = 1) -> None:
        """The worker dies when it is recorded that people are to be asked, and before they are."""
        self._points.append(CrashPoint("asking", name, occurrence))

    def force_replay(self) -> None:
        """From now on a handler is left after each step that it does and called again, so that every step is answered from the
        record at least once: a handler that does not ask for the same each time fails."""
        self._replays = True

    def close_everywhere(self) -> None:
        """Closes it also where the event loop that used it is gone. For fixtures that are not async, on SQLite."""

        self.sync.close()
        with ThreadPoolExecutor(1) as pool:  # The caller's own thread may have an event loop that must not be disturbed.
            pool.submit(asyncio.run, self.store.database.close_all()).result()

    def _reach(self, moment: str, name: str) -> None:
        reached = [point.is_reached(moment, name) for point in self._points]  # Each counts for itself.
        if any(reached):
            self.crashes += 1
            for worker in self._workers:
                worker.die()
            raise SimulatedCrash
        if self._replays and moment == "after_step":
            raise SleepUntil(Instant(0))


@asynccontextmanager
async def throwaway_plane(database_url: str | None = None, **settings: Any) -> AsyncIterator[TestPlane]:
    """On a SQLite file that is deleted afterwards, or on the (empty) database that is named."""
    with tempfile.TemporaryDirectory(prefix="cortex-test-") as folder:
        url = database_url or f"sqlite:///{folder}/test.db"
        defaults = {"database_url": url, "data_dir": str(Path(folder) / "files"), "grace_seconds": 1.0}
        clock = ManualClock()
        plane = TestPlane(settings=Settings(**{**defaults, **settings}), clock=clock)
        async with plane:
            if not url.startswith("sqlite"):
                await clock.rule(url)
            yield plane
