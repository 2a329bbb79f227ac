"""Many schedulers on one database: time is turned ten seconds at a time, each turn waits until all that is due was done, and
every other minute some of them are killed in the middle of it, or frozen until others have taken over, and started anew."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.contract.support import Raw
from tests.end_to_end.campaign.clock import SharedClock
from tests.end_to_end.campaign.worker import LEASE_SECONDS
from tests.forked import Forked
from tests.runtime.helpers import eventually

STEP = timedelta(seconds=10)
PATIENCE_SECONDS = 120.0
STANDSTILL_SECONDS = 1.5
WORK_SECONDS = 0.2
"""Within so much of real time, what falls due is begun."""


@dataclass
class Schedulers:
    """All processes of a campaign. Whoever leaves it leaves none behind."""

    url: str
    folder: Path
    clock: SharedClock
    clock_file: Path
    raw: Raw
    count: int
    chance: random.Random
    program: str = "tests.end_to_end.campaign.worker"
    options: dict[str, Any] = field(default_factory=dict)
    kills: int = 0
    freezes: int = 0
    turns: int = 0
    _lives: list[tuple[str, Forked]] = field(default_factory=list)
    _killed: set[str] = field(default_factory=set)
    _started: int = 0

    async def __aenter__(self) -> Self:
        self._lives = [self._start() for _ in range(self.count)]
        await eventually(self._all_registered, PATIENCE_SECONDS)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for _, process in self._lives:
            process.kill()
            process.wait(PATIENCE_SECONDS)
        if error is not None:
            for log in sorted(self.folder.glob("*.log")):
                print(f"--- {log.name}:", log.read_text(errors="replace")[-600:], sep="\n")

    async def turn(
        self,
        until: datetime,
        *,
        kill_at: Collection[datetime] = (),
        freeze_at: Collection[datetime] = (),
        meanwhile: Callable[[datetime], Awaitable[None]] | None = None,
    ) -> None:
        """`meanwhile` is called at each turn, before anything that falls due then is waited for."""
        while self.clock.moment() < until:
            now = self.clock.moment() + STEP
            self.turns += 1
            if now in kill_at:
                await self._kill_some(now)
            elif now in freeze_at:
                await self._freeze_one(now)
            else:
                await self.clock.set(now)
            if meanwhile is not None:
                await meanwhile(now)
            await eventually(self.settled, PATIENCE_SECONDS)

    async def _freeze_one(self, now: datetime) -> None:
        """It stands still with whatever it holds, until its lease is over and others go on; then it wakes up, and is too late."""
        place = self.chance.randrange(self.count)
        name, process = self._lives[place]
        await self.clock.set(now)
        await asyncio.sleep(self.chance.random() * WORK_SECONDS)
        process.send_signal(signal.SIGSTOP)
        await self.clock.set(now + timedelta(seconds=LEASE_SECONDS + 1))
        await asyncio.sleep(STANDSTILL_SECONDS)
        process.send_signal(signal.SIGCONT)
        try:
            await asyncio.to_thread(process.wait, STANDSTILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE_SECONDS)
        self.freezes += 1
        self._killed.add(name)
        self._lives[place] = self._start()
        await self.clock.set(now + timedelta(seconds=LEASE_SECONDS + STEP.total_seconds()))

    async def _kill_some(self, now: datetime) -> None:
        """In the midst of the work that falls due now: the others stand still until those who are to die have got some of it."""
        places = self.chance.sample(range(self.count), max(1, self.count // 5))
        others = [process for place, (_, process) in enumerate(self._lives) if place not in places]
        for process in others:
            process.send_signal(signal.SIGSTOP)
        for place in places:
            self._lives[place][1].send_signal(signal.SIGUSR1)
        await self.clock.set(now)
        for place in places:
            await self._see_die(place)
        for process in others:
            process.send_signal(signal.SIGCONT)

    async def _see_die(self, place: int) -> None:
        """If it got no work, it is killed as it is."""
        name, process = self._lives[place]
        try:
            await asyncio.to_thread(process.wait, STANDSTILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE_SECONDS)
        self.kills += 1
        self._killed.add(name)
        self._lives[place] = self._start()

    def _start(self) -> tuple[str, Forked]:
        self._started += 1
        name = f"scheduler-{self._started}"
        options = {"url": self.url, "clock": str(self.clock_file), "name": name, **self.options}
        return name, Forked(self.program, options, self.folder / f"{name}.log")

    async def _all_registered(self) -> bool:
        ((found,),) = await self.raw("select count(*) from cortex.worker where status = 'LIVE'")
        return bool(found == self.count)

    async def settled(self) -> bool:
        """Nothing is due, nothing runs but what the killed still seem to hold, and the living have just said that they live."""
        killed = ", ".join(f"'{name}'" for name in self._killed) or "''"
        now, soon = self.raw.now, self._later(STEP + timedelta(seconds=1))
        ((left,),) = await self.raw(f"""
            select (select count(*) from cortex.queue_entry where state = 'ready')
              + (select count(*) from cortex.queue_entry where state = 'later' and due_at <= {now})
              + (select count(*) from cortex.job_run r join cortex.worker w on w.id = r.worker_id
                 where r.status = 'RUNNING' and not (w.status = 'LIVE' and w.name in ({killed})))
              + (select count(*) from cortex.worker where status = 'LOST' and ended_at is null)
              + (select count(*) from cortex.worker where status = 'LIVE' and lease_until < {now})
              + (select count(*) from cortex.worker
                 where status = 'LIVE' and lease_until < {soon} and name not in ({killed}))""")
        return bool(left == 0)

    def _later(self, delta: timedelta) -> str:
        if self.raw.kind == "sqlite":
            return f"{self.raw.now} + {delta // timedelta(microseconds=1)}"
        return f"{self.raw.now} + interval '{delta.total_seconds()} seconds'"


assert STEP.total_seconds() * 3 <= LEASE_SECONDS  # Or those who live would seem lost.
