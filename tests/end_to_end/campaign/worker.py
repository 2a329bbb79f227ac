"""One of the schedulers: a worker that runs slots and what they start, until it is killed."""

from __future__ import annotations

import logging
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from cortex_plane import Context, Plane, Settings
from cortex_plane.worker import heartbeat
from tests.end_to_end.campaign.clock import SharedClock
from tests.end_to_end.campaign.rules import QUICK, SLOW, SLOW_SECONDS

LEASE_SECONDS = 30.0
BEAT_SECONDS = 0.4
"""Of real time: the clock is turned by many leases in a minute."""
CENTS = 3

# What a worker does with a slot that it holds.
WRITES = (("slots", "begin"), ("slots", "note_run"), ("slots", "end"), ("queue", "finish"))


def register_agents(plane: Plane) -> None:
    @plane.agent(QUICK, crash_limit=1000)
    async def quick(ctx: Context, edit: int = 0) -> None:
        ctx.usage(cents=CENTS)

    @plane.agent(SLOW, crash_limit=1000)
    async def slow(ctx: Context, edit: int = 0) -> None:
        await ctx.sleep(SLOW_SECONDS)
        ctx.usage(cents=CENTS)


class Mortality:
    """Once told by SIGUSR1, the process kills itself at a moment chosen by chance: before or after one of a slot's writes."""

    def __init__(self, store: Any, writes: Sequence[tuple[str, str]] = WRITES) -> None:
        self._moment: tuple[str, str] | None = None
        self._writes = writes
        signal.signal(signal.SIGUSR1, self._tell)
        for noun, verb in writes:
            self._wrap(getattr(store, noun), verb)

    def _tell(self, *_: object) -> None:
        self._moment = random.choice(["before", "after"]), random.choice(self._writes)[1]

    def _wrap(self, owner: Any, verb: str) -> None:
        real = getattr(owner, verb)

        async def perhaps_die(*values: Any, **named: Any) -> Any:
            self._reach("before", verb)
            answer = await real(*values, **named)
            self._reach("after", verb)
            return answer

        setattr(owner, verb, perhaps_die)

    def _reach(self, when: str, verb: str) -> None:
        if self._moment == (when, verb):
            os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, clock: str, name: str, settings: dict[str, Any] | None = None) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    heartbeat.BEATS_IN_A_LEASE = LEASE_SECONDS / BEAT_SECONDS  # type: ignore[assignment]
    files = str(Path(clock).parent / "files")
    chosen = Settings(database_url=url, lease_seconds=LEASE_SECONDS, data_dir=files, **(settings or {}))
    plane = Plane(settings=chosen, clock=SharedClock(Path(clock)))
    register_agents(plane)
    async with plane:
        Mortality(plane.store)
        await plane.run_worker(name=name)
