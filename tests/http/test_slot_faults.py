"""A slot and its run speak over HTTP, and either side, or the wire between them, may fail at any moment: the graph still runs
once, and is charged once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from cortex_plane.errors import Unavailable
from cortex_plane.grants.execution_client import AsgiClient, HttpExecution
from cortex_plane.grants.execution_service import ExecutionService
from cortex_plane.http_client import HttpResponse, NoResponse
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.plane import Plane
from cortex_plane.schedules.model import Schedule
from cortex_plane.settings import Settings
from cortex_plane.testing import TestPlane
from tests.apps import app_of
from tests.contract.killing import Killed, Killer
from tests.contract.schedule_scene import look_after, reporting, slots
from tests.contract.support import Scene, ended, raw_client
from tests.http.conftest import SECRET, with_secrets

pytestmark = pytest.mark.anyio

URL = "http://localhost"
MOST_STATEMENTS = 100
CENTS = 5


@pytest.fixture
async def service(plane: TestPlane) -> AsyncIterator[Plane]:
    """The execution service has a database connection of its own, as it has in a process of its own."""
    settings = with_secrets(Settings(database_url=plane.settings.database_url), internal_api_requests_per_second=1_000_000)
    async with Plane(settings=settings, clock=plane.clock) as service:
        yield service


def client_of(service: Plane) -> AsgiClient:
    return AsgiClient(app_of(service))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("who", ["worker", "service"])
async def test_a_slot_runs_once_and_is_charged_once_wherever_one_of_the_two_dies(
    plane: TestPlane, service: Plane, who: str
) -> None:
    reporting(plane)
    execution = HttpExecution(client_of(service), URL, SECRET)
    store: Any = plane.store
    dying: Any = store if who == "worker" else service.store
    scene, killer = Scene(store, plane.clock), Killer(dying.database)
    worker = await scene.worker()

    for statement in range(1, MOST_STATEMENTS):
        schedule, at = await _due(plane, f"s{statement}")

        killer.strike_at(statement)
        killer.watching = True
        assert await _until_answered(plane, schedule, at, execution) == "sleeping"
        killer.watching = False
        [run] = await scene.claim(worker, 10, job_types=("report",))
        await store.queue.finish([ended(run, Done("null"))._replace(cost_cents=CENTS)], "test")
        killer.watching = True
        assert await _until_answered(plane, schedule, at, execution) == "success"
        killer.watching = False

        await _check(plane, schedule, run.job_id)
        if not killer.struck:
            assert statement > 10, "both calls were watched"
            return
    pytest.fail("it never ends")


# -- the wire ------------------------------------------------------------------------------------

Send = Callable[[], Awaitable[HttpResponse]]


@dataclass
class BadWire:
    """One of the requests meets with trouble; all others pass."""

    inner: AsgiClient
    trouble: str
    number: int
    count: int = 0
    held: list[Send] = field(default_factory=list)

    async def get(self, url: str, *, headers: Mapping[str, str], **options: Any) -> HttpResponse:
        return await self._pass(lambda: self.inner.get(url, headers=headers, **options))

    async def post(self, url: str, *, headers: Mapping[str, str], **options: Any) -> HttpResponse:
        return await self._pass(lambda: self.inner.post(url, headers=headers, **options))

    async def patch(self, url: str, **options: Any) -> HttpResponse:
        raise NotImplementedError

    async def _pass(self, send: Send) -> HttpResponse:
        self.count += 1
        if self.count != self.number:
            return await send()
        match self.trouble:
            case "500 and nothing done":
                return HttpResponse(500, {}, b"{}")
            case "500 and done":
                await send()
                return HttpResponse(500, {}, b"{}")
            case "hangs and nothing done":
                raise NoResponse("It did not answer in time.")
            case "done and hangs":
                await send()
                raise NoResponse("It did not answer in time.")
            case "an answer that makes no sense":
                await send()
                return HttpResponse(200, {}, b"<html>")
            case "done when the worker has given up":
                self.held.append(send)
                raise NoResponse("It did not answer in time.")
        raise AssertionError(self.trouble)


TROUBLES = [
    "500 and nothing done",
    "500 and done",
    "hangs and nothing done",
    "done and hangs",
    "an answer that makes no sense",
    "done when the worker has given up",
]


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_slot_runs_once_and_is_charged_once_whatever_the_service_answers(
    plane: TestPlane, service: Plane, trouble: str
) -> None:
    reporting(plane)
    scene = Scene(plane.store, plane.clock)
    worker = await scene.worker()

    for number in (1, 2, 3):
        wire = BadWire(client_of(service), trouble, number)
        execution = HttpExecution(wire, URL, SECRET)
        schedule, at = await _due(plane, f"s{number}")

        assert await _until_answered(plane, schedule, at, execution) == "sleeping"
        [run] = await scene.claim(worker, 10, job_types=("report",))
        await scene.store.queue.finish([ended(run, Done("null"))._replace(cost_cents=CENTS)], "test")
        assert await _until_answered(plane, schedule, at, execution) == "success"
        for late in wire.held:
            assert (await late()).status in (200, 201)

        assert wire.count > number, "the trouble was met, and passed"
        await _check(plane, schedule, run.job_id)
        assert await scene.claim(worker, 10, job_types=("report",)) == []


async def test_a_service_that_hangs_is_given_up_in_time(plane: TestPlane) -> None:
    async def hangs(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    execution = HttpExecution(AsgiClient(hangs), URL, SECRET, timeout_seconds=0.05)

    with pytest.raises(Unavailable, match="did not answer within"):
        await execution.look("0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60")


async def test_what_the_service_refuses_ends_the_slot_but_a_wrong_secret_does_not(plane: TestPlane, service: Plane) -> None:
    reporting(plane)
    spent, spent_at = await _due(plane, "spent")
    async with raw_client(plane.settings.database_url, plane.clock) as raw:
        await raw("update cortex.execution_grant set max_uses = 1, uses = 1")
    await look_after(plane, spent, spent_at, HttpExecution(client_of(service), URL, SECRET))
    locked, locked_at = await _due(plane, "locked")
    await look_after(plane, locked, locked_at, HttpExecution(client_of(service), URL, "another secret"))

    [by_grant], [by_secret] = await slots(plane, "spent"), await slots(plane, "locked")
    assert (by_grant.status, by_grant.error_code) == ("error", "grant_used_up")
    assert by_secret.status == "running", "a wrong secret is put right by an operator; until then the slot waits"


async def _due(plane: TestPlane, name: str) -> tuple[Schedule, datetime]:
    schedule = await plane.schedules.add(name, "agent:report", "0 * * * *")
    assert schedule.next_run_at is not None
    await plane.clock.set(schedule.next_run_at)
    return schedule, schedule.next_run_at


async def _until_answered(plane: TestPlane, schedule: Schedule, at: datetime, execution: ExecutionService) -> str:
    """As the slot's job is tried again, by this worker or by the next."""
    while True:
        with capture_logs() as logged:  # Whoever dies says so at length.
            try:
                seen = await look_after(plane, schedule, at, execution)
            except (Killed, Unavailable):
                continue
        if not any(line["event"] == "execution_service_unavailable" for line in logged):
            return seen


async def _check(plane: TestPlane, schedule: Schedule, run_id: JobId) -> None:
    [slot] = await slots(plane, schedule.name)
    assert (slot.status, slot.run_id) == ("success", run_id)
    assert [(one.unit, one.quantity) for one in await plane.billing.receipts(run_id)] == [("cents", CENTS)]
    assert (await plane.grants.get(schedule.grant_id)).uses == 1
    after = await plane.schedules.get(schedule.id)
    assert after.next_run_at is not None
    assert after.next_run_at > slot.scheduled_for
