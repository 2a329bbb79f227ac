"""When costs and budgets meet: each order is forced with explicit transactions on real connections."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from cortex_plane.agents.directory import Directory
from cortex_plane.costs.service import set_budget
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, Claimed
from cortex_plane.jobs.outcomes import Done, Transition
from cortex_plane.queues import controls
from cortex_plane.queues.model import Scope
from cortex_plane.queues.store import ControlStore
from tests.contract.sessions import Four
from tests.contract.support import Scene, ended

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


def costing(claimed: Claimed, cents: int) -> Transition:
    return ended(claimed, Done("1"))._replace(cost_cents=cents)


async def two_running(scene: Scene) -> list[Claimed]:
    """Of two agents, so that their costs are in two rows."""
    for job_type in ("echo", "other"):
        await scene.submit(job_type)
    claimed = await scene.claim(await scene.worker(), 2, job_types=("echo", "other"))
    assert len(claimed) == 2
    return claimed


async def tenant_budget(scene: Scene, cents: int) -> None:
    await set_budget(scene.store, Directory(scene.store), Scope.TENANT, "default", cents, "pause")


async def is_paused(scene: Scene) -> bool:
    return (await scene.store.controls.get(Scope.TENANT, DEFAULT_TENANT_ID)).paused


async def test_of_two_costs_at_once_the_second_counts_the_first(scene: Scene, four: Four) -> None:
    a, b, *_ = four
    first, second = await two_running(scene)
    await tenant_budget(scene, 100)

    await a.begin()
    assert await a.finish(costing(first, 60))
    late = asyncio.create_task(b.finish(costing(second, 60)))
    await b.waits(late)
    await a.commit()

    assert await late
    assert await is_paused(scene)


async def test_a_budget_that_is_set_meanwhile_counts_a_cost_that_was_under_way(scene: Scene, four: Four) -> None:
    a, *_ = four
    first, _ = await two_running(scene)
    await a.begin()
    assert await a.finish(costing(first, 60))

    setting = asyncio.create_task(tenant_budget(scene, 50))
    await somebody_waits(a.url)
    await a.commit()
    await setting

    assert await is_paused(scene)


async def test_a_pause_by_budget_is_not_undone_by_a_limit_that_is_set_meanwhile(scene: Scene, four: Four) -> None:
    """Whoever changes a control has read it before; the cost must wait until it is written."""
    a, b, *_ = four
    first, _ = await two_running(scene)
    await tenant_budget(scene, 50)

    await a.begin()
    await a.finish(costing(first, 60))
    limit = asyncio.create_task(controls.limit(scene.store, Scope.TENANT, DEFAULT_TENANT_ID, 3, actor="ada"), name="limit")
    await somebody_waits(a.url)
    await a.commit()
    await limit

    control = await ControlStore(b).get(Scope.TENANT, DEFAULT_TENANT_ID)  # type: ignore[arg-type]
    assert (control.paused, control.paused_by, control.max_running) == (True, "budget", 3)


async def somebody_waits(url: str, seconds: float = 10.0) -> None:
    """Until any connection to the database waits for a lock."""
    watcher = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(seconds):
            while not await watcher.fetchval(
                "select exists (select 1 from pg_stat_activity "
                "where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0)"
            ):
                await asyncio.sleep(0.002)
    finally:
        await watcher.close()
