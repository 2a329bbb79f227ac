"""One tick: what is due is made ready, its job claimed, its slot begun, its run started and looked at, the slot ended, and the
job of the next slot put into the queue. The execution service answers at once, so that only scheduling is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Any

from cortex_plane import Plane
from cortex_plane.grants.model import RunState, Started
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import INTERNAL_QUEUE, JobId, RunId, WorkerId
from cortex_plane.jobs.outcomes import Chance, Done, after_run
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.schedules.model import SLOT_AGENT, ScheduleId
from cortex_plane.schedules.runner import SlotRunner
from cortex_plane.stores import Store
from cortex_plane.worker.model import NewWorker

LEASE_SECONDS = 3600.0


class AnswersAtOnce:
    async def start(
        self,
        graph_id: str,
        idempotency_key: str,
        grant_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the word of the API
        service_name: str,
        traceparent: str | None = None,
        **named: Any,
    ) -> Started:
        return Started(JobId(new_id()), "a" * 32)

    async def look(self, run_id: str, wait_seconds: float = 0.0) -> RunState:
        return RunState(JobId(run_id), "a" * 32, "success")

    async def stop(self, run_id: str, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Ticker:
    """A worker that does nothing else."""

    store: Store
    runner: SlotRunner
    worker_id: WorkerId

    @classmethod
    async def of(cls, plane: Plane) -> Ticker:
        worker_id = WorkerId(new_id())
        await plane.store.workers.register(NewWorker(worker_id, "bench", (INTERNAL_QUEUE,), (SLOT_AGENT,), 1, LEASE_SECONDS))
        return cls(plane.store, SlotRunner(plane.store, plane.directory, AnswersAtOnce(), plane.clock, new_id), worker_id)

    async def ticks(self, due: int) -> list[float]:
        """The seconds of each."""
        seconds = []
        for _ in range(due):
            began = perf_counter()
            await _tick(self.store, self.runner, self.worker_id)
            seconds.append(perf_counter() - began)
        return seconds


async def _tick(store: Store, runner: SlotRunner, worker_id: WorkerId) -> None:
    await store.queue.promote_due(1)
    [claimed] = await store.queue.claim(worker_id, [INTERNAL_QUEUE], [SLOT_AGENT], [RunId(new_id())])
    said = claimed.payload
    at = datetime.fromisoformat(said["scheduled_for"])
    ended = await runner.look_after(claimed.job_id, ScheduleId(said["schedule_id"]), at, "cron")
    assert ended == {"slot": "success"}, ended
    outcome = after_run(claimed, Done("null"), RetryPolicy(), Chance(1.0, JobId(new_id())))
    assert await store.queue.finish([outcome], "bench")
