"""Worker processes for the tests: started, killed, watched, and never left behind."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cortex_plane import Plane, Settings
from tests.end_to_end.app import Config, register_agents
from tests.end_to_end.inspection import query
from tests.forked import Forked
from tests.runtime.helpers import eventually

PATIENCE_SECONDS = 30.0


class Fleet:
    """Everything that one test runs on one database."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.effects = folder / "effects"
        self.effects.touch()
        self._folder = folder
        self.processes: list[Forked] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, process in enumerate(self.processes, 1):
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE_SECONDS)
            if error is not None:
                print(f"--- worker process {process.pid} ended with {process.returncode}:")
                print(self._log(number).read_text(errors="replace")[-2000:])

    def start(self, **options: Any) -> Forked:
        config = Config(url=self.url, effects=str(self.effects), **options)
        process = Forked("tests.end_to_end.app", asdict(config), self._log(len(self.processes) + 1))
        self.processes.append(process)
        return process

    async def dies(self, process: Forked) -> None:
        """Waits until the process has killed itself."""
        assert await self.ends(process) == -signal.SIGKILL

    async def ends(self, process: Forked, seconds: float = PATIENCE_SECONDS) -> int:
        return await asyncio.to_thread(process.wait, seconds)

    @asynccontextmanager
    async def plane(self, **settings: Any) -> AsyncIterator[Plane]:
        """A plane of this process with the same agents, to submit jobs and to work on what is left."""
        chosen = {"lease_seconds": 0.6, "data_dir": str(self._folder / "files"), "grace_seconds": 1.0, **settings}
        async with Plane(settings=Settings(database_url=self.url, **chosen)) as plane:
            register_agents(plane, str(self.effects))
            yield plane

    async def finish_everything(self, plane: Plane) -> None:
        """A worker of this process rescues and runs until every job has ended."""
        task = asyncio.create_task(plane.run_worker(concurrency=5))
        try:
            await self.until("select count(*) = 0 from cortex.job where status not in ('COMPLETED', 'FAILED', 'CANCELLED')")
        finally:
            await stopped(plane, task)

    async def until(self, sql: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Until the query's only value is true."""

        async def true() -> bool:
            return bool((await query(self.url, sql))[0][0])

        await eventually(true, seconds)

    async def until_started(self, count: int, seconds: float = PATIENCE_SECONDS) -> None:
        async def started() -> bool:
            return len(self.starts()) >= count

        await eventually(started, seconds)

    def starts(self) -> list[tuple[str, str]]:
        """Job and run of every handler that was started, in order."""
        return [(job_id, run_id) for what, job_id, run_id in self.lines() if what == "start"]

    def starts_of_jobs(self) -> Counter[str]:
        return Counter(job_id for job_id, _ in self.starts())

    def lines(self) -> list[tuple[str, str, str]]:
        found = [line.split() for line in self.effects.read_text().splitlines()]
        return [(what, job_id, run_id) for what, job_id, run_id in found]

    def _log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"


async def stopped(plane: Plane, worker: asyncio.Task[None]) -> None:
    """Asks the worker to stop, again if it had not even begun."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not worker.done():
            plane.stop_workers()
            await asyncio.wait([worker], timeout=0.1)
    await worker
