"""What a worker measures of its runs. Counting one costs less than a microsecond: it is done for every run."""

from __future__ import annotations

from cortex_plane.core.jobs import Claimed, JobId
from cortex_plane.core.outcomes import Transition
from cortex_plane.core.states import JobStatus
from cortex_plane.ports.store import Store
from cortex_plane.runtime.metrics import Histogram, count, histogram

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
