"""The application object: a store, and the agents that this program has in code."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload
from weakref import WeakKeyDictionary

from cortex_plane.access import Access
from cortex_plane.adapters.system import SystemClock, new_id
from cortex_plane.agent_options import AgentOptions, WorkOptions, agent_code, check_positive
from cortex_plane.agents import Agent, AsyncHandler
from cortex_plane.approvals import Approvals
from cortex_plane.auditing import Auditing
from cortex_plane.checkpoints import CheckpointsOfPlane
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import (
    DEFAULT_QUEUE,
    DEFAULT_TENANT,
    INTERNAL_PREFIX,
    JobId,
)
from cortex_plane.core.traces import carried
from cortex_plane.costs import Costs
from cortex_plane.grants import Billing, Grants
from cortex_plane.groups import Groups
from cortex_plane.handles import JobHandle
from cortex_plane.looking import Looking
from cortex_plane.opened import Opened
from cortex_plane.operations.await_result import await_result
from cortex_plane.operations.cancel_job import cancel_job
from cortex_plane.operations.find_job import find_job_id
from cortex_plane.operations.retry_job import retry_job
from cortex_plane.operations.submit_jobs import Submission, submit_jobs
from cortex_plane.options import SubmitOptions
from cortex_plane.people import People
from cortex_plane.ports.channels import Channel
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.graphs import GraphCheckpoints
from cortex_plane.ports.store import Store
from cortex_plane.retention import Retention
from cortex_plane.runs import Runs
from cortex_plane.runtime.agents import AgentCode, check_handler, kind_of
from cortex_plane.runtime.commands import command_handler
from cortex_plane.runtime.context import Context
from cortex_plane.runtime.durable.recorder import Fault, Sizes
from cortex_plane.runtime.graphs import Ask, by_approval, graph_handler
from cortex_plane.runtime.lending import Lender, Terms
from cortex_plane.runtime.worker import Worker, WorkerOptions
from cortex_plane.schedules import Decorated, Schedules, TermsOptions
from cortex_plane.settings import Settings, load_settings
from cortex_plane.steering import Steering
from cortex_plane.sync import SyncPlane
from cortex_plane.templates import Templates
from cortex_plane.tenants import Tenants
from cortex_plane.webhooks import Webhooks
from cortex_plane.wiring import graph_executor
from cortex_plane.workers import Workers

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Plane(Steering, Looking):
    """`plane = Plane()` uses sqlite:///cortex.db, or what CORTEX_DATABASE_URL says. It opens when it is first used."""

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        ids: NewId = new_id,
        chance: Callable[[], float] = random.random,
        channels: Mapping[str, Channel] | None = None,
    ) -> None:
        self.settings = settings or load_settings({"database_url": database_url})
        self.agents: dict[str, AgentCode] = {}
        self.clock: Clock = clock or SystemClock()
        self.sync = SyncPlane(self)
        self.audit = Auditing(self)
        self.templates = Templates(self)
        self.groups = Groups(self)
        self.webhooks = Webhooks(self)
        self.costs = Costs(self)
        self.tenants = Tenants(self)
        self.checkpoints = CheckpointsOfPlane(self)
        self.retention = Retention(self)
        self.runs = Runs(self)
        self.workers = Workers(self)
        self.access = Access(self)
        self.grants = Grants(self)
        self.billing = Billing(self)
        self.schedules = Schedules(self)
        self.approvals = Approvals(self)
        self.people = People(self)
        self.channels = dict(channels or {})
        """Ways to reach approvers, by type, that take the place of those in the settings."""
        self._ids, self._chance = ids, chance
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, Opened] = WeakKeyDictionary()
        self._workers: list[Worker] = []
        self.fault: Fault | None = None
        self.execution_app: Any = None
        """The ASGI application that is the execution service, where it is in this process; see `serve_itself`."""

    # -- agents ----------------------------------------------------------------------------------

    @overload
    def agent(self, name: str, **options: Unpack[AgentOptions]) -> AgentDecorator: ...

    @overload
    def agent(self, name: AsyncHandler[Arguments, Result]) -> Agent[Arguments, Result]: ...

    def agent(self, name: str | Callable[..., Any], **options: Unpack[AgentOptions]) -> Any:
        """Makes a function an agent: `@plane.agent("release-bot")`, or `@plane.agent` under the function's own name."""
        if callable(name):
            return self.agent(name.__name__)(name)

        def register(handler: Callable[..., Any]) -> Agent[Any, Any]:
            check_handler(name, handler)
            return self._register(agent_code(name, handler, kind_of(handler), **options))

        return register

    def command(self, name: str, argv: Sequence[str], **options: Unpack[WorkOptions]) -> Agent[..., dict[str, Any]]:
        """Makes a program an agent. `{name}` in its words is replaced by the job's argument of that name."""
        if isinstance(argv, str) or not argv or not all(isinstance(word, str) for word in argv):
            raise InvalidInput('argv must be a list of words, such as ["convert", "{source}", "out.png"].', field="argv")
        return self._register(agent_code(name, command_handler(argv, Path(self.settings.files)), "command", **options))

    def graph(self, name: str, compiled: Any, *, ask: Ask = by_approval, **options: Unpack[AgentOptions]) -> Agent[..., Any]:
        """Makes a graph an agent: `plane.graph("langgraph:poet", builder.compile())`. A job's arguments are the graph's input;
        its state is kept in this store, and its interrupts become approvals."""
        handler = graph_handler(graph_executor(compiled), self._graph_checkpoints, ask)
        return self._register(agent_code(name, handler, "async", **options))

    async def _graph_checkpoints(self) -> GraphCheckpoints:
        return (await self._open_here()).store.graphs

    def _register(self, code: AgentCode) -> Agent[Any, Any]:
        if code.job_type.startswith(INTERNAL_PREFIX):
            raise InvalidInput(
                f'Names that begin with "{INTERNAL_PREFIX}" are the plane\'s own. Rename this agent.', field="name"
            )
        if code.job_type in self.agents:
            raise InvalidInput(f'There are two agents named "{code.job_type}". Rename one of them.', field="name")
        self.agents[code.job_type] = code
        return Agent(self, code)

    def schedule(
        self, cron: str, *, name: str | None = None, tenant: str = DEFAULT_TENANT, **terms: Unpack[TermsOptions]
    ) -> Callable[[Decorated], Decorated]:
        """Runs an agent by a cron rule, above or below `@plane.agent`: `@plane.schedule("0 9 * * mon-fri",
        timezone="Europe/Berlin")`. Under the agent's name, unless another is given. A worker that starts adds it, changes it,
        and pauses it when the code declares it no more; what an operator has paused stays paused."""
        return self.schedules.declare(cron, name=name, tenant=tenant, **terms)

    # -- submitting ------------------------------------------------------------------------------

    async def submit(self, agent: str, payload: dict[str, Any] | None = None, **options: Unpack[SubmitOptions]) -> JobHandle[Any]:
        """Submits a job by its agent's name; the agent's code may live in another program."""
        asked: dict[str, Any] = dict(options)
        connection = asked.pop("connection", None)
        job_ids = await self.submit_checked([Submission(agent, payload, **asked)], connection)
        return JobHandle(self, job_ids[0])

    async def submit_many(self, submissions: Iterable[Submission], *, connection: Any = None) -> list[JobHandle[Any]]:
        """All of them or none, in one transaction, in this order."""
        return [JobHandle(self, job_id) for job_id in await self.submit_checked(list(submissions), connection)]

    async def submit_checked(
        self,
        submissions: Sequence[Submission],
        connection: Any = None,
        *,
        ids: NewId | None = None,
        traceparent: str | None = None,
    ) -> list[JobId]:
        """`ids` gives the jobs' ids; those that it gave once before change nothing. `traceparent` is the caller's span."""
        opened = await self._open_here()
        submit = partial(
            submit_jobs,
            opened.store,
            opened.directory,
            ids or self._ids,
            submissions,
            connection=connection,
            payload_limit_bytes=self.settings.payload_limit_bytes,
        )
        if opened.telemetry is None:
            return await submit(trace=carried(traceparent))
        with opened.telemetry.submitting([asked.agent for asked in submissions], traceparent) as trace:
            return await submit(trace=trace)

    # -- asking ----------------------------------------------------------------------------------

    def job(self, job_id: str) -> JobHandle[Any]:
        """A handle for a job that was submitted earlier, or elsewhere."""
        return JobHandle(self, JobId(job_id))

    async def result(self, job_id: str, timeout: float | None = None) -> Any:
        return await await_result((await self._open_here()).store, self.clock, JobId(job_id), timeout)

    # -- steering --------------------------------------------------------------------------------

    async def cancel(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> JobId:
        store = (await self._open_here()).store
        job_id = await find_job_id(store, id_or_prefix)
        await cancel_job(store, job_id, actor=actor, reason=reason)
        return job_id

    async def retry(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        """A new job with the same work, linked to the one that ended."""
        store = (await self._open_here()).store
        job_id = await find_job_id(store, id_or_prefix)
        return JobHandle(self, await retry_job(store, self._ids, job_id, actor=actor))

    # -- working ---------------------------------------------------------------------------------

    async def run_worker(
        self,
        queues: Sequence[str] | None = None,
        *,
        concurrency: int | None = None,
        until_idle: bool = False,
        name: str = "",
    ) -> None:
        """Runs this plane's agents until `stop_workers()`; with `until_idle`, until nothing is ready and nothing runs."""
        opened = await self._open_here()
        options = self._worker_options(queues, concurrency, name)
        await opened.register(opened.built_in)
        await self.schedules.keep_declared()
        agents = {**self.agents, **opened.built_in}
        lender = Lender(opened.store, opened.directory, self.clock, self._ids, self._chance, self._terms(), opened.telemetry)
        worker = Worker(opened.store, agents, options, self.clock, self._ids, self._chance, lender)
        self._workers.append(worker)
        try:
            await worker.run(until_idle=until_idle)
        finally:
            self._workers.remove(worker)

    def stop_workers(self) -> None:
        """Asks every worker of this plane to stop in order."""
        for worker in self._workers:
            worker.stop()

    def _worker_options(self, queues: Sequence[str] | None, concurrency: int | None, name: str) -> WorkerOptions:
        if not self.agents:
            raise InvalidInput("This plane has no agents, so a worker would have nothing to do. Add one with @plane.agent(...).")
        settings = self.settings
        wanted = concurrency if concurrency is not None else settings.concurrency
        check_positive(wanted, "concurrency")
        return WorkerOptions(
            queues=tuple(queues or sorted({code.config.queue for code in self.agents.values()} | {DEFAULT_QUEUE})),
            concurrency=wanted,
            lease_seconds=settings.lease_seconds,
            grace_seconds=settings.grace_seconds,
            blocked_limit_seconds=settings.blocked_limit_seconds,
            name=name,
        )

    def _terms(self) -> Terms:
        sizes = Sizes(self.settings.checkpoint_warn_bytes, self.settings.checkpoint_limit_bytes)
        return Terms(Path(self.settings.files), sizes, self.fault)

    # -- opening and closing ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._open_here()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.store.close()

    @property
    async def store(self) -> Store:
        """The open store, for operations that have no method here."""
        return (await self._open_here()).store

    async def _open_here(self) -> Opened:
        """One store for each event loop, because connections belong to the loop that made them."""
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None:
            opened = self._opened[loop] = Opened(self)
        await opened.ready()
        return opened


class AgentDecorator:
    """Keeps the types of the function that it decorates."""

    @overload
    def __call__(self, handler: AsyncHandler[Arguments, Result]) -> Agent[Arguments, Result]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Context, Arguments], Result]) -> Agent[Arguments, Result]: ...
    def __call__(self, handler: Any) -> Any: ...
