"""The machine's own clock, and fresh ids."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime

import uuid_utils

from cortex_plane.core.instants import Instant, as_datetime

# Goes on while the machine sleeps, where the system has such a clock.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1000)

    def elapsed(self) -> float:
        return time.clock_gettime(_BOOT_CLOCK)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def utc_now() -> datetime:
    """For what is shown to people; decisions take their time from the store."""
    return as_datetime(SystemClock().now())


def new_id() -> str:
    return str(uuid_utils.uuid7())
