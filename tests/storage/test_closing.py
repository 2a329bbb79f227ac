"""Closing a store or a plane leaves no connection to PostgreSQL open, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from cortex_plane import Plane, Settings
from cortex_plane.errors import Unavailable
from cortex_plane.jobs.model import WorkerId
from cortex_plane.storage.postgres.database import PostgresDatabase
from cortex_plane.storage.postgres.signals import PostgresSignals
from cortex_plane.testing import PostgresCluster
from cortex_plane.wiring import open_store
from tests.runtime.helpers import eventually, register_worker

pytestmark = pytest.mark.anyio


async def nobody_is_connected(administrator: psycopg.Connection, url: str) -> None:
    """A server process ends a moment after its client."""
    name = url.rsplit("/", 1)[1]

    async def none() -> bool:
        row = administrator.execute("select count(*) from pg_stat_activity where datname = %s", [name]).fetchone()
        return row == (0,)

    await eventually(none, 10)


async def opened(url: str) -> Any:
    store: Any = open_store(url)
    await store.open()
    return store


async def test_a_look_for_a_pooler_that_gets_one_connection_only_closes_it(
    cluster: PostgresCluster, administrator: psycopg.Connection, postgres_url: str
) -> None:
    administrator.execute("create role lone login connection limit 1")
    name = postgres_url.rsplit("/", 1)[1]
    database = PostgresDatabase(f"postgresql://lone@/{name}?host=127.0.0.1&port={cluster.port}")
    try:
        with pytest.raises(Unavailable, match="too many connections"):
            await PostgresSignals(database).probe()

        await nobody_is_connected(administrator, postgres_url)
    finally:
        administrator.execute("drop role lone")


async def test_closing_that_is_cancelled_at_every_turn_closes_all(administrator: psycopg.Connection, postgres_url: str) -> None:
    store = await opened(postgres_url)
    await register_worker(store)
    store.signals.subscribe(asyncio.Event(), queues=frozenset({"default"}))
    await asyncio.to_thread(store.workers.heartbeat(WorkerId("01a1f5da-ca70-738e-b84e-fda17766296f")), 10.0)
    closing = asyncio.create_task(store.close())
    while not closing.done():
        await asyncio.sleep(0)
        closing.cancel()

    await nobody_is_connected(administrator, postgres_url)


async def test_a_plane_that_is_closed_while_it_opens_leaves_nothing_open(
    administrator: psycopg.Connection, postgres_url: str
) -> None:
    plane = Plane(settings=Settings(database_url=postgres_url))
    opening = asyncio.create_task(plane.jobs.list())
    await asyncio.sleep(0.01)

    await plane.close()
    await asyncio.gather(opening, return_exceptions=True)

    await nobody_is_connected(administrator, postgres_url)


async def test_a_heartbeat_after_the_end_opens_no_connection(administrator: psycopg.Connection, postgres_url: str) -> None:
    store = await opened(postgres_url)
    beat = store.workers.heartbeat(await register_worker(store))
    await store.close()

    with pytest.raises(Unavailable, match="closed"):
        await asyncio.to_thread(beat, 10.0)

    await nobody_is_connected(administrator, postgres_url)
