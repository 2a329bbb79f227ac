"""Submitting in the caller's own transaction: with the commit the job appears, with the rollback it never was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import apsw
import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from cortex_plane import Context, InvalidInput
from cortex_plane.jobs.fields import Submission
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


class Caller:
    """A caller's connection, with a transaction open."""

    def __init__(self, connection: Any, commit: Any, rollback: Any) -> None:
        self.connection, self.commit, self.rollback = connection, commit, rollback


async def _now(action: Any) -> None:
    result = action()
    if asyncio.iscoroutine(result):
        await result


@asynccontextmanager
async def with_asyncpg(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield Caller(connection, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def with_an_asyncpg_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Caller(connection, transaction.commit, transaction.rollback)


@asynccontextmanager
async def with_psycopg(url: str) -> AsyncIterator[Caller]:
    with psycopg.connect(url) as connection:
        yield Caller(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def with_async_psycopg(url: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Caller(connection, connection.commit, connection.rollback)


def engine_url(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


@asynccontextmanager
async def with_sqlalchemy(url: str) -> AsyncIterator[Caller]:
    engine = sqlalchemy.create_engine(engine_url(url, "psycopg"))
    with engine.connect() as connection:
        yield Caller(connection, connection.commit, connection.rollback)
    engine.dispose()


@asynccontextmanager
async def with_a_sqlalchemy_session(url: str) -> AsyncIterator[Caller]:
    engine = sqlalchemy.create_engine(engine_url(url, "psycopg"))
    with Session(engine) as session:
        yield Caller(session, session.commit, session.rollback)
    engine.dispose()


@asynccontextmanager
async def with_async_sqlalchemy(url: str, driver: str = "asyncpg") -> AsyncIterator[Caller]:
    pytest.importorskip("greenlet", reason="SQLAlchemy's asyncio side needs greenlet.")
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(engine_url(url, driver))
    async with engine.connect() as connection:
        yield Caller(connection, connection.commit, connection.rollback)
    await engine.dispose()


@asynccontextmanager
async def with_async_sqlalchemy_on_psycopg(url: str) -> AsyncIterator[Caller]:
    async with with_async_sqlalchemy(url, "psycopg") as caller:
        yield caller


@asynccontextmanager
async def with_apsw(url: str) -> AsyncIterator[Caller]:
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(5_000)
    connection.execute("begin immediate")
    yield Caller(connection, lambda: connection.execute("commit"), lambda: connection.execute("rollback"))
    connection.close()


ON_POSTGRES = [
    with_asyncpg,
    with_an_asyncpg_pool,
    with_psycopg,
    with_async_psycopg,
    with_sqlalchemy,
    with_a_sqlalchemy_session,
    with_async_sqlalchemy,
    with_async_sqlalchemy_on_psycopg,
]
WAYS = [*(("postgres", way) for way in ON_POSTGRES), ("sqlite", with_apsw)]
each_way = pytest.mark.parametrize(
    ("database_url", "way"), WAYS, indirect=["database_url"], ids=[f"{kind}-{way.__name__}" for kind, way in WAYS]
)


@pytest.fixture
def echo(plane: TestPlane) -> Any:
    @plane.agent("echo")
    async def echo(ctx: Context, text: str = "") -> str:
        return text

    return echo


@each_way
async def test_a_commit_makes_the_job_appear(plane: TestPlane, echo: Any, database_url: str, way: Any) -> None:
    await plane.open()
    async with way(database_url) as caller:
        job = await plane.submit("echo", {"text": "50% off: now :jobs"}, connection=caller.connection, tags=["%s"])
        if not database_url.startswith("sqlite"):
            assert await plane.jobs.list() == []
        await _now(caller.commit)

    assert [one.id for one in await plane.jobs.list()] == [job.id]
    await plane.work()
    assert await job.result() == "50% off: now :jobs"


@each_way
async def test_after_a_rollback_the_job_never_was(plane: TestPlane, echo: Any, database_url: str, way: Any) -> None:
    await plane.open()
    async with way(database_url) as caller:
        await plane.submit_many([Submission("echo", serial_key="k") for _ in range(3)], connection=caller.connection)
        await _now(caller.rollback)

    assert await plane.jobs.list() == []
    assert await plane.store.queue.depths() == {}
    after = await plane.submit("echo", {"text": "after"})
    await plane.work()
    assert await after.result() == "after"


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_the_agents_handle_takes_a_connection_too(plane: TestPlane, echo: Any, database_url: str) -> None:
    await plane.open()
    async with with_asyncpg(database_url) as caller:
        await plane.submit("echo", connection=caller.connection)
        await caller.rollback()

    assert await plane.jobs.list() == []


@pytest.mark.parametrize(
    ("database_url", "connection"),
    [("postgres", "a text"), ("postgres", object()), ("sqlite", "a text"), ("postgres", apsw.Connection(":memory:"))],
    indirect=["database_url"],
)
async def test_what_is_no_connection_is_refused_by_name(plane: TestPlane, echo: Any, connection: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        await plane.submit("echo", connection=connection)

    assert refused.value.field == "connection"
    assert await plane.jobs.list() == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_connection_of_sqlalchemy_to_sqlite_is_refused(plane: TestPlane, echo: Any) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(InvalidInput, match=r"takes an apsw\.Connection"):
        await plane.submit("echo", connection=connection)
    engine.dispose()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_sql_alone_can_submit(plane: TestPlane, echo: Any, database_url: str) -> None:
    await plane.open()
    async with with_asyncpg(database_url) as caller:
        job_id = await caller.connection.fetchval("""select cortex.add_job('echo', '{"text": "from sql"}')""")
        await caller.commit()

    await plane.work()
    assert await plane.jobs.result(str(job_id)) == "from sql"
