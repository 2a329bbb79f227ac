"""A server says that it lives, and whether it can do its work: what stands in the way is named, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from cortex_plane import Context
from cortex_plane.errors import Unavailable
from cortex_plane.testing import ManualClock
from cortex_plane.worker.heartbeat import STALE_SECONDS
from cortex_plane.worker.loops import BackgroundLoop
from tests.contract.support import raw_client
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

ROOT = "http://localhost"


class TurnedClock(ManualClock):
    """Its stopwatch is the test's too."""

    seconds = 1_000.0

    def elapsed(self) -> float:
        return self.seconds


async def checks(api: Api) -> tuple[int, dict[str, str]]:
    answer = await (await api.stranger()).get(f"{ROOT}/readyz")
    found: dict[str, str] = answer.json()["checks"]
    assert answer.json()["ready"] == (answer.status_code == 200)
    return answer.status_code, found


async def test_a_server_is_ready_when_everything_is_well(api: Api) -> None:
    assert await checks(api) == (200, {"database": "ok", "loop sweeper": "ok"})
    assert (await (await api.stranger()).get(f"{ROOT}/healthz")).json() == {"status": "ok"}


async def test_it_is_not_ready_while_the_database_is_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away() -> None:
        raise Unavailable("postgresql://ada:hunter2@db is away")

    monkeypatch.setattr(api.plane.store.schema, "status", away)
    answer = await (await api.stranger()).get(f"{ROOT}/readyz")

    assert (answer.status_code, answer.json()["checks"]["database"]) == (503, "does not answer")
    assert "hunter2" not in answer.text
    assert (await (await api.stranger()).get(f"{ROOT}/healthz")).status_code == 200


async def test_it_is_not_ready_while_the_database_does_not_answer_in_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(api.plane.store.schema, "status", never)
    monkeypatch.setattr("cortex_plane.worker.heartbeat.ANSWER_SECONDS", 0.01)

    assert (await checks(api))[0] == 503


async def test_it_is_not_ready_on_tables_of_an_older_version(api: Api) -> None:
    async with raw_client(api.plane.settings.database_url, api.plane.clock) as raw:
        await raw("delete from cortex.migration where version = (select max(version) from cortex.migration)")

    status, found = await checks(api)

    assert (status, found["database"]) == (503, "lacks 1 migrations: cortex db upgrade")


async def test_it_is_not_ready_on_tables_of_a_newer_version(api: Api) -> None:
    async with raw_client(api.plane.settings.database_url, api.plane.clock) as raw:
        await raw(f"insert into cortex.migration (version, name, checksum, applied_at) values (9999, 'x', 'x', {raw.now})")

    status, found = await checks(api)

    assert (status, found["database"]) == (503, "cannot be used by this version: cortex db status")


async def test_it_is_not_ready_when_a_loop_has_not_gone_well_for_long(api: Api) -> None:
    clock, went_well = TurnedClock(), asyncio.Event()

    async def once() -> float:
        went_well.set()
        return 3_600.0

    loop = BackgroundLoop("counter", once, clock)
    api.app.state.loops.append(loop)
    task = asyncio.create_task(loop.run())
    await went_well.wait()
    await asyncio.sleep(0)

    clock.seconds += STALE_SECONDS - 1
    in_time = await checks(api)
    clock.seconds += 1
    late = await checks(api)

    task.cancel()
    assert in_time[0] == 200
    assert (late[0], late[1]["loop counter"]) == (503, "last went well 300 s ago")


async def test_a_loop_that_never_went_well_counts_from_its_beginning(api: Api) -> None:
    clock, tried = TurnedClock(), asyncio.Event()

    async def once() -> float:
        tried.set()
        raise ValueError("never")

    loop = BackgroundLoop("counter", once, clock)
    api.app.state.loops.append(loop)
    task = asyncio.create_task(loop.run())
    await tried.wait()
    clock.seconds += STALE_SECONDS

    status, found = await checks(api)

    task.cancel()
    assert status == 503
    assert found["loop counter"] != "ok"


async def test_the_loops_of_a_worker_in_the_same_process_count_too(api: Api) -> None:
    begun = asyncio.Event()

    @api.plane.agent("begin")
    async def begin(ctx: Context) -> None:
        begun.set()

    async def never() -> float:
        raise AssertionError("nobody calls it")

    await api.submit("begin")
    working = asyncio.create_task(api.plane.run_worker())
    await begun.wait()
    [worker] = api.plane._workers
    worker.loops.append(BackgroundLoop("counter", never, TurnedClock(), last_ok_at=0.0))

    status, found = await checks(api)

    api.plane.stop_workers()
    with suppress(asyncio.CancelledError):
        await working
    assert status == 503
    assert [name for name, word in found.items() if word != "ok"] == ["loop counter"]
