"""What operators copy from the pages works on a real server."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import asyncpg
import pytest

from cortex_plane import Context, Plane
from cortex_plane.testing import PostgresCluster
from tests.docs.pages import ROOT, Fence, fences

pytestmark = pytest.mark.anyio

QUERIES = [fence for fence in fences() if fence.language == "sql" and fence.text.startswith("select")]


@pytest.mark.parametrize("fence", QUERIES, ids=str)
async def test_every_query_can_be_asked(fence: Fence, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)

    for query in filter(str.strip, fence.text.split(";\n")):
        await connection.fetch(query.partition(";")[0])

    await connection.close()


def test_every_row_of_the_page_of_faults_names_tests_that_exist() -> None:
    lines = (ROOT / "docs/operations/faults.md").read_text().splitlines()
    rows = [line for line, following in zip(lines, [*lines[1:], ""], strict=True) if line[:2] == "| " and following[:2] != "|-"]
    named = {name for row in rows for name in re.findall(r"`(test_\w+)`", row)}
    written = {name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())}

    assert [row for row in rows if "`test_" not in row.rpartition(" | ")[2]] == []
    assert named - written == set()


async def test_a_dump_restored_as_the_guide_says_goes_on_where_it_stood(
    cluster: PostgresCluster, postgres_url: str, tmp_path: Path
) -> None:
    if not (cluster._bin / "pg_dump").exists():
        pytest.skip("these PostgreSQL binaries have no pg_dump")
    page = [fence for fence in fences() if fence.page == "docs/operations/backup-and-restore.md"]
    dump, restore = [line.removeprefix("$ ") for fence in page for line in fence.text.splitlines() if line.startswith("$ pg_")]
    plane = _plane(postgres_url)
    async with plane:
        job_id = (await plane.submit("greet", {"name": "Ada"})).id

    await _shell(dump, postgres_url, cluster, tmp_path)
    target = cluster.create_database("restored_from_a_dump")
    try:
        await _shell(restore, target, cluster, tmp_path)

        async with _plane(target) as restored:
            await restored.run_worker(until_idle=True)
            assert await restored.jobs.result(job_id, 5) == "Hello, Ada!"
            assert (await restored.audit.verify()).sound
        connection = await asyncpg.connect(target)
        with pytest.raises(asyncpg.CheckViolationError):  # The state machine came along.
            await connection.execute("update cortex.job set status = 'PENDING'")
        await connection.close()
    finally:
        cluster.drop_database("restored_from_a_dump")


def _plane(url: str) -> Plane:
    plane = Plane(url)

    @plane.agent("greet")
    async def greet(ctx: Context, name: str) -> str:
        return f"Hello, {name}!"

    return plane


async def _shell(line: str, url: str, cluster: PostgresCluster, folder: Path) -> None:
    """Not through subprocess.run: the plane's own connections live in this event loop."""
    environment = os.environ | {"CORTEX_DATABASE_URL": url, "PATH": f"{cluster._bin}:{os.environ['PATH']}"}
    done = await asyncio.create_subprocess_shell(line, cwd=folder, env=environment, stderr=asyncio.subprocess.PIPE)
    _, said = await done.communicate()
    assert done.returncode == 0, said.decode()
