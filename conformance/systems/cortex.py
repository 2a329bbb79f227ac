"""Cortex Plane: a job whose effects are tool calls with a `verify` hook, gone on with by whichever worker is there."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import apsw
import asyncpg
import psycopg
import structlog

from conformance.agent import CALLS, EFFECTS, QUESTIONS, STEPS, Doings, expected
from conformance.boundaries import Boundaries
from conformance.systems import Recorded
from cortex_plane import Applied, Backoff, Context, Plane, RetryPolicy, Settings
from cortex_plane.agents.agent import Agent
from cortex_plane.approvals.decisions import Decided
from cortex_plane.approvals.model import ApprovalRequest
from cortex_plane.durable.load import checked_blob
from cortex_plane.durable.schema import whole
from cortex_plane.event_loop import run
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import JobId

importlib.import_module("cortex_plane.durable.schema")  # Slow to import: once, before the children are forked.

PERSON = "ada"
PATIENCE_SECONDS = 20.0
LOOK_SECONDS = 0.01
LEASE_SECONDS = 1.0
"""Shorter than the default, only so that a killed worker is missed sooner."""

AT_ONCE = RetryPolicy(max_retries=10, backoff=Backoff(base_seconds=0.01, max_seconds=0.01))

READS = re.compile(r"(\s*--[^\n]*\n)*\s*select\b(?!.*\bcortex\.(?!now\b)\w+\s*\()", re.IGNORECASE | re.DOTALL)


class Cortex:
    def watch(self, boundaries: Boundaries) -> None:
        _watch_sqlite(boundaries)
        _watch_postgres(boundaries)

    def prepare(self, database: str) -> None:
        async def prepare() -> None:
            async with _plane(database) as plane:
                await plane.people.add(PERSON)

        run(prepare())

    def run(self, database: str, doings: Doings) -> list[str]:
        return run(_run(database, doings))

    def resume(self, database: str, doings: Doings) -> list[str]:
        return run(_resume(database, doings))

    def pay(self, database: str, doings: Doings) -> list[str]:
        return run(_pay(database, doings))

    def spread(self, database: str, doings: Doings) -> list[str]:
        return run(_spread(database, doings))

    def recorded(self, database: str) -> Recorded:
        return run(_recorded(database))

    def ask(self, database: str, doings: Doings) -> list[str]:
        return run(_ask(database, doings))

    def alter(self, database: str, old: str, new: str) -> bool:
        values = {"old": old, "new": new}
        if database.startswith("sqlite"):
            with closing(apsw.Connection(database.removeprefix("sqlite:///"))) as file:
                file.execute("update job set checkpoint = replace(checkpoint, :old, :new)", values)
                return file.changes() > 0
        with psycopg.connect(database) as connection:
            sql = "update cortex.job set checkpoint = replace(checkpoint::text, %(old)s, %(new)s)::jsonb"
            return connection.execute(sql, values).rowcount > 0


def _plane(database: str) -> Plane:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    folder = str(Path(gettempdir()) / "cortex-conformance")
    return Plane(settings=Settings(database_url=database, data_dir=folder, lease_seconds=LEASE_SECONDS, grace_seconds=1.0))


async def _run(database: str, doings: Doings) -> list[str]:
    plane = _plane(database)
    async with plane, _worked_on(plane, _ten(plane, doings)) as job:
        results: list[str] = await job.result(timeout=30)
        return results


async def _resume(database: str, doings: Doings) -> list[str]:
    plane = _plane(database)
    async with plane, _worked_on(plane, _ten(plane, doings)) as job:
        resumed = await job.resume()
        results: list[str] = await resumed.result(timeout=30)
        return results


def _ten(plane: Plane, doings: Doings) -> Agent[..., Any]:
    @plane.agent("ten", retry=RetryPolicy(max_retries=0))
    async def ten(ctx: Context) -> list[str]:
        return [await _take(ctx, doings, step) for step in STEPS]

    return ten


async def _pay(database: str, doings: Doings) -> list[str]:
    plane = _plane(database)

    @plane.agent("payment", retry=AT_ONCE)
    async def payment(ctx: Context) -> list[str]:
        def pay(invocation_id: str = "") -> str:
            return doings.pay(invocation_id)

        return [await ctx.tool("pay", on_uncertain="rerun")(pay)]

    async with plane, _worked_on(plane, payment) as job:
        results: list[str] = await job.result(timeout=30)
        return results


async def _spread(database: str, doings: Doings) -> list[str]:
    """The refused calls have no retry of their own: the job's retry repeats them, and only them."""
    plane = _plane(database)

    @plane.agent("six", retry=AT_ONCE)
    async def six(ctx: Context) -> list[str]:
        return await ctx.gather(*(ctx.step(name, doings.call, name) for name in CALLS))

    async with plane, _worked_on(plane, six) as job:
        results: list[str] = await job.result(timeout=30)
        return results


async def _ask(database: str, doings: Doings) -> list[str]:
    """The person answers what waits for them, by approving it with the answer filled in, and is told that it was taken."""
    plane = _plane(database)

    @plane.agent("questions")
    async def questions(ctx: Context) -> list[str]:
        return [await _answered(ctx, question) for question in QUESTIONS]

    async with plane, _worked_on(plane, questions) as job:
        for question in QUESTIONS:
            if not doings.was_given(question):
                await _give(plane, job, question, doings.answer(question))
                doings.note_given(question)
        answers: list[str] = await job.result(timeout=30)
        return answers


async def _answered(ctx: Context, question: str) -> str:
    approval = await ctx.approval(question, details={"answer": ""}, approvers=PERSON, editable=["answer"])
    answer: str = approval.details["answer"]
    return answer


async def _give(plane: Plane, job: JobHandle[Any], question: str, answer: str) -> None:
    """One that was killed before it could tell the person finds the question decided: then it was taken."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        request = await _request(plane, job, question)
    if request.decision is None:
        taken = await plane.approvals.approve(request.id, by=PERSON, details={"answer": answer})
        assert isinstance(taken, Decided), taken


async def _request(plane: Plane, job: JobHandle[Any], question: str) -> ApprovalRequest:
    while True:
        for request in await plane.approvals.list(job=job.id, open_only=False):
            if request.action_summary == question:
                return request
        await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def _worked_on(plane: Plane, agent: Agent[..., Any]) -> AsyncIterator[JobHandle[Any]]:
    """The job that an earlier process submitted, or a new one, with a worker beside it."""
    begun = await plane.jobs.list(agent=agent.name)
    job = plane.job(begun[0].id) if begun else await agent.submit()
    worker = asyncio.create_task(plane.run_worker(concurrency=1))
    try:
        yield job
    finally:
        await _stopped(plane, worker)


async def _stopped(plane: Plane, worker: asyncio.Task[None]) -> None:
    """Asked again if it had not even begun: a job that had ended before gives its result at once."""
    while not worker.done():
        plane.stop_workers()
        await asyncio.wait([worker], timeout=0.05)
    await worker


async def _take(ctx: Context, doings: Doings, step: str) -> str:
    if step not in EFFECTS:
        return await ctx.step(step, doings.perform, step)

    def verify(invocation_id: str) -> Applied | None:
        return Applied(expected(step)) if doings.has_happened(step) else None

    result: str = await ctx.tool(step, verify=verify)(doings.perform, step)
    return result


async def _recorded(database: str) -> Recorded:
    """Read and checked as a worker would do it."""
    plane = _plane(database)
    async with plane:
        store = plane.store
        stored = [await store.checkpoints.load(JobId(job.id)) for job in await plane.jobs.list()]
        if not stored or stored[0] is None:
            return []
        blob = checked_blob(stored[0])
    tools = {tool["invocation_id"]: tool for tool in blob["active_tools"]}
    steps = blob["memory_context"]["working_data"]["$cortex"]["steps"]
    results = {key.partition("#")[0]: whole(entry) for key, entry in steps.items()}
    ended = [step["step_id"] for step in blob["execution_log"] if step["step_id"] != "start"]
    return [(step, _result(results[step], tools)) for step in ended]


def _result(entry: dict[str, Any], tools: dict[str, Any]) -> str:
    result: str = tools[entry["invocation"]]["result"] if entry["kind"] == "tool" else entry["result"]
    return result


def _watch_sqlite(boundaries: Boundaries) -> None:
    class Watched(apsw.Connection):
        def execute(self, statements: str, *args: Any, **kwargs: Any) -> Any:
            if statements != "commit":
                return super().execute(statements, *args, **kwargs)
            with boundaries.around("commit"):
                return super().execute(statements, *args, **kwargs)

    apsw.Connection = Watched  # type: ignore[misc]


def _watch_postgres(boundaries: Boundaries) -> None:
    """A statement outside of a transaction commits itself; inside, the end of the transaction does."""
    connection_class: Any = asyncpg.Connection
    transaction_class: Any = asyncpg.transaction.Transaction
    execute, commit = connection_class._execute, transaction_class._Transaction__commit

    async def watched(connection: Any, query: str, *args: Any, **kwargs: Any) -> Any:
        if connection.is_in_transaction() or READS.match(query):
            return await execute(connection, query, *args, **kwargs)
        with boundaries.around("commit"):
            return await execute(connection, query, *args, **kwargs)

    async def watched_commit(transaction: Any) -> None:
        with boundaries.around("commit"):
            await commit(transaction)

    connection_class._execute = watched
    transaction_class._Transaction__commit = watched_commit
