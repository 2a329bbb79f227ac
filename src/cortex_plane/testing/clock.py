"""A clock that the test turns: on SQLite the store asks it, on PostgreSQL it takes the place of `cortex.now()`."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import asyncpg

from cortex_plane.clock import Instant, as_datetime, instant

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class ManualClock:
    """Stands still until `await clock.advance(minutes=5)`. Real pauses, such as those between tries, are not affected."""

    def __init__(self, start: datetime = START) -> None:
        self._now = instant(start)
        self._servers: set[str] = set()

    def now(self) -> Instant:
        return self._now

    def moment(self) -> datetime:
        return as_datetime(self._now)

    def elapsed(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def advance(self, delta: timedelta | None = None, /, **parts: float) -> None:
        """`await clock.advance(minutes=5)`, or with a timedelta."""
        await self.set(self.moment() + (delta or timedelta()) + timedelta(**parts))

    async def set(self, moment: datetime) -> None:
        self._now = instant(moment)
        for url in self._servers:
            await self._tell(url)

    async def rule(self, database_url: str) -> None:
        """From now on this PostgreSQL database goes by this clock."""
        self._servers.add(database_url)
        await self._tell(database_url)

    async def _tell(self, url: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(
                "create or replace function cortex.now() returns timestamptz language sql stable parallel safe "
                f"as $$ select timestamptz 'epoch' + {self._now} * interval '1 microsecond' $$"
            )
        finally:
            await connection.close()
