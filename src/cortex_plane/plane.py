"""`Plane`: the application object, with the agents of this program and one service for each noun."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from cortex_plane.agents.agent import Agent, AsyncHandler
from cortex_plane.agents.arguments import names_around
from cortex_plane.agents.code import AgentCode, AgentOptions, WorkOptions, agent_code, check_handler, check_positive, kind_of
from cortex_plane.agents.directory import Directory
from cortex_plane.approvals.service import ApprovalService
from cortex_plane.audit.sealer import SealExporter
from cortex_plane.audit.service import AuditLog
from cortex_plane.clock import Clock, SystemClock
from cortex_plane.costs.service import CostService
from cortex_plane.durable.checkpoint import Fault, Sizes
from cortex_plane.durable.service import Checkpoints
from cortex_plane.errors import InvalidInput
from cortex_plane.grants.service import BillingService, GrantService
from cortex_plane.graphs.handlers import Ask, by_approval, graph_handler
from cortex_plane.groups.service import GroupService
from cortex_plane.ids import NewId, new_id
from cortex_plane.jobs.fields import Submission, SubmitOptions
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import DEFAULT_QUEUE, DEFAULT_TENANT, INTERNAL_PREFIX
from cortex_plane.jobs.runs import RunService
from cortex_plane.jobs.service import JobService
from cortex_plane.people.keys import AccessService
from cortex_plane.people.model import checked_channel_type
from cortex_plane.people.service import PeopleService
from cortex_plane.people.tenants import TenantService
from cortex_plane.queues.service import GateService, QueueService
from cortex_plane.retention.service import RetentionService
from cortex_plane.schedules.service import Decorated, ScheduleService, TermsOptions
from cortex_plane.settings import Settings, load_settings
from cortex_plane.sync import SyncPlane
from cortex_plane.telemetry import carried
from cortex_plane.templates.service import TemplateService
from cortex_plane.webhooks.service import WebhookService
from cortex_plane.wiring import (
    channels,
    clicks,
    execution_service,
    graph_executor,
    http_client,
    open_store,
    seal_target,
    telemetry,
)
from cortex_plane.worker.commands import command_handler
from cortex_plane.worker.isolation import Isolation
from cortex_plane.worker.loops import BackgroundLoop
from cortex_plane.worker.service import WorkerService
from cortex_plane.worker.services import RunServicesFactory, built_in_agents
from cortex_plane.worker.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from cortex_plane.approvals.channels.base import Channel, Clicks
    from cortex_plane.durable.context import Context
    from cortex_plane.grants.execution_service import ExecutionService
    from cortex_plane.graphs.store import GraphStore
    from cortex_plane.stores import Store
    from cortex_plane.telemetry import Telemetry

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Plane:
    """The control plane: registers agents, submits jobs and runs workers. It connects on first use.

        plane = Plane("sqlite:///cortex.db")

        @plane.agent("release-bot")
        async def release(ctx: Context, version: str) -> str: ...

    Args:
        database_url: sqlite:///file.db or postgresql://…; by default the setting `database_url` (CORTEX_DATABASE_URL).
        settings: All settings; by default they are read from cortex.toml and the environment.
        clock: For tests: the source of time.
        ids: For tests: the source of new ids.
        chance: For tests: the source of random numbers from 0 to 1.
        channels: Channels to reach approvers, by type. They override the built-in channels of the same type.
    """

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
        self.jobs = JobService(self)
        self.queues = QueueService(self)
        self.gate = GateService(self)
        self.audit = AuditLog(self)
        self.templates = TemplateService(self)
        self.groups = GroupService(self)
        self.webhooks = WebhookService(self)
        self.costs = CostService(self)
        self.tenants = TenantService(self)
        self.checkpoints = Checkpoints(self)
        self.retention = RetentionService(self)
        self.runs = RunService(self)
        self.workers = WorkerService(self)
        self.access = AccessService(self)
        self.grants = GrantService(self)
        self.billing = BillingService(self)
        self.schedules = ScheduleService(self)
        self.approvals = ApprovalService(self)
        self.people = PeopleService(self)
        self.channels = {checked_channel_type(name, "channels"): channel for name, channel in (channels or {}).items()}
        """Channels of this program, by type. They override the built-in channels of the same type."""
        self._ids, self._chance = ids, chance
        self._workers: list[Worker] = []
        self.fault: Fault | None = None
        self.app: str | None = None
        """Where another process imports this plane from: `file.py:plane` or `module:plane`. None: found among the modules."""
        self.execution_app: Any = None
        """The ASGI application of the execution service, if it runs in this process; see `serve_itself`."""

    # -- agents ----------------------------------------------------------------------------------

    @overload
    def agent(self, name: str, **options: Unpack[AgentOptions]) -> AgentDecorator: ...

    @overload
    def agent(self, name: AsyncHandler[Arguments, Result]) -> Agent[Arguments, Result]: ...

    def agent(self, name: str | Callable[..., Any], **options: Unpack[AgentOptions]) -> Any:
        """Registers a function as an agent: `@plane.agent("release-bot")`, or `@plane.agent` to use the function's name.

        Raises InvalidInput if the name is taken, reserved or invalid, or if an option is invalid."""
        if callable(name):
            check_handler(name.__name__, name)
            names = names_around(name, sys._getframe(1))
            return self._register(agent_code(name.__name__, name, kind_of(name), names, **options))

        def register(handler: Callable[..., Any]) -> Agent[Any, Any]:
            check_handler(name, handler)
            names = names_around(handler, sys._getframe(1))
            return self._register(agent_code(name, handler, kind_of(handler), names, **options))

        return register

    def command(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Sequence[str] = (),
        allow_options: bool = False,
        **options: Unpack[WorkOptions],
    ) -> Agent[..., dict[str, Any]]:
        """Registers a program as an agent. `{name}` in `argv` is replaced by the job's argument of that name.

        Args:
            name: The name of the agent.
            argv: The program and its arguments.
            environment: Names of environment variables to pass on. By default the program gets PATH, HOME, the locale and the
                like, but not the database URL or any token.
            allow_options: Accept values that turn an argument into an option (one that begins with `-`). By default they are
                rejected, except after `--`.
        """
        if isinstance(argv, str) or not argv or not all(isinstance(word, str) for word in argv):
            raise InvalidInput('argv must be a list of words, such as ["convert", "{source}", "out.png"].', field="argv")
        files = Path(self.settings.data_dir)
        handler = command_handler(argv, files, environment=environment, allow_options=allow_options)
        return self._register(agent_code(name, handler, "command", **options))

    def graph(self, name: str, compiled: Any, *, ask: Ask = by_approval, **options: Unpack[AgentOptions]) -> Agent[..., Any]:
        """Registers a graph as an agent: `plane.graph("langgraph:poet", builder.compile())`.

        The arguments of a job are the input of the graph. The state of the graph is stored in this plane's database, and its
        interrupts become approvals, or are answered by `ask`. Raises InvalidInput for anything but a compiled graph."""
        handler = graph_handler(graph_executor(compiled), self._graph_checkpoints, ask)
        return self._register(agent_code(name, handler, "async", **options))

    async def _graph_checkpoints(self) -> GraphStore:
        return self.store.graphs

    def _register(self, code: AgentCode) -> Agent[Any, Any]:
        if code.job_type.startswith(INTERNAL_PREFIX):
            raise InvalidInput(
                f'Names that begin with "{INTERNAL_PREFIX}" are the plane\'s own. Rename this agent.', field="name"
            )
        if code.job_type in self.agents:
            raise InvalidInput(f'There are two agents named "{code.job_type}". Rename one of them.', field="name")
        approval = code.config.approval.under(self.settings.approval_max_ttl_seconds)
        code = replace(code, config=replace(code.config, approval=approval))
        self.agents[code.job_type] = code
        return Agent(self, code)

    def schedule(
        self, cron: str, *, name: str | None = None, tenant: str = DEFAULT_TENANT, **terms: Unpack[TermsOptions]
    ) -> Callable[[Decorated], Decorated]:
        """Declares a schedule for an agent, above or below `@plane.agent`:

            @plane.schedule("0 9 * * mon-fri", timezone="Europe/Berlin")

        The schedule has the agent's name unless `name` is given. A worker that starts adds or updates the schedule, and pauses it
        if the code no longer declares it. Schedules paused by an operator stay paused."""
        return self.schedules.declare(cron, name=name, tenant=tenant, **terms)

    # -- submitting ------------------------------------------------------------------------------

    async def submit(self, agent: str, payload: dict[str, Any] | None = None, **options: Unpack[SubmitOptions]) -> JobHandle[Any]:
        """Submits a job by its agent's name. See `JobService.submit`."""
        return await self.jobs.submit(agent, payload, **options)

    async def submit_many(self, submissions: Iterable[Submission], *, connection: Any = None) -> list[JobHandle[Any]]:
        """Submits all of the jobs or none, in one transaction and in this order. See `JobService.submit_many`."""
        return await self.jobs.submit_many(submissions, connection=connection)

    def job(self, job_id: str) -> JobHandle[Any]:
        """A handle for an existing job. Does not check that the job exists."""
        return self.jobs.handle(job_id)

    # -- working ---------------------------------------------------------------------------------

    async def run_worker(
        self,
        queues: Sequence[str] | None = None,
        *,
        concurrency: int | None = None,
        until_idle: bool = False,
        name: str = "",
        internal: bool = False,
    ) -> None:
        """Runs this plane's agents until `stop_workers()` is called.

        Args:
            queues: The queues to work on; by default those of the agents, and the default queue.
            concurrency: The number of jobs to run in parallel; by default the setting.
            until_idle: Return when no job is ready and none is running.
            name: A name for the worker, shown in lists.
            internal: Run only internal jobs (notifications, webhooks, schedule slots, groups), `concurrency` at a time. No agents
                are needed then. Every other worker runs internal jobs in additional slots (the setting `internal_concurrency`).

        Raises:
            InvalidInput: The plane has no agents, or the options contradict each other.
        """
        await self.directory.register()
        options = self._worker_options(queues, concurrency, name, internal=internal)
        worker = await self._new_worker(options)
        await self.schedules.sync_declared()
        self._workers.append(worker)
        try:
            await worker.run(until_idle=until_idle)
        finally:
            self._workers.remove(worker)

    async def _new_worker(self, options: WorkerOptions, *, isolated: bool = False) -> Worker:
        """`isolated`: this process executes one run only, and starts no child processes."""
        await self.directory.register(self.built_in)
        agents = {**self.agents, **self.built_in}
        services = self._run_services()
        isolation = None if isolated else self._isolation()
        worker = Worker(self.store, agents, options, self.clock, self._ids, self._chance, services, isolation)
        if (target := self.settings.seal_export) and not isolated:
            exporter = SealExporter(self.store, target, seal_target(target, self.settings.seal_export_authorization))
            worker.more_loops = (BackgroundLoop("seal_exporter", exporter.once, self.clock),)
        return worker

    def _isolation(self) -> Isolation | None:
        """None if another process could not import this plane, or would use another clock."""
        app = self.app or place_of(self)
        if app is None or type(self.clock) is not SystemClock:
            return None
        return Isolation(app, asdict(self.settings))

    def stop_workers(self) -> None:
        """Asks every worker of this plane to stop gracefully. Returns at once."""
        for worker in self._workers:
            worker.stop()

    def _worker_options(
        self, queues: Sequence[str] | None, concurrency: int | None, name: str, *, internal: bool = False
    ) -> WorkerOptions:
        if internal and queues:
            raise InvalidInput(
                "An internal worker runs internal jobs only. Leave out the queues, or leave out internal.", field="queues"
            )
        if not internal and not self.agents:
            raise InvalidInput("This plane has no agents, so a worker would have nothing to do. Add one with @plane.agent(...).")
        settings = self.settings
        if concurrency is not None:
            check_positive(concurrency, "concurrency")
        own = settings.internal_concurrency
        return WorkerOptions(
            queues=() if internal else tuple(queues or self._queues_of_agents()),
            concurrency=concurrency or settings.concurrency,
            internal_concurrency=(concurrency or own) if internal else own,
            lease_seconds=settings.lease_seconds,
            grace_seconds=settings.grace_seconds,
            event_loop_timeout=settings.event_loop_timeout,
            name=name,
            seal_export=settings.seal_export,
        )

    def _queues_of_agents(self) -> list[str]:
        return sorted({code.config.queue for code in self.agents.values()} | {DEFAULT_QUEUE})

    def _run_services(self) -> RunServicesFactory:
        settings = self.settings
        sizes = Sizes(
            settings.checkpoint_warn_bytes,
            settings.checkpoint_limit_bytes,
            settings.result_max_bytes,
            settings.result_limit_bytes,
        )
        return RunServicesFactory(
            self.store,
            self.directory,
            self.clock,
            self._ids,
            self._chance,
            Path(settings.data_dir),
            sizes,
            self.fault,
            self.telemetry,
        )

    # -- opening and closing ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def open(self) -> None:
        """Connects in this event loop, creates the schema in an empty database, and registers the agents.

        Calling it is optional: the first operation connects too. `async with plane:` opens and closes.
        Raises DatabaseConfigError if the database cannot be used."""
        await self.store.open()
        await self.directory.register()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections of this event loop. Its workers stop first: handlers are interrupted, and their jobs resume on
        other workers."""
        loop = asyncio.get_running_loop()
        for worker in [worker for worker in self._workers if worker.loop is loop]:
            await worker.leave()
        await self.store.close()

    @cached_property
    def store(self) -> Store:
        """The stores of all nouns. Internal: use the services."""
        return open_store(self.settings.database_url, self.clock, self._ids)

    @cached_property
    def directory(self) -> Directory:
        """Agents and tenants by name."""
        return Directory(self.store, self.agents, self._ids)

    @cached_property
    def telemetry(self) -> Telemetry | None:
        return telemetry()

    @cached_property
    def execution(self) -> ExecutionService:
        """The service that executes jobs started by schedules."""
        return execution_service(
            self.settings, self.store, self.directory, self.clock, self._ids, http_client(), self.execution_app
        )

    @cached_property
    def clicks(self) -> dict[str, Clicks]:
        """Chat services that can send clicks on approval buttons, by name."""
        return clicks(self.settings, http_client(), self.clock)

    @cached_property
    def built_in(self) -> dict[str, AgentCode]:
        """The internal agents: notifications, webhooks, schedule slots and groups."""
        reached = channels(self.settings, http_client(), self.clock, self.store.webhooks.target, self.channels)
        return built_in_agents(
            self.store, self.directory, self._ids, self.clock, http_client(), self.execution, reached, self.settings.public_url
        )

    @contextmanager
    def submitting(self, agents: Sequence[str], traceparent: str | None = None) -> Iterator[str | None]:
        """Opens a span around a submission and yields its traceparent. `traceparent` is the caller's span."""
        if self.telemetry is None:
            yield carried(traceparent)
            return
        with self.telemetry.submitting(agents, traceparent) as trace:
            yield trace


def place_of(plane: Plane) -> str | None:
    """The variable that holds this plane, as `module:variable` or `file:variable`; None if there is none."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is plane:
                file = getattr(module, "__file__", None)
                place = file if name == "__main__" else name
                return None if place is None else f"{place}:{attribute}"
    return None


class AgentDecorator:
    """The type of `@plane.agent(name)`: keeps the signature of the decorated function."""

    @overload
    def __call__(self, handler: AsyncHandler[Arguments, Result]) -> Agent[Arguments, Result]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Context, Arguments], Result]) -> Agent[Arguments, Result]: ...
    def __call__(self, handler: Any) -> Any: ...
