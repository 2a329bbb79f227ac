"""A plane in the middle of its day: an hour of work behind it, some at hand, some that waits. The same each time, ids apart."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cortex_plane import JobStatus
from cortex_plane.ids import new_id
from cortex_plane.people.tenants import add_tenant
from cortex_plane.settings import Settings
from cortex_plane.testing import ManualClock, TestPlane
from docs.screenshots.demo_agents import Agents

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
WORKERS = ("worker-1", "worker-2", "worker-3")
PASSWORD = "correct horse battery staple"
REASON = "The mail server is being moved."


@dataclass(frozen=True, slots=True)
class Demo:
    """`front` is to be served: whoever serves a plane closes it, and the workers need theirs. `places` stand for the parameters
    of the addresses of pages."""

    plane: TestPlane
    front: TestPlane
    places: dict[str, str]


@asynccontextmanager
async def demo(folder: Path, minutes: int = 60) -> AsyncIterator[Demo]:
    """It is about NOON; workers are at work and never get ahead until this ends."""
    settings = Settings(database_url=f"sqlite:///{folder}/demo.db", data_dir=str(folder / "files"), grace_seconds=0.1)
    plane = TestPlane(settings=settings, clock=ManualClock(NOON - timedelta(minutes=minutes)), chance=random.Random(3).random)
    agents = Agents(plane)
    async with plane:
        await _people(plane)
        schedule_id = await _schedules(plane)
        release_id = await _first_release(plane)
        await _hour(plane, random.Random(7))
        agents.never_end()
        working = [asyncio.create_task(plane.run_worker(concurrency=4, name=name)) for name in WORKERS]
        await _at_hand(plane)
        asked = await plane.approvals.list()
        approval_id = next(one.id for one in asked if one.agent == "release")
        places = {"schedule_id": schedule_id, "job_id": release_id, "approval_id": approval_id, "name": "billing"}
        try:
            yield Demo(plane, TestPlane(settings=settings, clock=plane.clock), places)
        finally:
            plane.stop_workers()
            await asyncio.gather(*working)


async def _people(plane: TestPlane) -> None:
    for name, role in (("operator", "admin"), ("approver", "approver"), ("auditor", "viewer")):
        await plane.access.add_user(name, email=f"{name}@example.com", actor="cortex users")
        await plane.access.set_password(name, PASSWORD, actor="cortex users")
        await plane.access.give_role(name, role, actor="cortex users")
    await plane.access.give_role("operator", "approver", actor="cortex users")
    await plane.access.add_key("build server", ["submitter"], tenant="default", actor="user:operator")
    await plane.access.add_key("monitoring", ["viewer"], tenant="default", ttl_seconds=90 * 86_400, actor="user:operator")
    for tenant in ("retail", "research"):
        await add_tenant(plane.store, new_id, tenant, actor="user:operator")
    await plane.costs.set_budget(50_000, tenant="default", actor="user:operator")


async def _schedules(plane: TestPlane) -> str:
    shown = await plane.schedules.add("invoice import", "agent:invoice", "*/15 * * * *", created_by="user:operator")
    await plane.schedules.add(
        "weekday digest", "agent:report", "0 9 * * mon-fri", timezone="Europe/Berlin", created_by="user:operator"
    )
    await plane.schedules.add("nightly report", "agent:report", "30 2 * * *", created_by="user:operator")
    ended = await plane.schedules.add("month end", "agent:report", "0 6 1 * *", created_by="user:operator")
    await plane.schedules.pause(ended.id, actor="user:operator", reason="The books of June are closed.")
    return shown.id


async def _first_release(plane: TestPlane) -> str:
    """Its worker is killed after a step; another goes on, and a person approves."""
    plane.crash_after("test")
    job = await plane.submit("release", {"version": "2.3.0"}, created_by="key:build server", tags=["production"])
    await plane.work(name="worker-0")
    await plane.clock.advance(seconds=20)
    await plane.work(name="worker-1")
    await plane.clock.advance(seconds=140)
    [request] = await plane.approvals.list()
    await plane.approvals.approve(request.id, by="approver", reason="The tests are green.")
    await plane.work(name="worker-1")
    assert (await plane.jobs.get(job.id)).status is JobStatus.COMPLETED
    return job.id


async def _hour(plane: TestPlane, chance: random.Random) -> None:
    number = 0
    while plane.clock.moment() < NOON - timedelta(minutes=2):
        for _ in range(chance.choice((1, 1, 2, 2, 3, 4))):
            number += 1
            agent = chance.choices(("invoice", "report", "ticket"), (4, 2, 5))[0]
            await plane.submit(agent, {"number": number}, created_by="key:build server")
        await plane.clock.advance(seconds=chance.uniform(0.1, 2))
        await plane.work(name="worker-1", concurrency=1)
        await plane.clock.advance(seconds=chance.uniform(20, 50))
    await plane.submit("release", {"version": "2.4.0"}, tags=["production"], created_by="key:build server")
    await plane.submit("invoice", {"number": 2041, "amount": 12_400}, priority=5, created_by="key:build server")
    await plane.work(name="worker-1", concurrency=1)


async def _at_hand(plane: TestPlane) -> None:
    """Some runs, some waits for a person, some for others, some because somebody said so."""
    await plane.queues.pause(queue="reports", reason=REASON, actor="user:operator")
    await plane.queues.limit(4, queue="billing", actor="user:operator")
    for number in range(3):
        await plane.submit("report", {"number": number}, created_by="user:operator")
    await plane.submit("release", {"version": "2.4.1"}, tags=["production"], created_by="key:build server")
    for number in range(9):
        await plane.submit("invoice", {"number": 2042 + number}, priority=2 if number > 6 else 0, created_by="key:build server")
    await plane.submit("ticket", {"number": 9_001}, tenant="retail", delay=3_600)
    while len(await plane.jobs.list(status="RUNNING")) < 5:  # noqa: ASYNC110 - workers tell nobody what they have begun
        await asyncio.sleep(0.05)
