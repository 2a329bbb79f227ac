"""Fixtures for users' tests: a throw-away plane, and a fresh PostgreSQL database. Nothing of ours is loaded until one is used.

Both are plain fixtures, so they work under anyio, under pytest-asyncio, and in tests that are not async at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from cortex_plane.testing import PostgresCluster, TestPlane


TEMPLATE = "cortex_template"
FOR_SPEED = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "128MB"}


@pytest.fixture
def cortex_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestPlane]:
    """A plane on a SQLite file of its own, with a clock that the test turns: `await cortex_plane.clock.advance(days=3)`."""
    plane = _plane(tmp_path_factory.mktemp("cortex"))
    yield plane
    plane.close_everywhere()


@pytest.fixture(scope="session")
def cortex_postgres_cluster() -> Iterator[PostgresCluster]:
    """One PostgreSQL server for the whole session, made for speed. Skips where there are no binaries."""
    from cortex_plane.errors import Unavailable
    from cortex_plane.testing import PostgresCluster

    try:
        cluster = PostgresCluster(settings=FOR_SPEED, in_memory=True)
    except Unavailable as missing:
        pytest.skip(str(missing))
    with cluster:
        _make_template(cluster)
        yield cluster


@pytest.fixture
def cortex_postgres_url(cortex_postgres_cluster: PostgresCluster) -> Iterator[str]:
    """A database with the schema and nothing else, for this test alone: `async with throwaway_plane(cortex_postgres_url)`."""
    from uuid import uuid4

    name = f"cortex_{uuid4().hex}"
    yield cortex_postgres_cluster.create_database(name, template=TEMPLATE)
    cortex_postgres_cluster.drop_database(name)


def _plane(folder: Path) -> TestPlane:
    from cortex_plane.settings import Settings
    from cortex_plane.testing import ManualClock, TestPlane

    settings = Settings(database_url=f"sqlite:///{folder}/test.db", data_dir=str(folder / "files"), grace_seconds=1.0)
    return TestPlane(settings=settings, clock=ManualClock())


def _make_template(cluster: PostgresCluster) -> None:
    from cortex_plane.plane import Plane
    from cortex_plane.settings import Settings

    migrated = Plane(settings=Settings(database_url=cluster.create_database(TEMPLATE))).sync
    migrated.jobs.list()
    migrated.close()
