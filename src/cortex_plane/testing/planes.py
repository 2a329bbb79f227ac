"""A plane on a throw-away store, with a clock that the test turns."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cortex_plane.plane import Plane
from cortex_plane.settings import Settings
from cortex_plane.testing.clock import ManualClock


class TestPlane(Plane):
    """A plane whose clock is the test's."""

    __test__ = False
    clock: ManualClock

    async def work(self, **options: Any) -> None:
        """Runs everything that is ready now, to its end."""
        await self.run_worker(until_idle=True, **options)


@asynccontextmanager
async def throwaway_plane(database_url: str | None = None, **settings: Any) -> AsyncIterator[TestPlane]:
    """On a SQLite file that is deleted afterwards, or on the (empty) database that is named."""
    with tempfile.TemporaryDirectory(prefix="cortex-test-") as folder:
        url = database_url or f"sqlite:///{folder}/test.db"
        defaults = {"database_url": url, "files": str(Path(folder) / "files"), "grace_seconds": 1.0}
        clock = ManualClock()
        plane = TestPlane(settings=Settings(**{**defaults, **settings}), clock=clock)
        async with plane:
            if not url.startswith("sqlite"):
                await clock.rule(url)
            yield plane
