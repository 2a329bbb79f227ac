"""One turned clock for many processes and their database: eight bytes of a file, and one row of a table."""

from __future__ import annotations

import mmap
from datetime import datetime
from pathlib import Path

import asyncpg

from cortex_plane.clock import Instant, instant
from cortex_plane.testing import ManualClock

WIDTH = 8


class SharedClock(ManualClock):
    """Whoever opens the file reads the same time. One process turns it."""

    def __init__(self, path: Path, start: datetime | None = None) -> None:
        super().__init__()
        if start is not None:
            path.write_bytes(instant(start).to_bytes(WIDTH, "little"))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), WIDTH)

    def now(self) -> Instant:
        self._now = Instant(int.from_bytes(self._shared[:WIDTH], "little"))
        return self._now

    async def set(self, moment: datetime) -> None:
        self._shared[:WIDTH] = instant(moment).to_bytes(WIDTH, "little")
        self.now()
        for url in self._servers:
            await self._turn(url)

    async def rule(self, database_url: str) -> None:
        """The function is replaced once: each time anew, and every session would plan all its statements again."""
        await self._execute(
            database_url,
            "create table public.turned_clock (now timestamptz not null); "
            f"insert into public.turned_clock select timestamptz 'epoch' + {self.now()} * interval '1 microsecond'; "
            "create or replace function cortex.now() returns timestamptz language sql stable parallel safe "
            "as $$ select now from public.turned_clock $$",
        )
        self._servers.add(database_url)

    async def _turn(self, url: str) -> None:
        moment = f"timestamptz 'epoch' + {self._now} * interval '1 microsecond'"
        await self._execute(url, f"update public.turned_clock set now = {moment}")

    async def _execute(self, url: str, sql: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()
