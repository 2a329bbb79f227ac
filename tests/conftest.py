"""Both stores, always: a test that takes `store`, `plane` or `database_url` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
import structlog

from cortex_plane.ids import new_id
from cortex_plane.plane import Plane
from cortex_plane.settings import Settings
from cortex_plane.storage.postgres.signals import PostgresSignals
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock, PostgresCluster, TestPlane, throwaway_plane
from cortex_plane.testing.pytest_plugin import FOR_SPEED
from cortex_plane.wiring import open_store
from tests.stock import ASKED_FOR, stock_binaries

_numbers = itertools.count()

# A busy machine is slow, not wrong.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# Every HTTP client would read the certificates of all authorities of the world, and here nobody is asked over TLS.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))

# A pretty picture of an error, with all that is in its variables, takes seconds to draw.
if hasattr(structlog.dev.ConsoleRenderer, "get_active"):  # From structlog 25.5 on.
    structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback

# Whoever starts the tests in the background may have told them to ignore Ctrl-C; the programs under test must not inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def cluster() -> Iterator[PostgresCluster]:
    """One PostgreSQL server for the whole session; every test gets a database of its own, copied from a migrated one."""
    stock = os.environ.get(ASKED_FOR) == "1"
    server = PostgresCluster(settings={} if stock else FOR_SPEED, in_memory=True, binaries=stock_binaries() if stock else None)
    with server as cluster, pytest.MonkeyPatch.context() as patch:
        _migrate(cluster.create_database("cortex_template"))
        patch.setattr(PostgresSignals, "probe", _probe_but(cluster.port, PostgresSignals.probe))
        yield cluster


def _probe_but(port: int, probe: Callable[[PostgresSignals], Awaitable[bool]]) -> Callable[[PostgresSignals], Awaitable[bool]]:
    """No pooler stands before the server of this session: nobody need ask it anew, with two connections for each test."""

    async def ask(signals: PostgresSignals) -> bool:
        return signals.pushed if f":{port}/" in signals._database.url else await probe(signals)

    return ask


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file; a copy of it is ready in a tenth of the time that migrations take."""
    path = tmp_path_factory.mktemp("template") / "cortex.db"
    _migrate(f"sqlite:///{path}")
    return path


def _migrate(database_url: str) -> None:
    migrated = Plane(settings=Settings(database_url=database_url)).sync
    migrated.jobs.list()
    migrated.close()


@pytest.fixture(scope="session")
def administrator(cluster: PostgresCluster) -> Iterator[psycopg.Connection]:
    """Kept for the session: to connect takes a third of the time in which a database is made."""
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def postgres_url(cluster: PostgresCluster, administrator: psycopg.Connection) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    administrator.execute(f"create database {name} template cortex_template strategy file_copy")
    yield cluster.url(name)
    administrator.execute(f"drop database {name} with (force)")


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("sqlite_template"), tmp_path / "test.db")
        return f"sqlite:///{tmp_path}/test.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(database_url: str, clock: ManualClock) -> AsyncIterator[Store]:
    """An open, migrated, empty store that goes by `clock`."""
    store: Any = open_store(database_url, clock, new_id)
    await store.open()
    if database_url.startswith("postgres"):
        await clock.rule(database_url)
    yield store
    await store.close()


@pytest.fixture
async def plane(database_url: str) -> AsyncIterator[TestPlane]:
    """A plane with a clock that the test turns: `await plane.clock.advance(minutes=5)`, `await plane.work()`."""
    async with throwaway_plane(database_url) as plane:
        yield plane
