"""What the autoscaler asks the database: asked here, on PostgreSQL, also by a user who may read three tables and no more."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import asyncpg
import pytest

from cortex_plane import Context
from cortex_plane.testing import throwaway_plane
from tests.deploy.files import ROOT, manifest

pytestmark = pytest.mark.anyio

PAGE = ROOT / "docs" / "operations" / "from-one-machine-to-many.md"


def trigger() -> dict[str, str]:
    (found,) = manifest("ScaledObject", "cortex-worker")["spec"]["triggers"]
    metadata: dict[str, str] = found["metadata"]
    return metadata


async def jobs_counted(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval(trigger()["query"]))
    finally:
        await connection.close()


async def test_it_counts_what_is_ready_and_not_what_is_later_or_paused(postgres_url: str) -> None:
    async with throwaway_plane(postgres_url) as plane:

        @plane.agent("report")
        async def report(ctx: Context) -> None: ...

        await report.submit()
        await report.options(queue="mail").submit()
        await report.options(delay=60).submit()
        assert await jobs_counted(postgres_url) == 2

        await plane.queues.pause(queue="mail", reason="the provider is down")
        assert await jobs_counted(postgres_url) == 1

        await plane.gate.close("nothing more today")
        assert await jobs_counted(postgres_url) == 0


async def test_it_counts_what_runs(postgres_url: str) -> None:
    seen: list[int] = []
    async with throwaway_plane(postgres_url) as plane:

        @plane.agent("report")
        async def report(ctx: Context) -> None:
            seen.append(await jobs_counted(postgres_url))

        await report.submit()
        await plane.work()

    assert seen == [1]


async def test_the_user_that_the_guide_makes_may_ask_and_nothing_else(postgres_url: str) -> None:
    statements = re.search(r"```sql\n(create role cortex_scaler.*?)```", PAGE.read_text(), re.DOTALL)
    assert statements is not None
    owner = await asyncpg.connect(postgres_url)
    await owner.execute(statements[1])
    try:
        as_scaler = urlsplit(postgres_url)._replace(query="").geturl()
        connection = await asyncpg.connect(as_scaler, user="cortex_scaler", password="PASSWORD")

        assert await connection.fetchval(trigger()["query"]) == 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("select payload from cortex.job")
        await connection.close()
    finally:
        await owner.execute("drop owned by cortex_scaler; drop role cortex_scaler")
        await owner.close()


def test_a_worker_more_comes_for_as_many_jobs_as_it_takes() -> None:
    settings = manifest("ConfigMap", "cortex-settings")["data"]

    assert trigger()["targetQueryValue"] == settings["CORTEX_CONCURRENCY"]
    assert manifest("ScaledObject", "cortex-worker")["spec"]["minReplicaCount"] >= 2
