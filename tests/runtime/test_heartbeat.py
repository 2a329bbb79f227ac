"""When a worker may still trust its lease, and when it must give up its jobs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from cortex_plane.clock import Instant
from cortex_plane.errors import Unavailable
from cortex_plane.worker.heartbeat import Heartbeat
from cortex_plane.worker.model import Beat
from tests.runtime.helpers import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

LEASE_SECONDS = 0.9
QUICK_LEASE_SECONDS = 0.09


class Verdicts:
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.came = asyncio.Event()
        self.thread: str | None = None

    def __call__(self, why: str) -> None:
        self.heard.append(why)
        self.thread = threading.current_thread().name
        self.came.set()


class HeartTime(threading.Event):
    """What tells a heart to stop, and its clock: the pauses between beats take no time, and turn the clock by their length."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 1000.0

    def now(self) -> Instant:
        raise AssertionError("A heart has no use for the time of day.")

    def elapsed(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds += timeout or 0.0
        return super().wait(0.001)


@asynccontextmanager
async def beating(
    beat: Callable[[float], int], verdicts: Verdicts, time: HeartTime, drain: Callable[[], None] = lambda: None
) -> AsyncIterator[Heartbeat]:
    heart = Heartbeat(beat, verdicts, time, LEASE_SECONDS, drain)
    heart._stop = time
    heart.start()
    try:
        yield heart
    finally:
        await heart.stop()


class Beats:
    """Counts, and says when there were enough."""

    def __init__(self, enough: int, time: HeartTime) -> None:
        self.moments: list[float] = []
        self._enough, self._time = enough, time
        self._came = threading.Event()

    def count(self) -> int:
        self.moments.append(self._time.elapsed())
        if len(self.moments) >= self._enough:
            self._came.set()
        return len(self.moments)

    async def came(self) -> None:
        assert await asyncio.to_thread(self.came_while_nothing_else_runs)

    def came_while_nothing_else_runs(self) -> bool:
        return self._came.wait(PATIENCE_SECONDS)


async def test_the_lease_is_renewed_well_before_it_runs_out() -> None:
    verdicts, time = Verdicts(), HeartTime()
    beats = Beats(6, time)

    async with beating(lambda _seconds: bool(beats.count()), verdicts, time):
        await beats.came()

    gaps = [after - before for before, after in pairwise(beats.moments)]
    assert max(gaps) < LEASE_SECONDS / 2
    assert verdicts.heard == []


async def test_a_worker_that_was_declared_lost_is_told_so_in_its_event_loop() -> None:
    verdicts = Verdicts()

    async with beating(lambda _seconds: False, verdicts, HeartTime()):
        await asyncio.wait_for(verdicts.came.wait(), PATIENCE_SECONDS)

    assert verdicts.heard == ["this worker was declared LOST"]
    assert verdicts.thread == threading.current_thread().name


async def test_a_worker_that_is_to_leave_is_told_so_in_its_event_loop_and_its_heart_goes_on() -> None:
    verdicts, told = Verdicts(), asyncio.Queue[str]()

    async with beating(lambda _: Beat.DRAIN, verdicts, HeartTime(), lambda: told.put_nowait(threading.current_thread().name)):
        async with asyncio.timeout(PATIENCE_SECONDS):
            threads = {await told.get() for _ in range(2)}

    assert threads == {threading.current_thread().name}
    assert verdicts.heard == []


async def test_a_database_that_stays_away_costs_the_lease_before_others_may_take_it() -> None:
    verdicts, time = Verdicts(), HeartTime()
    beats = Beats(1, time)

    def beat(_seconds: float) -> bool:
        if beats.count() > 1:
            raise Unavailable("The database is away.")
        return True

    async with beating(beat, verdicts, time):
        await asyncio.wait_for(verdicts.came.wait(), PATIENCE_SECONDS)

    lost_after = beats.moments[-1] - beats.moments[0]
    assert verdicts.heard == ["the lease could not be renewed in time"]
    assert 0.5 * LEASE_SECONDS < lost_after < LEASE_SECONDS
    assert len(beats.moments) > 2


async def test_a_database_that_comes_back_in_time_costs_nothing() -> None:
    verdicts, time = Verdicts(), HeartTime()
    beats = Beats(12, time)

    def beat(_seconds: float) -> bool:
        if beats.count() % 2:
            raise Unavailable("The database is away for a moment.")
        return True

    async with beating(beat, verdicts, time):
        await beats.came()

    assert verdicts.heard == []


async def test_an_answer_that_takes_longer_than_the_lease_is_worth_nothing() -> None:
    verdicts, time = Verdicts(), HeartTime()

    def beat(_seconds: float) -> bool:
        time.seconds += LEASE_SECONDS * 1.2  # The lease counts from the moment at which the beat was sent.
        return True

    async with beating(beat, verdicts, time):
        await asyncio.wait_for(verdicts.came.wait(), PATIENCE_SECONDS)

    assert verdicts.heard == ["the lease could not be renewed in time"]


async def test_a_beat_that_fails_in_an_unforeseen_way_does_not_leave_the_worker_in_false_security() -> None:
    verdicts = Verdicts()

    def beat(_seconds: float) -> bool:
        raise RuntimeError("something that nobody thought of")

    async with beating(beat, verdicts, HeartTime()):
        await asyncio.wait_for(verdicts.came.wait(), PATIENCE_SECONDS)

    assert verdicts.heard == ["the lease could not be renewed in time"]


async def test_a_beat_is_given_no_more_time_than_the_lease_has_left() -> None:
    allowed: list[tuple[float, float]] = []
    verdicts, time = Verdicts(), HeartTime()
    beats = Beats(6, time)

    def beat(seconds: float) -> bool:
        if beats.count() > 1:
            allowed.append((seconds, beats.moments[-1] - beats.moments[-2]))
        return True

    async with beating(beat, verdicts, time):
        await beats.came()

    assert all(0 < seconds <= LEASE_SECONDS - passed for seconds, passed in allowed)


async def test_a_blocked_event_loop_does_not_stop_the_beat() -> None:
    verdicts, time = Verdicts(), HeartTime()
    beats = Beats(6, time)

    async with beating(lambda _seconds: bool(beats.count()), verdicts, time):
        beaten = beats.came_while_nothing_else_runs()  # The event loop is blocked meanwhile.

    assert beaten
    assert verdicts.heard == []


class BeatClock:
    """A third of a lease passes with each beat, or as much as the test says."""

    def __init__(self, *leases: float) -> None:
        self.seconds = 1000.0
        self._leases = list(leases)

    def now(self) -> Instant:
        raise AssertionError("A heart has no use for the time of day.")

    def elapsed(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def beat(self) -> bool:
        """False when the test has seen enough."""
        self.seconds += QUICK_LEASE_SECONDS * (self._leases.pop(0) if self._leases else 0.0)
        return bool(self._leases)


@pytest.mark.parametrize(
    ("leases", "settled"),
    [
        ([1 / 3] * 5, [False, False, True, True]),
        ([1 / 3, 1 / 3, 1 / 3, 0.8, 1 / 3, 1 / 3, 1 / 3], [False, False, True, True, False, False]),
    ],
    ids=["two beats of its own", "and two more after the machine slept"],
)
async def test_it_judges_others_only_when_its_own_heart_beats_regularly(leases: list[float], settled: list[bool]) -> None:
    clock, verdicts, enough = BeatClock(*leases), Verdicts(), asyncio.Event()
    loop, seen = asyncio.get_running_loop(), []

    def beat(_seconds: float) -> bool:
        seen.append(heart.settled)
        if not clock.beat():
            loop.call_soon_threadsafe(enough.set)
        return True

    heart = Heartbeat(beat, verdicts, clock, QUICK_LEASE_SECONDS)
    heart.start()
    await asyncio.wait_for(enough.wait(), PATIENCE_SECONDS)
    await heart.stop()

    assert seen[: len(settled)] == settled
