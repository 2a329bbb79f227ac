"""What the contract needs: a scene on one store, and a raw client that knows nothing of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Protocol

import apsw
import asyncpg

from cortex_plane.agents.model import AgentConfig, AgentRecord
from cortex_plane.approvals.decisions import mint
from cortex_plane.approvals.model import ApprovalId
from cortex_plane.approvals.rules import new_approval
from cortex_plane.clock import as_datetime
from cortex_plane.durable.schema import Checkpoint
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, AgentId, Claimed, Job, JobId, NewJob, RunId, TenantId, WorkerId
from cortex_plane.jobs.outcomes import Chance, Done, Failed, Interrupted, Outcome, Transition, after_run
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json_schema import check_schema
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from cortex_plane.worker.model import NewWorker
from cortex_plane.worker.rescue import rescue_runs

NO_JITTER = RetryPolicy(backoff=Backoff(jitter=False))
BOOM = Failed({"type": "ValueError", "message": "boom"})
FATAL = Failed({"type": "ValueError", "message": "boom"}, retryable=False)


class Refused(Exception):
    """The database itself said no to a raw statement."""


class Raw(Protocol):
    """Any client of the database. Statements are written for PostgreSQL; `now` is the time in the dialect's words."""

    kind: str

    @property
    def now(self) -> str: ...

    async def __call__(self, sql: str) -> list[tuple[Any, ...]]: ...


class RawPostgres:
    kind = "postgres"
    now = "cortex.now()"

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.connection = connection

    async def __call__(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return [tuple(row.values()) for row in await self.connection.fetch(sql)]
        except asyncpg.PostgresError as error:
            raise Refused(str(error)) from error


class RawSqlite:
    kind = "sqlite"

    def __init__(self, connection: apsw.Connection, clock: ManualClock) -> None:
        self.connection = connection
        self._clock = clock

    @property
    def now(self) -> str:
        return str(self._clock.now())

    async def __call__(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return list(self.connection.execute(sql.replace("cortex.", "")).fetchall())
        except apsw.Error as error:
            raise Refused(str(error)) from error


@asynccontextmanager
async def raw_client(database_url: str, clock: ManualClock) -> AsyncIterator[Raw]:
    """A second connection with the defaults of its driver, as a person at a prompt would have it."""
    if database_url.startswith("sqlite"):
        connection = apsw.Connection(database_url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(5_000)
        try:
            yield RawSqlite(connection, clock)
        finally:
            connection.close()
    else:
        session = await asyncpg.connect(database_url)
        try:
            yield RawPostgres(session)
        finally:
            await session.close()


class Scene:
    """One store, with agents and workers as a test asks for them."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self._agents: dict[str, AgentId] = {}

    @property
    def now(self) -> datetime:
        return as_datetime(self.clock.now())

    async def agent(self, job_type: str = "echo", **config: Any) -> AgentId:
        if job_type not in self._agents:
            await self.store.agents.register([AgentRecord(AgentId(new_id()), job_type, AgentConfig(**config))])
            self._agents = {agent.job_type: agent.id for agent in await self.store.agents.list()}
        return self._agents[job_type]

    async def worker(self, name: str = "worker", lease_seconds: float = 15.0) -> WorkerId:
        worker_id = WorkerId(new_id())
        await self.store.workers.register(NewWorker(worker_id, name, ("default",), ("echo",), 10, lease_seconds))
        return worker_id

    async def new_job(self, job_type: str = "echo", **fields: Any) -> NewJob:
        defaults = {"id": JobId(new_id()), "tenant_id": DEFAULT_TENANT_ID, "queue": "default", "payload": "{}"}
        values: dict[str, Any] = {**defaults, **fields}
        return NewJob(agent_id=await self.agent(job_type), job_type=job_type, **values)

    async def submit(self, job_type: str = "echo", **fields: Any) -> JobId:
        job = await self.new_job(job_type, **fields)
        [job_id] = await self.store.jobs.submit([job])
        return job_id

    async def tenant(self, name: str) -> TenantId:
        tenant_id = TenantId(new_id())
        await self.store.tenants.add(tenant_id, name)
        return tenant_id

    async def claim(
        self, worker_id: WorkerId, limit: int = 10, queues: Sequence[str] = ("default",), job_types: Sequence[str] = ("echo",)
    ) -> list[Claimed]:
        return await self.store.queue.claim(worker_id, queues, job_types, run_ids(limit))

    async def finish(self, claimed: Claimed, outcome: Outcome, policy: RetryPolicy = NO_JITTER, by: str = "test") -> bool:
        return claimed.run_id in await self.store.queue.finish([ended(claimed, outcome, policy)], by)

    async def running(self, **fields: Any) -> Claimed:
        """A job that a worker of its own has just claimed."""
        job_id = await self.submit(**fields)
        claimed = await self.claim(await self.worker(), 1, (fields.get("queue", "default"),), (fields.get("job_type", "echo"),))
        assert [one.job_id for one in claimed] == [job_id]
        return claimed[0]

    async def rescue(self) -> int:
        """What any other worker would do about those that were declared LOST."""
        return await rescue_runs(self.store, await self.worker(), new_id, lambda: 0.5)

    async def job(self, job_id: JobId) -> Job:
        job = await self.store.jobs.get(job_id)
        assert job is not None
        return job

    async def status(self, job_id: JobId) -> JobStatus:
        return (await self.job(job_id)).status

    async def in_state(self, status: JobStatus, raw: Raw) -> JobId:
        """A job that came into this state by legal steps."""
        if status is JobStatus.PENDING:
            return await self.submit()
        claimed = await self.running()
        match status:
            case JobStatus.COMPLETED:
                await self.finish(claimed, Done('{"answer": 42}'))
            case JobStatus.FAILED:
                await self.finish(claimed, FATAL)
            case JobStatus.RETRY:
                await self.finish(claimed, BOOM)
            case JobStatus.CANCELLED:
                await self.store.jobs.cancel(claimed.job_id, None, None)
            case JobStatus.WAITING_FOR_APPROVAL:
                await self.ask(claimed)
        assert await self.status(claimed.job_id) is status
        return claimed.job_id

    async def ask(self, claimed: Claimed) -> None:
        """Its job waits for anybody who may approve."""
        request = new_approval(
            request_id=ApprovalId(new_id()),
            job_id=claimed.job_id,
            run_id=claimed.run_id,
            agent_id=await self.agent(claimed.job_type),
            tenant_id=claimed.tenant_id,
            gate_key="approval",
            token_hash=mint(bytes.fromhex(new_id().replace("-", "") * 2)).hash,
            summary="Deploy",
            check_schema=check_schema,
        )
        waiting = Transition(claimed.job_id, claimed.run_id, JobStatus.WAITING_FOR_APPROVAL, "ask")
        assert await self.store.approvals.open(waiting, request, "test")


def into(status: JobStatus, raw: Raw) -> str:
    """Every column that a raw statement must set to bring a job into this state, and no other."""
    columns = {
        "status": f"'{status}'",
        "run_id": "null",
        "worker_id": "null",
        "next_retry_at": "null",
        "wait_reason": "null",
        "approval_token": "null",
        "approval_expires_at": "null",
        "error_message": "null",
        "finished_at": raw.now if status.is_terminal else "null",
        "updated_at": "updated_at + 1" if raw.kind == "sqlite" else raw.now,
    }
    match status:
        case JobStatus.RUNNING:
            columns["run_id"] = f"'{new_id()}'"
        case JobStatus.RETRY:
            a_day = "86400000000" if raw.kind == "sqlite" else "interval '1 day'"
            columns |= {"next_retry_at": f"{raw.now} + {a_day}", "wait_reason": "'sleep'"}
        case JobStatus.WAITING_FOR_APPROVAL:
            columns |= {"approval_token": "'digest'", "approval_expires_at": raw.now}
        case JobStatus.FAILED:
            columns["error_message"] = "'by hand'"
    return ", ".join(f"{column} = {value}" for column, value in columns.items())


def run_ids(count: int) -> list[RunId]:
    return [RunId(new_id()) for _ in range(count)]


def ended(claimed: Claimed, outcome: Outcome, policy: RetryPolicy = NO_JITTER) -> Transition:
    return after_run(claimed, outcome, policy, Chance(1.0, JobId(new_id())))


def snapshot(claimed: Claimed, document: str = "{}", previous: Checkpoint | None = None, **fields: Any) -> Checkpoint:
    """The next checkpoint of a run; the first one, unless it is told which it follows."""
    values: dict[str, Any] = {"checkpoint_id": new_id(), "previous_id": previous.checkpoint_id if previous else None, **fields}
    return Checkpoint(claimed.job_id, claimed.run_id, document=document, **values)


async def again(scene: Scene, claimed: Claimed) -> Claimed:
    """The next run of a job whose run was interrupted."""
    await scene.finish(claimed, Interrupted())
    [fresh] = await scene.claim(await scene.worker(), 1)
    assert fresh.job_id == claimed.job_id
    return fresh
