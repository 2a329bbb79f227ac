"""What a stock server makes slow: JIT is on there, and it compiles every plan whose estimated cost is high."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from cortex_plane.jobs.fields import Submission
from cortex_plane.jobs.outcomes import Done, Interrupted
from cortex_plane.plane import Plane
from cortex_plane.settings import Settings
from cortex_plane.storage.statements import statement
from cortex_plane.testing import ManualClock, PostgresCluster
from cortex_plane.wiring import open_store
from tests.contract.sessions import Session, sessions
from tests.contract.support import Scene, ended, snapshot
from tests.stock import stock_cluster
from tests.storage.plans import populate, questions
from tests.storage.test_postgres_plans import FILL

pytestmark = pytest.mark.anyio

ROUNDS = 10
NOISE_SECONDS = 0.01
"""On a busy machine. Compiling takes 70 ms and more, at every call."""
DRAINED = 1_000


@pytest.fixture(scope="module")
def stock() -> Iterator[PostgresCluster]:
    yield from stock_cluster()


@pytest.fixture(scope="module")
async def facts(stock: PostgresCluster, anyio_backend: str) -> dict[str, Any]:
    url = stock.create_database("large")
    clock = ManualClock()
    store: Any = open_store(url)
    await store.open()
    await clock.rule(url)
    scene = Scene(store, clock)
    await scene.agent()
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("show jit") == "on", "this server is not a stock one"
    await connection.execute(FILL)
    found = await populate(scene)
    await connection.execute("analyze")
    await connection.close()
    await store.close()
    return {**found, "url": url, "scene": scene}


@pytest.fixture
async def session(facts: dict[str, Any]) -> AsyncIterator[Session]:
    async with sessions(facts["url"], 1) as [session]:
        yield session


async def test_no_plan_of_a_question_is_compiled(facts: dict[str, Any], session: Session) -> None:
    compiled = []
    for question, (name, values) in questions(facts, "postgres").items():
        wanted = statement(name, "postgres")
        arguments = [values[parameter] for parameter in wanted.parameters]
        [(plan,)] = await session.connection.fetch(f"explain (format json) {wanted.sql.rstrip().rstrip(';')}", *arguments)
        if "JIT" in json.loads(plan)[0]:
            compiled.append(question)

    assert not compiled


async def test_every_function_that_forbids_scans_forbids_compiling_too(session: Session, facts: dict[str, Any]) -> None:
    """A forbidden scan that is taken all the same counts as so expensive that its plan is compiled at every call."""
    forgotten = await session.connection.fetch(
        "select proname from pg_proc where pronamespace = 'cortex'::regnamespace "
        "and proconfig::text like '%enable\\_%' and not 'jit=off' = any (proconfig)"
    )

    assert [row[0] for row in forgotten] == []


@pytest.mark.parametrize("steered", [False, True])
async def test_a_claim_takes_no_longer_because_of_jit(facts: dict[str, Any], session: Session, steered: bool) -> None:
    if steered:
        await session.connection.execute("insert into cortex.control (scope, name, max_running) values ('agent', 'echo', 900000)")
    try:
        with_jit, without = await _claims(facts, session)
    finally:
        await session.connection.execute("delete from cortex.control")

    assert min(with_jit) < 2 * min(without) + NOISE_SECONDS, (with_jit, without)


async def _claims(facts: dict[str, Any], session: Session) -> tuple[list[float], list[float]]:
    """Seconds for a claim, a checkpoint and an end of 20 jobs, with and without JIT in turn; each is undone."""
    taken: dict[str, list[float]] = {"on": [], "off": []}
    for jit in ("on", "off") * (ROUNDS + 1):
        await session.connection.execute(f"set jit = {jit}")
        await session.begin()
        begun = time.perf_counter()
        claimed = await session.claim(facts["worker"], 20)
        saved = await session.save(*(snapshot(one) for one in claimed))
        done = await session.finish(
            *(ended(one, Done("1")) for one in claimed[:10]), *(ended(one, Interrupted()) for one in claimed[10:])
        )
        taken[jit].append(time.perf_counter() - begun)
        await session.rollback()
        assert len(claimed) == len(saved) == len(done) == 20
    return taken["on"][1:], taken["off"][1:]


async def test_a_worker_drains_a_queue_on_a_stock_server(stock: PostgresCluster) -> None:
    with_jit: list[float] = []
    without: list[float] = []
    for round_ in range(2):
        for jit, taken in (("on", with_jit), ("off", without)):
            name = f"drain_{jit}_{round_}"
            url = stock.create_database(name)
            stock.execute(f"alter database {name} set jit = {jit}")
            taken.append(await _drain(url))

    assert min(with_jit) < 2 * min(without), (with_jit, without)


async def _drain(url: str) -> float:
    plane = Plane(settings=Settings(database_url=url))

    @plane.agent("echo")
    async def echo(ctx: Any) -> int:
        return 1

    async with plane:
        await plane.submit_many(Submission("echo") for _ in range(DRAINED))
        begun = time.perf_counter()
        await plane.run_worker(concurrency=100, until_idle=True)
        taken = time.perf_counter() - begun
        assert [queue.waiting for queue in await plane.queues.list() if queue.waiting] == []
    return taken
