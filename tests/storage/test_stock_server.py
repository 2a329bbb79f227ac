"""What a stock server makes slow: JIT is on there, and it compiles every plan whose estimated cost is high."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
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

EXPLAINED = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
}
"""The server writes the plan of each statement into its log, those inside functions too, and whether it was compiled."""
DRAINED = 500


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


@pytest.fixture
def compiled(stock: PostgresCluster) -> Callable[[], list[str]]:
    """The statements that the server has compiled since the test began, as its log tells: see EXPLAINED."""
    log = stock._folder / "server.log"
    begun = log.stat().st_size

    def told() -> list[str]:
        plans = log.read_bytes()[begun:].decode(errors="replace").split("LOG:  duration: ")[1:]
        assert plans, "the server writes no plans into its log"
        return [plan.split("Query Text:")[1][:200] for plan in plans if "\n\tJIT:" in plan]

    return told


@pytest.mark.parametrize("steered", [False, True])
async def test_a_claim_takes_no_longer_because_of_jit(
    facts: dict[str, Any], session: Session, compiled: Callable[[], list[str]], steered: bool
) -> None:
    if steered:
        await session.connection.execute("insert into cortex.control (scope, name, max_running) values ('agent', 'echo', 900000)")
    await session.connection.execute("load 'auto_explain'")
    for name, value in EXPLAINED.items():
        await session.connection.execute(f"set {name} = {value}")
    try:
        await _claim_save_and_finish(facts, session)
    finally:
        await session.connection.execute("delete from cortex.control")

    assert compiled() == []


async def _claim_save_and_finish(facts: dict[str, Any], session: Session) -> None:
    await session.begin()
    claimed = await session.claim(facts["worker"], 20)
    saved = await session.save(*(snapshot(one) for one in claimed))
    done = await session.finish(
        *(ended(one, Done("1")) for one in claimed[:10]), *(ended(one, Interrupted()) for one in claimed[10:])
    )
    await session.rollback()
    assert len(claimed) == len(saved) == len(done) == 20


async def test_a_worker_drains_a_queue_on_a_stock_server(stock: PostgresCluster, compiled: Callable[[], list[str]]) -> None:
    url = stock.create_database("drained")
    plane = Plane(settings=Settings(database_url=url))

    @plane.agent("echo")
    async def echo(ctx: Any) -> int:
        return 1

    async with plane:
        await plane.submit_many(Submission("echo") for _ in range(DRAINED))
    for name, value in EXPLAINED.items():
        stock.execute(f"alter database drained set {name} = {value}")
    stock.execute("alter database drained set session_preload_libraries = auto_explain")
    async with plane:
        await plane.run_worker(concurrency=100, until_idle=True)
        assert [queue.waiting for queue in await plane.queues.list() if queue.waiting] == []

    assert compiled() == []
