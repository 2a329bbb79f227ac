"""Background loops: retry with pauses, one log line for each outage, timers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import structlog

from cortex_plane.clock import Clock
from cortex_plane.errors import Unavailable

if TYPE_CHECKING:
    from cortex_plane.stores import Store

log = structlog.get_logger()


class Trouble:
    def __init__(self, event: str, over: str, **facts: Any) -> None:
        """`event` and `over` are the names of the log lines; `facts` are included in each."""
        self._event, self._over, self._facts = event, over, facts
        self._error: str | None = None

    def tell(self, error: Exception, **facts: Any) -> None:
        """The same error again is no news."""
        told = f"{type(error).__name__}: {error}"
        if told != self._error:
            self._error = told
            log.warning(self._event, **self._facts, error=told, **facts)

    def over(self) -> None:
        if self._error is not None:
            self._error = None
            log.info(self._over, **self._facts)


# -- timers ------------------------------------------------------------------------------------
# Makes due jobs ready: delayed jobs, retries, sleeps. Ends holds, and reservations whose holder is gone.


BATCH = 500
LONGEST_REST_SECONDS = 1.0
SHORTEST_REST_SECONDS = 0.005


class Timers:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._promoting = asyncio.Lock()

    async def once(self) -> float:
        await self._store.reservations.expire()
        await self._store.controls.end_holds()
        if await self.promote() == BATCH:
            return 0.0
        due = await self._store.queue.next_due_in()
        if due is None:
            return LONGEST_REST_SECONDS
        return min(max(due, SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)

    async def promote(self) -> int:
        """Serialised: a concurrent call would skip rows that the first has locked, and conclude that nothing is due."""
        async with self._promoting:
            return await self._store.queue.promote_due(BATCH)


# -- waiting -----------------------------------------------------------------------------------
# Waits for an event with a timeout.


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event was set in time. (`asyncio.wait_for` can lose a cancellation that comes in the same moment.)"""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


# -- background loop ---------------------------------------------------------------------------
# Repeats one task until it is cancelled. Failures are logged and retried with backoff.


LIMIT_SECONDS = 120.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0


@dataclass(slots=True)
class BackgroundLoop:
    """`once` does the work and returns how many seconds may pass before the next time."""

    name: str
    once: Callable[[], Awaitable[float]]
    clock: Clock
    last_ok_at: float | None = None
    began_at: float | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self._wake.set()

    def seconds_since_good(self) -> float:
        """Since it last went well, or since it began if it never did; 0 before that."""
        last = self.last_ok_at if self.last_ok_at is not None else self.began_at
        return 0.0 if last is None else self.clock.elapsed() - last

    async def run(self) -> None:
        self.began_at = self.clock.elapsed()
        pause, trouble = FIRST_PAUSE_SECONDS, Trouble("loop_failed", "loop_recovered", loop=self.name)
        while True:
            try:
                self._wake.clear()
                async with asyncio.timeout(LIMIT_SECONDS):
                    wait = await self.once()
                self.last_ok_at = self.clock.elapsed()
                pause = FIRST_PAUSE_SECONDS
                trouble.over()
            except Exception as error:
                trouble.tell(error, action="It is tried again, less and less often.")
                wait, pause = pause, min(pause * 2, LONGEST_PAUSE_SECONDS)
            await wait_at_most(self._wake, wait * random.uniform(0.8, 1.0))


# -- patience ----------------------------------------------------------------------------------
# Retries the database operations that a run makes besides its checkpoints, while the database is unavailable: an outage fails no
# job.
#
# If the lease is lost meanwhile, the run is ended, and the wait with it.


FIRST_RETRY_SECONDS = 0.05
LONGEST_RETRY_SECONDS = 2.0

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Part = TypeVar("Part")


def patient(ask: Callable[Arguments, Awaitable[Result]], clock: Clock) -> Callable[Arguments, Awaitable[Result]]:
    """`ask` must be idempotent."""

    async def asked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                return await ask(*args, **kwargs)
            except Unavailable as error:
                log.warning("run_waits_for_database", error=str(error), pause_seconds=pause)
            await clock.sleep(pause)
            pause = min(pause * 2, LONGEST_RETRY_SECONDS)

    return asked


def patient_part(part: Part, clock: Clock) -> Part:
    """A part of a store, of which every operation is retried."""
    return cast(Part, _PatientPart(part, clock))


class _PatientPart:
    def __init__(self, part: Any, clock: Clock) -> None:
        self._part, self._clock = part, clock

    def __getattr__(self, name: str) -> Any:
        return patient(getattr(self._part, name), self._clock)
