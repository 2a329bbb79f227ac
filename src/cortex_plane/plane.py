"""The application object: a store, and the agents that this program has in code."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload
from weakref import WeakKeyDictionary

from cortex_plane.agents.agent import Agent, AsyncHandler
from cortex_plane.agents.arguments import names_around
from cortex_plane.agents.code import AgentCode, AgentOptions, WorkOptions, agent_code, check_handler, check_positive, kind_of
from cortex_plane.approvals.service import ApprovalService
from cortex_plane.audit.sealer import SealExporter
from cortex_plane.audit.service import AuditLog
from cortex_plane.clock import Clock, SystemClock
from cortex_plane.connection import Connection
from cortex_plane.costs.service import CostService
from cortex_plane.durable.checkpoint import Fault, Sizes
from cortex_plane.durable.resume import resume_job, settle_call
from cortex_plane.durable.service import Checkpoints
from cortex_plane.errors import InvalidInput
from cortex_plane.grants.service import BillingService, GrantService
from cortex_plane.graphs.handlers import Ask, by_approval, graph_handler
from cortex_plane.groups.service import GroupService
from cortex_plane.ids import NewId, new_id
from cortex_plane.jobs.changes import CancelMode, cancel_job, release_job, retry_job
from cortex_plane.jobs.fields import Submission, SubmitOptions, check_submit_options
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.lookup import await_result, find_job_id
from cortex_plane.jobs.model import DEFAULT_QUEUE, DEFAULT_TENANT, INTERNAL_PREFIX, JobId
from cortex_plane.jobs.runs import RunService
from cortex_plane.jobs.service import Looking
from cortex_plane.jobs.submission import submit_jobs
from cortex_plane.people.keys import AccessService
from cortex_plane.people.model import checked_channel_type
from cortex_plane.people.service import PeopleService
from cortex_plane.people.tenants import TenantService
from cortex_plane.queues.service import Steering
from cortex_plane.retention.service import RetentionService
from cortex_plane.schedules.service import Decorated, ScheduleService, TermsOptions
from cortex_plane.settings import Settings, load_settings
from cortex_plane.sync import SyncPlane
from cortex_plane.templates.service import TemplateService
from cortex_plane.webhooks.service import WebhookService
from cortex_plane.wiring import graph_executor, seal_target
from cortex_plane.worker.commands import command_handler
from cortex_plane.worker.isolation import Isolation
from cortex_plane.worker.loops import Duty
from cortex_plane.worker.service import WorkerService
from cortex_plane.worker.services import Lender, Terms
from cortex_plane.worker.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from cortex_plane.approvals.channels.base import Channel
    from cortex_plane.durable.context import Context
    from cortex_plane.graphs.store import GraphStore
    from cortex_plane.stores import Store

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
        """Ways to reach approvers, by type: new ones, or in the place of those in the settings."""
        self._ids, self._chance = ids, chance
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = WeakKeyDictionary()
        self._workers: list[Worker] = []
        self.fault: Fault | None = None
        self.app: str | None = None
        """Where another process finds this plane: `file.py:plane` or `module:plane`. None: looked for among the modules."""
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
        """Makes a program an agent. `{name}` in its words is replaced by the job's argument of that name.

        The program sees PATH, HOME, the locale and the like of the worker's environment, and the variables that `environment`
        names; not the address of the database, nor any token. A word that begins with `-` only because of a value is refused,
        unless it stands after `--`, or `allow_options` is set."""
        if isinstance(argv, str) or not argv or not all(isinstance(word, str) for word in argv):
            raise InvalidInput('argv must be a list of words, such as ["convert", "{source}", "out.png"].', field="argv")
        files = Path(self.settings.files)
        handler = command_handler(argv, files, environment=environment, allow_options=allow_options)
        return self._register(agent_code(name, handler, "command", **options))

    def graph(self, name: str, compiled: Any, *, ask: Ask = by_approval, **options: Unpack[AgentOptions]) -> Agent[..., Any]:
        """Makes a graph an agent: `plane.graph("langgraph:poet", builder.compile())`. A job's arguments are the graph's input;
        its state is kept in this store, and its interrupts become approvals."""
        handler = graph_handler(graph_executor(compiled), self._graph_checkpoints, ask)
        return self._register(agent_code(name, handler, "async", **options))

    async def _graph_checkpoints(self) -> GraphStore:
        return (await self._open_here()).store.graphs

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
        """Runs an agent by a cron rule, above or below `@plane.agent`: `@plane.schedule("0 9 * * mon-fri",
        timezone="Europe/Berlin")`. Under the agent's name, unless another is given. A worker that starts adds it, changes it,
        and pauses it when the code declares it no more; what an operator has paused stays paused."""
        return self.schedules.declare(cron, name=name, tenant=tenant, **terms)

    # -- submitting ------------------------------------------------------------------------------

    async def submit(self, agent: str, payload: dict[str, Any] | None = None, **options: Unpack[SubmitOptions]) -> JobHandle[Any]:
        """Submits a job by its agent's name; the agent's code may live in another program."""
        check_submit_options("plane.submit", options)
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
        with opened.submitting([asked.agent for asked in submissions], traceparent) as trace:
            return await submit_jobs(
                opened.store,
                opened.directory,
                ids or self._ids,
                submissions,
                connection=connection,
                payload_limit_bytes=self.settings.payload_limit_bytes,
                trace=trace,
            )

    # -- asking ----------------------------------------------------------------------------------

    def job(self, job_id: str) -> JobHandle[Any]:
        """A handle for a job that was submitted earlier, or elsewhere."""
        return JobHandle(self, JobId(job_id))

    async def result(self, job_id: str, timeout: float | None = None) -> Any:
        return await await_result((await self._open_here()).store, self.clock, JobId(job_id), timeout)

    # -- steering --------------------------------------------------------------------------------

    async def cancel(
        self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None, mode: CancelMode = "cleanup"
    ) -> JobId:
        """A job inside an open `ctx.cleanup()` is asked to end, and cleans up first; mode="kill" ends it at once."""
        store = (await self._open_here()).store
        job_id = await find_job_id(store, id_or_prefix)
        await cancel_job(store, job_id, actor=actor, reason=reason, mode=mode)
        return job_id

    async def resume(
        self, id_or_prefix: str, *, actor: str | None = None, ids: NewId | None = None, revision: int | None = None
    ) -> JobHandle[Any]:
        """Goes on with a job that failed or was cancelled, as a new job that is linked to it (`retry_of`).

        Recorded steps answer, the call that failed is made again, with fresh retries; a child that failed is resumed, and an
        approval that was denied or expired is asked for again. A job that recorded nothing begins anew. It acts on the last job
        of the retry chain. With `revision`, only while the job is at it.

        Raises JobNotFound, StillRunning (naming the job that is live), NothingToResume for a job that is COMPLETED, and
        CheckpointCorrupted."""
        store = (await self._open_here()).store
        job_id = await find_job_id(store, id_or_prefix)
        check = self.checkpoints.check
        return JobHandle(self, await resume_job(store, ids or self._ids, job_id, check, actor=actor, revision=revision))

    async def settle(
        self,
        id_or_prefix: str,
        call: str,
        *,
        applied: bool,
        result: Any = None,
        actor: str | None = None,
        ids: NewId | None = None,
        revision: int | None = None,
    ) -> JobHandle[Any]:
        """Says what became of an uncertain tool call of a job that ended, and goes on as a new job that is linked to it.

        `call` is the tool's name, with `#2` for its second time. With `applied=True` the call has the given `result`; with
        `applied=False` it took no effect, and is made. `jobs show` and `Inside.uncertain` list what is uncertain.

        Raises JobNotFound, StillRunning (naming the job that is live), NothingToResume for a job that is COMPLETED, and
        InvalidInput when the job has no such uncertain call."""
        store = (await self._open_here()).store
        job_id = await find_job_id(store, id_or_prefix)
        checkpoint_of = partial(self.checkpoints.with_settled, call=call, applied=applied, result=result)
        settled_as = await settle_call(
            store,
            ids or self._ids,
            job_id,
            call,
            checkpoint_of,
            applied=applied,
            result=result,
            actor=actor,
            revision=revision,
        )
        return JobHandle(self, settled_as)

    async def retry(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        """Runs a finished job again from the beginning, as a new job that is linked to it. It acts on the last job of the retry
        chain. To keep what is recorded: `resume`."""
        store = (await self._open_here()).store
        job_id = await find_job_id(store, id_or_prefix)
        return JobHandle(self, await retry_job(store, self._ids, job_id, actor=actor))

    async def release_job(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> JobId:
        """Lets any worker try a job that is held because its code did not fit (`wait_reason` code_changed)."""
        store = (await self._open_here()).store
        job_id = await find_job_id(store, id_or_prefix)
        await release_job(store, job_id, actor=actor, reason=reason)
        return job_id

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
        """Runs this plane's agents until `stop_workers()`; with `until_idle`, until nothing is ready and nothing runs.

        Every worker has slots of their own for notifications, webhooks, slots of schedules and groups (the setting
        `internal_concurrency`). With `internal` it does nothing else, in `concurrency` slots, and needs no agents."""
        options = self._worker_options(queues, concurrency, name, internal=internal)
        worker = await self._new_worker(options)
        await self.schedules.keep_declared()
        self._workers.append(worker)
        try:
            await worker.run(until_idle=until_idle)
        finally:
            self._workers.remove(worker)

    async def _new_worker(self, options: WorkerOptions, *, isolated: bool = False) -> Worker:
        """`isolated`: this process has one run alone, and makes no others."""
        opened = await self._open_here()
        await opened.register(opened.built_in)
        agents = {**self.agents, **opened.built_in}
        lender = Lender(opened.store, opened.directory, self.clock, self._ids, self._chance, self._terms(), opened.telemetry)
        isolation = None if isolated else self._isolation()
        worker = Worker(opened.store, agents, options, self.clock, self._ids, self._chance, lender, isolation)
        if (target := self.settings.seal_export) and not isolated:
            exporter = SealExporter(opened.store, target, seal_target(target, self.settings.seal_export_authorization))
            worker.more_duties = (Duty("seal_exporter", exporter.once, self.clock),)
        return worker

    def _isolation(self) -> Isolation | None:
        """None when no other process would find this plane, or would go by another clock."""
        app = self.app or place_of(self)
        if app is None or type(self.clock) is not SystemClock:
            return None
        return Isolation(app, asdict(self.settings))

    def stop_workers(self) -> None:
        """Asks every worker of this plane to stop in order."""
        for worker in self._workers:
            worker.stop()

    def _worker_options(
        self, queues: Sequence[str] | None, concurrency: int | None, name: str, *, internal: bool = False
    ) -> WorkerOptions:
        if internal and queues:
            raise InvalidInput(
                "An internal worker does the plane's own work alone. Leave out the queues, or leave out internal.", field="queues"
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
            blocked_limit_seconds=settings.blocked_limit_seconds,
            name=name,
            seal_export=settings.seal_export,
        )

    def _queues_of_agents(self) -> list[str]:
        return sorted({code.config.queue for code in self.agents.values()} | {DEFAULT_QUEUE})

    def _terms(self) -> Terms:
        settings = self.settings
        sizes = Sizes(
            settings.checkpoint_warn_bytes,
            settings.checkpoint_limit_bytes,
            settings.result_max_bytes,
            settings.result_limit_bytes,
        )
        return Terms(Path(self.settings.files), sizes, self.fault)

    # -- opening and closing ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._open_here()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Its workers in this event loop leave first: their handlers are interrupted, and the jobs go on elsewhere."""
        loop = asyncio.get_running_loop()
        for worker in [worker for worker in self._workers if worker.loop is loop]:
            await worker.leave()
        opened = self._opened.pop(loop, None)
        if opened is not None:
            await opened.close()

    @property
    async def store(self) -> Store:
        """The open store, for operations that have no method here."""
        return (await self._open_here()).store

    async def _open_here(self) -> Connection:
        """One store for each event loop, because connections belong to the loop that made them."""
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None:
            opened = self._opened[loop] = Connection(self)
        await opened.ready()
        return opened


def place_of(plane: Plane) -> str | None:
    """The module, or the file, in which a plane is a variable."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is plane:
                file = getattr(module, "__file__", None)
                place = file if name == "__main__" else name
                return None if place is None else f"{place}:{attribute}"
    return None


class AgentDecorator:
    """Keeps the types of the function that it decorates."""

    @overload
    def __call__(self, handler: AsyncHandler[Arguments, Result]) -> Agent[Arguments, Result]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Context, Arguments], Result]) -> Agent[Arguments, Result]: ...
    def __call__(self, handler: Any) -> Any: ...
