"""PostgreSQL that refuses, restarts or dies: errors in words that help, and work that goes on afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from cortex_plane.errors import DatabaseConfigError, InvalidInput, Unavailable
from cortex_plane.ids import new_id
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus
from cortex_plane.storage.postgres.database import with_patience
from cortex_plane.testing import ManualClock, PostgresCluster
from cortex_plane.wiring import open_store
from tests.contract.support import Scene, ended, run_ids

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresCluster]:
    """A server of its own, because these tests stop it, kill it and lock it."""
    with PostgresCluster(settings={"fsync": "off", "full_page_writes": "off"}) as server:
        yield server


async def opened(url: str) -> Any:
    store: Any = open_store(url)
    await store.open()
    return store


async def scene_on(server: PostgresCluster) -> tuple[Any, Scene]:
    store = await opened(await asyncio.to_thread(server.create_database, f"db_{new_id()[-12:]}"))
    return store, Scene(store, ManualClock())


# -- refusals ------------------------------------------------------------------------------------


async def test_a_database_that_does_not_exist_is_named(server: PostgresCluster) -> None:
    with pytest.raises(DatabaseConfigError, match=r"/nowhere: the database does not exist\. Create it"):
        await opened(server.url("nowhere"))


async def test_a_port_where_nobody_listens_is_told_at_once(server: PostgresCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    patience = "cortex_plane.storage.postgres.database.PATIENCE_SECONDS"
    monkeypatch.setattr(patience, 3600.0)  # Whoever tried again would do so for longer than a test may take.

    with pytest.raises(Unavailable, match="Is the server running"):
        await opened("postgresql://postgres@127.0.0.1:9/cortex")


async def test_a_host_that_does_not_exist_is_told(server: PostgresCluster) -> None:
    with pytest.raises(Unavailable, match="no-such-host"):
        await opened("postgresql://postgres@no-such-host.invalid/cortex")


async def test_a_wrong_password_is_told_without_repeating_it(server: PostgresCluster) -> None:
    url = await asyncio.to_thread(server.create_database, "guarded")
    await asyncio.to_thread(server.execute, "create role ada login superuser password 'right'")
    access = server._folder / "data" / "pg_hba.conf"
    before = access.read_text()
    access.write_text("host all ada 127.0.0.1/32 scram-sha-256\n" + before)
    await asyncio.to_thread(server.restart)
    address = url.replace("postgres@", "ada:{}@")
    try:
        with pytest.raises(DatabaseConfigError, match="refused this user or password") as refused:
            await opened(address.format("s3cret"))
        assert "s3cret" not in str(refused.value)
        store = await opened(address.format("right"))
        assert "right" not in store.description
        await store.close()
    finally:
        access.write_text(before)
        await asyncio.to_thread(server.restart)


async def test_a_user_without_rights_is_told_what_is_missing(server: PostgresCluster) -> None:
    store, _ = await scene_on(server)
    await store.close()
    await asyncio.to_thread(server.execute, "create role guest login")
    with pytest.raises(DatabaseConfigError, match="may not do that"):
        await opened(store.database.session.url.replace("postgres@", "guest@"))


async def test_a_value_that_the_database_cannot_take_is_the_callers_mistake(server: PostgresCluster) -> None:
    store, scene = await scene_on(server)
    with pytest.raises(InvalidInput):
        await store.jobs.get("not-a-uuid")

    assert await scene.submit(), "and the connection is still good"
    await store.close()


async def test_a_store_opens_when_it_is_first_used_and_says_so_once_it_is_closed(server: PostgresCluster) -> None:
    store = open_store(server.create_database("first_use"))
    assert await store.jobs.list() == []
    await store.close()

    with pytest.raises(Unavailable, match="not open"):
        await store.jobs.list()


# -- restarts and kills --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["restart", "kill"])
async def test_work_goes_on_after_the_server_was_away(server: PostgresCluster, how: str) -> None:
    store, scene = await scene_on(server)
    job_id = await scene.submit()
    worker = await scene.worker()
    [claimed] = await scene.claim(worker)
    assert await asyncio.to_thread(store.workers.heartbeat(worker), 5.0)

    await asyncio.to_thread(server.stop if how == "restart" else server.kill)
    waiting = [
        asyncio.create_task(store.queue.finish([ended(claimed, Done("1"))], "test")),
        asyncio.create_task(scene.submit()),
        asyncio.create_task(store.jobs.get(job_id)),
    ]
    with pytest.raises(Unavailable):
        await store.queue.claim(worker, ["default"], ["echo"], run_ids(1))
    with pytest.raises(Unavailable):
        await asyncio.to_thread(store.workers.heartbeat(worker), 2.0)
    await asyncio.to_thread(server.start)

    finished, second, _ = await asyncio.wait_for(asyncio.gather(*waiting), 40)
    assert finished == {claimed.run_id}
    assert await scene.status(job_id) is JobStatus.COMPLETED
    assert await asyncio.to_thread(store.workers.heartbeat(worker), 5.0)
    assert [one.job_id for one in await scene.claim(worker)] == [second]
    await store.close()


async def test_a_write_that_is_repeated_applies_once(server: PostgresCluster) -> None:
    """The answer may be lost after the commit; the second try of the same batch changes nothing."""
    store, scene = await scene_on(server)
    jobs = [await scene.new_job() for _ in range(50)]

    async def submit_for_a_while() -> None:
        for job in jobs:
            await store.jobs.submit([job])
            begun.set()

    begun = asyncio.Event()
    submitting = asyncio.create_task(submit_for_a_while())
    await begun.wait()
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    await asyncio.wait_for(submitting, 40)

    assert {job.id for job in await store.jobs.list(limit=100)} == {job.id for job in jobs}
    assert await store.queue.depths() == {"default": {"ready": 50}}
    await store.close()


async def test_who_waits_for_signals_hears_again_after_a_restart(server: PostgresCluster) -> None:
    store, scene = await scene_on(server)
    await scene.agent()
    woken = asyncio.Event()
    store.signals.subscribe(woken, queues=frozenset({"default"}))
    await asyncio.wait_for(woken.wait(), 10)
    woken.clear()
    await asyncio.to_thread(server.restart)
    await asyncio.wait_for(woken.wait(), 20)  # Listening again: whatever was said meanwhile may have been missed.
    woken.clear()

    await scene.submit()
    await asyncio.wait_for(woken.wait(), 10)
    await store.close()


async def test_a_server_that_stays_away_is_told_in_the_end(server: PostgresCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_plane.storage.postgres.database.PATIENCE_SECONDS", 0.5)
    store, _ = await scene_on(server)
    await asyncio.to_thread(server.stop)
    try:
        with pytest.raises(Unavailable, match="does not answer"):
            await store.jobs.list()
    finally:
        await asyncio.to_thread(server.start)
        await store.close()


async def test_one_connection_that_is_cut_costs_nobody_anything(server: PostgresCluster) -> None:
    store, scene = await scene_on(server)
    job_id = await scene.submit()
    name = store.database.session.url.rsplit("/", 1)[1]
    await asyncio.to_thread(
        server.execute,
        f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}' and pid <> pg_backend_pid()",
    )

    assert await scene.status(job_id) is JobStatus.PENDING
    await store.close()


async def test_a_deadlock_is_tried_again(server: PostgresCluster) -> None:
    """The server chose us to give way; a repeated statement succeeds."""
    tries = []

    async def attempt() -> list[Any]:
        tries.append(1)
        if len(tries) < 3:
            raise asyncpg.DeadlockDetectedError("deadlock detected")
        return []

    assert await with_patience(attempt, "test") == []
    assert len(tries) == 3
