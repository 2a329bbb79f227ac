"""Proves that a worker lives: one row for each worker, from a thread that a blocked event loop cannot starve.

A worker trusts itself from the moment at which it *sent* its last acknowledged heartbeat. Past that, or when it
was declared LOST, it stops its own jobs: others may be running them already.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from functools import partial

import structlog

from cortex_plane.core.workers import Beat
from cortex_plane.ports.clock import Clock

log = structlog.get_logger()

BEATS_IN_A_LEASE = 3
TRUSTED_PART_OF_A_LEASE = 0.9
RETRY_SECONDS = 0.5
BLOCKED_WARNING_SECONDS = 2.0
EXIT_BLOCKED = 70


class Heartbeat:
    """`beat` renews the lease and answers whether it could, and what else is wanted. In the event loop `lost` is told once it is
    over, and `drain` when somebody wants the worker to leave; the heart goes on beating until it has."""

    def __init__(
        self,
        beat: Callable[[float], int],
        lost: Callable[[str], None],
        clock: Clock,
        lease_seconds: float,
        blocked_limit_seconds: float,
        drain: Callable[[], None] = lambda: None,
    ) -> None:
        self._beat, self._lost, self._drain, self._clock = beat, lost, drain, clock
        self._lease_seconds = lease_seconds
        self._blocked_limit_seconds = blocked_limit_seconds
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._trusted_until = clock.elapsed() + lease_seconds * TRUSTED_PART_OF_A_LEASE
        self._pulse_at = clock.elapsed()
        self._beaten_at = clock.elapsed()
        self._beats_in_a_row = 0
        self._thread = threading.Thread(target=self._run, name="cortex-heartbeat", daemon=True)

    @property
    def settled(self) -> bool:
        """Two beats without a gap: only then may this worker judge others. After a machine slept, every lease looks old."""
        return self._beats_in_a_row >= 2 and self._clock.elapsed() - self._beaten_at < self._lease_seconds / 2

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._stop.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        pause = self._lease_seconds / BEATS_IN_A_LEASE
        while not self._stop.wait(pause):
            self._watch_the_loop()
            verdict = self._beat_once()
            if verdict is not None:
                self._tell_in_the_loop(partial(self._lost, verdict))
                return
            healthy = self._clock.elapsed() + self._lease_seconds / 2 < self._trusted_until
            pause = self._lease_seconds / BEATS_IN_A_LEASE if healthy else min(RETRY_SECONDS, self._lease_seconds / 10)

    def _beat_once(self) -> str | None:
        """Why the lease is lost, or None."""
        sent_at = self._clock.elapsed()
        try:
            answer = self._beat(max(0.1, self._trusted_until - sent_at))
            if answer == Beat.LOST:
                return "this worker was declared LOST"
            self._acknowledged(sent_at)
            if answer == Beat.DRAIN:
                self._tell_in_the_loop(self._drain)
        except Exception as error:  # Whatever it is, the lease was not renewed.
            log.warning("heartbeat_failed", error=f"{type(error).__name__}: {error}")
        if self._clock.elapsed() >= self._trusted_until:
            return "the lease could not be renewed in time"
        return None

    def _acknowledged(self, sent_at: float) -> None:
        gap = sent_at - self._beaten_at
        self._beats_in_a_row = self._beats_in_a_row + 1 if gap < self._lease_seconds / 2 else 1
        self._beaten_at = sent_at
        self._trusted_until = sent_at + self._lease_seconds * TRUSTED_PART_OF_A_LEASE

    def _watch_the_loop(self) -> None:
        blocked = self._clock.elapsed() - self._pulse_at - self._lease_seconds / BEATS_IN_A_LEASE
        if blocked > self._blocked_limit_seconds:
            log.critical("event_loop_blocked", seconds=round(blocked, 1), action="The process ends; its jobs are rescued.")
            os._exit(EXIT_BLOCKED)
        if blocked > BLOCKED_WARNING_SECONDS:
            log.warning("event_loop_blocked", seconds=round(blocked, 1), advice="A handler blocks; make it a plain function.")
        self._tell_in_the_loop(self._pulse)

    def _pulse(self) -> None:
        self._pulse_at = self._clock.elapsed()

    def _tell_in_the_loop(self, what: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)
