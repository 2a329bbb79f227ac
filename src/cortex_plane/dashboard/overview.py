"""The first page. At three in the morning it answers: does work flow, is anybody working, what fails, what stands still?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Request, Response

from cortex_plane.dashboard.charts import Bar, Part
from cortex_plane.dashboard.flash import go_to
from cortex_plane.dashboard.render import kind_of_status, page, seconds, words_of
from cortex_plane.http.auth import ThePlane, known
from cortex_plane.jobs.model import INTERNAL_QUEUE, TenantId
from cortex_plane.jobs.states import JobStatus, WorkerStatus
from cortex_plane.metrics.model import Load
from cortex_plane.metrics.service import look_at_failures, look_at_load
from cortex_plane.people.roles import Caller, Role
from cortex_plane.plane import Plane
from cortex_plane.queues.model import Control, Scope

router = APIRouter(include_in_schema=False)

# From the ground up.
ORDER = (
    JobStatus.COMPLETED,
    JobStatus.FAILED,
    JobStatus.CANCELLED,
    JobStatus.RUNNING,
    JobStatus.WAITING_FOR_APPROVAL,
    JobStatus.RETRY,
    JobStatus.PENDING,
)
MOST_WORKERS = 200


@dataclass(frozen=True, slots=True)
class QueueLine:
    name: str
    running: int
    waiting: dict[str, int]
    control: Control

    @property
    def ready(self) -> int:
        return self.waiting.get("ready", 0)

    @property
    def others(self) -> int:
        return sum(count for state, count in self.waiting.items() if state != "ready")


@router.get("/")
async def overview(request: Request, caller: Annotated[Caller, known()], plane: ThePlane) -> Response:
    if not caller.may(Role.VIEWER):
        return go_to("/approvals")  # Whoever has no role may still be asked by name.
    store = plane.store
    sees_all = caller.may(Role.VIEWER, everywhere=True)
    load, failing, (running, waiting), workers, agents = await asyncio.gather(
        look_at_load(store, plane.clock, caller.tenant_id),
        look_at_failures(store, plane.clock, caller.tenant_id),
        store.tenants.count_jobs(caller.tenant_id),
        store.workers.list(MOST_WORKERS),
        plane.directory.agents(),
    )
    return await page(
        request,
        caller,
        "overview.html",
        load=load,
        bars=throughput(load),
        tallest=max((sum(column.counts.values()) for column in load.columns), default=0),
        waits=[column.wait_seconds for column in load.columns],
        running=running,
        waiting=waiting,
        failing=failing,
        live_workers=[worker for worker in workers if worker.status is WorkerStatus.LIVE],
        busy=await store.stats.runs_of_workers() if sees_all else {},
        queues=await queue_lines(plane) if sees_all else [],
        sees_all=sees_all,
        agents=[agent for agent in agents if not agent.job_type.startswith("cortex.")],
    )


def throughput(load: Load) -> list[Bar]:
    bars: list[Bar] = []
    for column in load.columns:
        told = ", ".join(f"{column.counts[status]} {words_of(status).lower()}" for status in ORDER if column.counts.get(status))
        wait = f", begun after {seconds(column.wait_seconds)}" if column.wait_seconds is not None else ""
        title = f"{column.since:%H:%M:%S} UTC: {told or 'nothing submitted'}{wait}"
        bars.append(Bar(title, [Part(kind_of_status(status), column.counts.get(status, 0)) for status in ORDER]))
    return bars


async def queue_lines(plane: Plane) -> list[QueueLine]:
    """Every queue in which something waits or runs, or for which something is set; the plane's own only when it is full."""
    store = plane.store
    depths = await store.queue.depths()
    controls = {control.name: control for control in await store.controls.list() if control.scope is Scope.QUEUE}
    running = _by_queue(await store.queue.running())
    names = sorted({*depths, *running, *controls} - {INTERNAL_QUEUE})
    return [
        QueueLine(name, running.get(name, 0), depths.get(name, {}), controls.get(name) or Control(Scope.QUEUE, name))
        for name in names
    ]


def _by_queue(counted: Sequence[tuple[str, str, TenantId, int]]) -> dict[str, int]:
    running: dict[str, int] = {}
    for queue, _, _, count in counted:
        running[queue] = running.get(queue, 0) + count
    return running
