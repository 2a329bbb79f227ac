"""Counters of a worker, durations of runs, and the load of a plane."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from cortex_plane.clock import Clock, as_datetime
from cortex_plane.jobs.states import JobStatus
from cortex_plane.metrics.model import WINDOW, Entry, FailingAgent, Load, failing_agents, load_of

if TYPE_CHECKING:
    from cortex_plane.jobs.model import Claimed, JobId, TenantId
    from cortex_plane.jobs.outcomes import Transition
    from cortex_plane.stores import Store

MOST_CHANGES = 9_000
"""Lines of history: about three thousand jobs."""
MOST_FAILURES = 500
SUBMITTED_WITHIN = timedelta(days=7)
"""A failure of the last hour is found if its job is not older than this."""


async def look_at_load(store: Store, clock: Clock, tenant_id: TenantId | None = None) -> Load:
    """Of one tenant, or of all."""
    now = as_datetime(clock.now())
    jobs, complete = await store.stats.recent(now - WINDOW, MOST_CHANGES)
    return load_of([job for job in jobs if tenant_id in (None, job.tenant_id)], now, complete=complete)


async def look_at_failures(store: Store, clock: Clock, tenant_id: TenantId | None = None) -> list[FailingAgent]:
    """Of the last hour, by agent."""
    now = as_datetime(clock.now())
    found = await store.stats.failures(now - SUBMITTED_WITHIN, MOST_FAILURES)
    recent = [one for one in found if one.ended_at >= now - WINDOW and tenant_id in (None, one.tenant_id)]
    return failing_agents(recent)


async def look_into_queue(store: Store, queue: str, limit: int) -> list[Entry]:
    """What would be claimed next, in order, if nothing stood in its way."""
    return await store.stats.entries(queue, limit)


# -- metrics -----------------------------------------------------------------------------------
# What this process has counted and measured since it started. Whoever exports figures reads them here.


Labels = tuple[tuple[str, str], ...]

BOUNDS: dict[str, tuple[float, ...]] = {
    "run_seconds": (0.005, 0.02, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 7200),
    "pick_up_seconds": (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300),
    "checkpoint_bytes": (1_024, 4_096, 16_384, 65_536, 262_144, 524_288, 1_048_576),
    "http_request_seconds": (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
}

_counts: Counter[tuple[str, Labels]] = Counter()
_histograms: dict[tuple[str, Labels], Histogram] = {}
_lock = threading.Lock()


class Histogram:
    """How many values were up to each bound. Its one writer needs no lock; with two, a value may be lost, and that is all."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def count(name: str, by: int = 1, **labels: str) -> None:
    with _lock:
        _counts[name, tuple(sorted(labels.items()))] += by


def histogram(name: str, **labels: str) -> Histogram:
    """The one of this name and these labels; who measures often keeps it."""
    key = name, tuple(sorted(labels.items()))
    with _lock:
        if key not in _histograms:
            _histograms[key] = Histogram(BOUNDS[name])
        return _histograms[key]


def counted() -> dict[tuple[str, Labels], int]:
    with _lock:
        return dict(_counts)


def measured() -> dict[tuple[str, Labels], Histogram]:
    with _lock:
        return dict(_histograms)


# -- run figures -------------------------------------------------------------------------------
# What a worker measures of its runs. Counting one costs less than a microsecond: it is done for every run.


SAMPLE_SECONDS = 1.0


class RunFigures:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._seconds: dict[str, Histogram] = {}
        self._ended: dict[tuple[str, str], int] = {}
        self._retried: dict[str, int] = {}
        self._sample: tuple[JobId, str] | None = None

    def claimed(self, claimed: list[Claimed]) -> None:
        """One of them is asked about later: when it was due is not in a claim's answer, which must stay short."""
        if claimed and claimed[0].attempt == 1:
            self._sample = claimed[0].job_id, claimed[0].queue

    def ended(self, agent: str, transition: Transition, seconds: float) -> None:
        status = transition.status
        outcome = transition.wait_reason or status
        self._ended[agent, outcome] = self._ended.get((agent, outcome), 0) + 1
        if agent not in self._seconds:
            self._seconds[agent] = histogram("run_seconds", agent=agent)
        self._seconds[agent].observe(seconds)
        if outcome == "retry" or (status is JobStatus.FAILED and transition.note and "retry_as" in transition.note):
            self._retried[agent] = self._retried.get(agent, 0) + 1

    async def once(self) -> float:
        """A duty of the worker: adds what was counted to what the process has, and measures a pick-up."""
        self.flush()
        sample, self._sample = self._sample, None
        if sample is not None:
            job_id, queue = sample
            seconds = await self._store.gauges.pick_up_seconds(job_id)
            if seconds is not None:
                histogram("pick_up_seconds", queue=queue).observe(seconds)
        return SAMPLE_SECONDS

    def flush(self) -> None:
        ended, self._ended = self._ended, {}
        retried, self._retried = self._retried, {}
        for (agent, outcome), runs in ended.items():
            count("runs", runs, agent=agent, outcome=outcome.lower())
        for agent, runs in retried.items():
            count("retries", runs, agent=agent)
