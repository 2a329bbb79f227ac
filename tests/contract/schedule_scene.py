"""What the tests of schedules need: a plane with an agent, time that passes with work being done, a service that only notes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cortex_plane.durable.context import Context
from cortex_plane.durable.suspension import SleepUntil
from cortex_plane.grants.execution import LocalExecution
from cortex_plane.grants.execution_service import ExecutionService
from cortex_plane.grants.model import RunState, Started
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.schedules.model import SLOT_AGENT, Schedule, Slot
from cortex_plane.schedules.runner import SlotRunner
from cortex_plane.testing import TestPlane

A_LOOK_LATER = 3.0


class Ran(list[str]):
    """What an agent was given, in order."""


def reporting(plane: TestPlane, name: str = "report") -> Ran:
    """An agent that notes its input and is done at once."""
    ran = Ran()

    @plane.agent(name)
    async def report(ctx: Context, kind: str = "") -> str:
        ran.append(kind)
        return kind

    return ran


async def settle(plane: TestPlane, rounds: int = 2) -> None:
    """Everything that is due now is begun, run, and looked at again."""
    for _ in range(rounds):
        await plane.work()
        await plane.clock.advance(seconds=A_LOOK_LATER)
    await plane.work()


async def pass_time(plane: TestPlane, length: timedelta, step: timedelta) -> None:
    """Time passes with a worker at hand."""
    until = plane.clock.moment() + length
    while plane.clock.moment() < until:
        await plane.clock.advance(step)
        await settle(plane)


async def slots(plane: TestPlane, name: str) -> list[Slot]:
    """Oldest first."""
    return list(reversed(await plane.schedules.slots(name, limit=1000)))


async def statuses(plane: TestPlane, name: str) -> list[tuple[str, str]]:
    return [(f"{slot.scheduled_for:%H:%M}", slot.reason or slot.error_code or slot.status) for slot in await slots(plane, name)]


async def waiting_slot_jobs(plane: TestPlane) -> list[JobId]:
    return [job.id for job in await plane.jobs.list(status=JobStatus.PENDING, agent=SLOT_AGENT, limit=1000)]


@dataclass
class NotedExecution:
    """An execution service that starts nothing, and answers as the test says."""

    calls: list[tuple[str, ...]] = field(default_factory=list)
    refuses: Exception | None = None
    refuses_stop: Exception | None = None
    refuses_look: Exception | None = None
    state: str = "success"
    meanwhile: Callable[[], Awaitable[None]] | None = None
    """What happens while a run is being started."""

    async def start(
        self,
        graph_id: str,
        idempotency_key: str,
        grant_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the word of the API
        service_name: str,
        traceparent: str | None = None,
        *,
        schedule_id: str | None = None,
        requested_by: Sequence[str] = (),
    ) -> Started:
        self.calls.append(("start", graph_id, idempotency_key, grant_id))
        if self.meanwhile is not None:
            await self.meanwhile()
        if self.refuses is not None:
            raise self.refuses
        return Started(JobId("00000000-0000-7000-8000-00000000abcd"), "a" * 32)

    async def look(self, run_id: str, wait_seconds: float = 0.0) -> RunState:
        self.calls.append(("look", run_id))
        if self.refuses_look is not None:
            raise self.refuses_look
        return RunState(JobId(run_id), "a" * 32, self.state)  # type: ignore[arg-type]

    async def stop(self, run_id: str, reason: str) -> None:
        self.calls.append(("stop", run_id))
        if self.refuses_stop is not None:
            raise self.refuses_stop


async def runner(plane: TestPlane, execution: ExecutionService | None = None) -> SlotRunner:
    """What looks after slots, without a worker around it."""
    store = plane.store
    directory = plane.directory
    service = execution or LocalExecution(store, directory, plane.clock, new_id)
    return SlotRunner(store, directory, service, plane.clock, new_id)


async def look_after(plane: TestPlane, schedule: Schedule, at: datetime, execution: ExecutionService | None = None) -> str:
    """One call for a slot of the rule; `sleeping` when it would come back later."""
    stored = await plane.schedules.get(schedule.id)
    job_id = stored.slot_job_id or JobId(new_id())
    try:
        return (await (await runner(plane, execution)).look_after(job_id, schedule.id, at, "cron"))["slot"]
    except SleepUntil:
        return "sleeping"


def slow(plane: TestPlane) -> tuple[list[str], asyncio.Event]:
    """An agent that waits durably until the test lets it go, and says when it was stopped."""
    told: list[str] = []
    free = asyncio.Event()

    @plane.agent("slow")
    async def work(ctx: Context) -> None:
        told.append("began")
        while not free.is_set():
            await ctx.sleep(60)
        told.append("ended")

    return told, free


def slow_to_fail(plane: TestPlane) -> asyncio.Event:
    """An agent that waits durably until the test lets it go, and then fails for good."""
    free = asyncio.Event()

    @plane.agent("failing", max_retries=0)
    async def work(ctx: Context) -> None:
        while not free.is_set():
            await ctx.sleep(60)
        raise ValueError("no")

    return free
