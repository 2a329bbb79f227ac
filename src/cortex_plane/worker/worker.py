"""Claims jobs, runs their handlers, writes their outcomes; survives failing handlers, and shuts down gracefully.

claim ──▶ backlog ──▶ slot: handler ──▶ outbox ──▶ acknowledged: the slot is free
  ▲                                                     │
  └───────────── signal, or a slot that is free ◀───────┘

It does so twice, side by side: for the users' jobs, and for the plane's own, which have slots of their own (`SlotPool`).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from cortex_plane.agents.code import AgentCode, fingerprint
from cortex_plane.errors import Unavailable
from cortex_plane.jobs.model import INTERNAL_PREFIX, INTERNAL_QUEUE, Claimed, JobId, RunId, WorkerId
from cortex_plane.jobs.outcomes import (
    Chance,
    Failed,
    HandedBack,
    Held,
    Interrupted,
    Outcome,
    Transition,
    Wait,
    after_crash,
    after_run,
    is_poisoned,
    is_suspect,
    is_tried_again,
)
from cortex_plane.metrics.service import RunFigures, count
from cortex_plane.worker.claims import SETTLED_SECONDS, LateClaims, Neighbours, Pace
from cortex_plane.worker.execution import Execution, uncancel
from cortex_plane.worker.failures import failed, log_failure
from cortex_plane.worker.heartbeat import Heartbeat, own_process
from cortex_plane.worker.isolation import ASKED_TO_END, STOPPING, IsolatedExecution, Isolation
from cortex_plane.worker.loop_watch import LoopWatch
from cortex_plane.worker.loops import BackgroundLoop, Trouble, patient, wait_at_most
from cortex_plane.worker.maintenance import Due, background_loops
from cortex_plane.worker.model import DEFAULT_INTERNAL_CONCURRENCY, DEFAULT_LEASE_SECONDS, NewWorker, actor_of
from cortex_plane.worker.outbox import Outbox
from cortex_plane.worker.reporter import Reporter, current_run
from cortex_plane.worker.rescue import Rescuer
from cortex_plane.worker.services import RunServicesFactory, StoreClock
from cortex_plane.worker.slots import SlotPool
from cortex_plane.worker.threads import OwnTask, OwnTasks, Threads, contained_tasks, current_threads

if TYPE_CHECKING:
    from cortex_plane.clock import Clock, Random
    from cortex_plane.durable.schema import Checkpoint
    from cortex_plane.ids import NewId
    from cortex_plane.stores import Store

log = structlog.get_logger()

Some = TypeVar("Some", bound=Execution)

MOST_ISOLATED = 8
"""Suspected jobs that run at a time, each in its own process. Processes take memory, so more are left to other workers."""
SUSPECT_PAUSE_SECONDS = 5.0
LOOK_FOR_CANCELLED_SECONDS = 0.2
FINAL_WRITES_SECONDS = 5.0
FIRST_CLAIM_PAUSE_SECONDS = 0.2
LONGEST_CLAIM_PAUSE_SECONDS = 10.0
START_ANEW_SECONDS = 1.0
REFUSED_AGAIN_SECONDS = 60.0
ECHO_SECONDS = 0.5
"""Code that ends a program cancels all tasks, and some cancel others; a cancel scope of anyio cancels in every turn of the
loop. Cancellations without a pause between them count as one request."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    queues: tuple[str, ...]
    """None: a worker for the plane's own work only."""
    concurrency: int = 20
    internal_concurrency: int = DEFAULT_INTERNAL_CONCURRENCY
    """Slots for the plane's own work, in addition to those for users' jobs."""
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    grace_seconds: float = 30.0
    event_loop_timeout: float = 120.0
    name: str = ""
    seal_export: str = ""
    """Where seals of the audit log are sent: entries are pruned only once their seal was."""


class Worker:
    def __init__(
        self,
        store: Store,
        agents: Mapping[str, AgentCode],
        options: WorkerOptions,
        clock: Clock,
        new_id: NewId,
        random: Random,
        services_factory: RunServicesFactory,
        isolation: Isolation | None = None,
    ) -> None:
        self._isolation = isolation
        self.more_loops: Sequence[BackgroundLoop] = ()
        self._services_factory = services_factory
        self._reporter = Reporter(store, clock)
        self._codes = {job_type: fingerprint(agent) for job_type, agent in agents.items()}
        self._figures, self._due = RunFigures(store), Due(store, self._codes)
        self._store, self._agents, self._options = store, agents, options
        self._clock, self._new_id, self._random = clock, new_id, random
        self._time = StoreClock(store, clock)
        self._internal = SlotPool((INTERNAL_QUEUE,), self._types(internal=True), options.internal_concurrency, clock)
        self._users = SlotPool(options.queues, self._types(internal=False), options.concurrency, clock, Pace(clock))
        self._pools = (self._internal, self._users) if options.queues else (self._internal,)
        self._threads = Threads()
        self._running: dict[RunId, Execution] = {}
        self._cancelled = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._told_to_leave_at: float | None = None
        self._nothing_runs = asyncio.Event()
        self._handing_back: asyncio.TimerHandle | None = None
        self._freed: set[SlotPool] = set()
        """Pools in which a slot became free since they were last filled."""
        self._starting_anew = Trouble("worker_cannot_start_anew", "worker_starts_anew")
        self._late_claims = LateClaims(store, clock)
        self._neighbours = Neighbours(store, clock)
        self._lease_lost = asyncio.Event()
        self._over = asyncio.Event()
        self._early_orders: list[Callable[[], None]] = []
        self.loop = asyncio.get_running_loop()
        self.loops: list[BackgroundLoop] = []

    async def run(self, *, until_idle: bool = False) -> None:
        """Runs until `stop()` is called or, with `until_idle`, until nothing is ready and nothing runs.

        Cancelling this call interrupts the handlers, hands their jobs back, and then raises CancelledError. Cancelling it
        again ends it at once: other workers rescue the jobs."""
        token = current_threads.set(self._threads)
        self._tasks = OwnTasks(self._running, self._leave_now)
        current_threads.reset(token)
        try:
            with contained_tasks():
                life = self._tasks.start(self._lives(until_idle), "cortex-worker")
                cancelled = await self._until_over(life)
                self._tasks.close()
            self._threads.close()
        finally:
            self._over.set()
        if cancelled:
            raise asyncio.CancelledError
        life.result()

    async def _until_over(self, life: asyncio.Task[Any]) -> bool:
        """Whether the task that runs the worker was cancelled."""
        cancelled = False
        while not life.done():
            try:
                await asyncio.wait([life])
            except asyncio.CancelledError:
                if self._tasks.in_a_sweep():  # A handler may cancel any task that it finds, but must not stop the worker.
                    uncancel()
                else:
                    cancelled = True
                    self._leave_now()
        return cancelled

    async def _lives(self, until_idle: bool) -> None:
        await self._run_session(until_idle)
        while self._lease_lost.is_set() and not self._stopping.is_set():
            await self._live_again(until_idle)

    def stop(self) -> None:
        """Shuts down gracefully: claims nothing more, hands back jobs that have not started, waits for handlers, then
        interrupts them."""
        self._stopping.set()
        self._wake_all()

    async def leave(self) -> None:
        """Interrupts the handlers, hands their jobs back, and returns when the worker has ended."""
        if self._told_to_leave_at is None:
            self._leave_now()
        await self._over.wait()

    def _wake_all(self) -> None:
        for pool in self._pools:
            pool.wake.set()

    def _leave_now(self) -> None:
        """As `stop()`, without waiting for handlers; the second time, without waiting for anything."""
        before, now = self._told_to_leave_at, self._clock.elapsed()
        self._told_to_leave_at = now
        if before is None:
            log.warning("worker_cancelled", action="Its handlers are interrupted, and other workers resume their jobs.")
            self._hurry.set()
            self.stop()
        elif now - before > ECHO_SECONDS:
            self._lose_lease("it was cancelled a second time")

    def _drain(self) -> None:
        """Called at every heartbeat until the worker has stopped."""
        if not self._stopping.is_set():
            log.info("worker_draining", worker_id=self._worker_id, why="an operator drained it")
            self.stop()

    def die(self) -> None:
        """For tests: writes nothing more, as if killed, and gives up its lease so that others need not wait for it."""
        self._stopping.set()
        self._lose_lease("it was told to die")

    # -- one run in a process of its own; another process holds the lease ----------------------------

    async def run_one(
        self, worker_id: WorkerId, run_id: RunId, begins: Callable[[], None], lease_holds: Callable[[], bool]
    ) -> None:
        """Returns when the outcome is written or no longer accepted. `begins` is called right before the handler."""
        token = current_threads.set(self._threads)
        self._tasks = OwnTasks(self._running, self._leave_now)
        current_threads.reset(token)
        self._worker_id = worker_id
        self._outbox = Outbox(self._store, self._clock, actor_of(worker_id), 1, self._tasks.start)
        found = await self._store.queue.open_runs(worker_id, [run_id])
        if not found:
            return
        await self._time.begin()
        self._services = await self._services_factory.create(
            self._outbox, self._reporter, self._time, {found[0].job_type: self._codes[found[0].job_type]}, lease_holds
        )
        watch = LoopWatch(self._clock, self._options.event_loop_timeout, self._run_of)
        watch.start()
        telling = self._tasks.start(BackgroundLoop("reporter", self._reporter.once, self._clock).run(), "cortex-reporter")
        with contained_tasks():
            begins()
            self._start_as(Execution, found[0])
            for order in self._early_orders:
                order()
            await self._nothing_runs.wait()
            await self._outbox.drained()
        watch.stop()
        await self._reporter.finish()
        telling.end()

    def obey(self, order: str, value: str) -> None:
        """Obeys an order of the worker that holds the lease. Orders that arrive before the handler is called apply to it
        then."""
        if not self._running:
            self._early_orders.append(partial(self.obey, order, value))
        for execution in list(self._running.values()):
            if order == ASKED_TO_END:
                if execution.may_clean_up:
                    execution.ask_to_end(json.loads(value))
                continue
            execution.stops_soon()
            if order != STOPPING:
                execution.end("superseded" if order == "superseded" else "interrupted")

    # -- one life: from registration to a lost lease or an orderly end ---------------------------

    async def _live_again(self, until_idle: bool) -> None:
        """The database may still be unavailable after an outage that lost the lease."""
        try:
            await self._run_session(until_idle)
        except Unavailable as error:
            self._starting_anew.tell(error)
            await wait_at_most(self._stopping, START_ANEW_SECONDS)

    async def _run_session(self, until_idle: bool) -> None:
        self._worker_id = WorkerId(self._new_id())
        actor = actor_of(self._worker_id)
        self._outbox = Outbox(self._store, self._clock, actor, sum(pool.slots for pool in self._pools), self._tasks.start)
        heart = Heartbeat(  # Before the worker registers: it trusts itself from the moment at which it sends that.
            self._store.workers.heartbeat(self._worker_id),
            self._lose_lease,
            self._clock,
            self._options.lease_seconds,
            self._drain,
        )
        self._trusted_until = lambda: heart.trusted_until
        await self._store.workers.register(self._registration())
        await heart.begin()  # Open its connection before those of the claims: with few connections, it must not lack one.
        await self._time.begin()
        self._starting_anew.over()
        self._services = await self._services_factory.create(
            self._outbox, self._reporter, self._time, self._codes, heart.lease_holds
        )
        self._lease_lost.clear()
        heart.start()
        watch = LoopWatch(self._clock, self._options.event_loop_timeout, self._run_of)
        watch.start()
        if until_idle:  # One loop claims for all.
            self._users.wake = self._internal.wake
        for wake, queues in self._reasons_to_claim().items():
            self._store.signals.subscribe(wake, queues=queues)
        self._store.signals.subscribe(self._cancelled, worker_id=self._worker_id)
        helpers = [self._tasks.start(work, name) for name, work in self._helpers(heart)]
        log.info("worker_started", worker_id=self._worker_id, queues=self._options.queues, agents=sorted(self._agents))
        try:
            await self._run_until_lease_lost(until_idle)
        finally:
            for helper in helpers:
                helper.end()
            await asyncio.gather(*helpers, return_exceptions=True)
            for wake in self._reasons_to_claim():
                self._store.signals.unsubscribe(wake)
            self._store.signals.unsubscribe(self._cancelled)
            watch.stop()
            await heart.stop()

    async def _run_until_lease_lost(self, until_idle: bool) -> None:
        """A lost lease ends the work at once, in any state."""
        work = self._tasks.start(self._work(until_idle), "cortex-work")
        lost = self._tasks.start(self._lease_lost.wait(), "cortex-lease")
        try:
            await asyncio.wait([work, lost], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
            else:
                work.end()
                await self._stop_everything()
        finally:
            for task in (work, lost):
                task.end()
            await asyncio.gather(work, lost, return_exceptions=True)

    async def _work(self, until_idle: bool) -> None:
        if until_idle:
            await self._claim_until_told(self._pools, until_idle=True)
        else:
            await self._claim_side_by_side()
        await self._leave_in_order()

    def _reasons_to_claim(self) -> dict[asyncio.Event, frozenset[str]]:
        reasons: dict[asyncio.Event, frozenset[str]] = {}
        for pool in self._pools:
            reasons[pool.wake] = reasons.get(pool.wake, frozenset()) | frozenset(pool.queues)
        return reasons

    def _types(self, *, internal: bool) -> tuple[str, ...]:
        return tuple(sorted(job_type for job_type in self._agents if job_type.startswith(INTERNAL_PREFIX) is internal))

    def _registration(self) -> NewWorker:
        options, process = self._options, own_process()
        name = options.name or f"{socket.gethostname()}:{os.getpid()}"
        shown = self._users if options.queues else self._internal
        return NewWorker(
            self._worker_id,
            name,
            shown.queues,
            self._users.job_types if options.queues else (),
            shown.slots,
            options.lease_seconds,
            process and process.to_text(),
        )

    def _helpers(self, heart: Heartbeat):  # type: ignore[no-untyped-def]
        rescuer = Rescuer(
            self._store,
            self._worker_id,
            self._options.lease_seconds,
            lambda: heart.settled,
            self._new_id,
            self._random,
            self._clock,
        )
        usual = background_loops(
            self._store,
            self._clock,
            self._new_id,
            self._random,
            self._services_factory.directory,
            self._due,
            rescuer,
            self._reporter,
            self._figures,
            self._options.seal_export,
        )
        self.loops = [*usual, *self.more_loops]
        yield from ((f"cortex-{loop.name}", loop.run()) for loop in self.loops)
        yield "cortex-comparer", self._compare_with_the_database()

    def _lose_lease(self, why: str) -> None:
        """Other workers run these jobs now, or will soon: stop them here and write nothing more."""
        log.error("lease_lost", worker_id=self._worker_id, why=why, action="Its jobs are stopped; it registers again.")
        self._lease_lost.set()
        for pool in self._pools:
            pool.give_up()
        self._late_claims = LateClaims(self._store, self._clock)
        self._outbox.abandon()
        for execution in list(self._running.values()):
            execution.end("superseded")

    # -- claiming --------------------------------------------------------------------------------

    async def _claim_side_by_side(self) -> None:
        """Each pool claims separately: a slow claim of users' jobs does not delay the plane's own."""
        claiming = [self._tasks.start(self._claim_until_told((pool,)), "cortex-claim") for pool in self._pools]
        try:
            await asyncio.gather(*claiming)
        finally:
            for task in claiming:
                task.end()
            await asyncio.gather(*claiming, return_exceptions=True)

    async def _claim_until_told(self, pools: Sequence[SlotPool], *, until_idle: bool = False) -> None:
        """For pools that share their wake-up event, in this order."""
        if until_idle:
            await self._due.make_ready()  # Due jobs count as ready, in their own position.
        promoted = False
        while not self._stopping.is_set():
            pools[0].wake.clear()
            claimed = [await self._claim_for(pool) for pool in pools]
            await asyncio.sleep(0)  # Handlers start before the next claim is put together.
            idle = claimed == [0] * len(pools) and not self._holds_any and not any(pool.claim_error for pool in pools)
            if until_idle and idle:
                if promoted:
                    return
                await self._due.make_ready()  # Look once more.
                self._store.queue.miss_nothing()
                promoted = True
                continue
            promoted = False
            # A claim may return less than requested although more is ready: other transactions have locked rows.
            if not any(claimed):
                await self._wait_for_a_reason(pools[0])

    async def _claim_for(self, pool: SlotPool) -> int | None:
        """How many jobs a claim has brought; None when there was no room for any."""
        room, job_types = pool.room(), pool.claimable(asyncio.get_running_loop().time())
        if room > pool.free and await self._neighbours.have_room(self._worker_id, pool):
            room = pool.free
        if room <= 0 or (pool.job_types and not job_types):
            return None
        claimed = await self._claim(pool, room, job_types)
        pool.took(claimed, room)
        self._figures.claimed(claimed)
        self._fill_slots()
        return len(claimed)

    def _run_of(self, task: asyncio.Task[Any]) -> Claimed | None:
        """For another thread, while the task blocks this one."""
        get_context = getattr(task, "get_context", None)  # From Python 3.12 on.
        if get_context is not None:
            claimed: Claimed | None = get_context().get(current_run)
            return claimed
        execution = self._running.get(task.run_id) if isinstance(task, OwnTask) and task.run_id else None
        return None if execution is None else execution.claimed

    @property
    def _holds_any(self) -> bool:
        return bool(self._running or any(pool.has_backlog for pool in self._pools))

    def _unstarted(self) -> list[Claimed]:
        return [claimed for pool in self._pools for claimed in pool.backlog]

    async def _claim(self, pool: SlotPool, limit: int, job_types: tuple[str, ...]) -> list[Claimed]:
        run_ids = [RunId(self._new_id()) for _ in range(limit)]
        try:
            claimed = await self._store.queue.claim(self._worker_id, pool.queues, job_types, run_ids, pool.free)
        except Exception as error:  # After any error of a claim the worker continues with the jobs it has, and tries again.
            return await self._refused(pool, error, run_ids)
        if pool.claim_error is not None:
            pool.claim_error, pool.claim_pause_seconds = None, 0.0
            if not any(other.claim_error for other in self._pools):
                log.info("claims_work_again", worker_id=self._worker_id)
        return claimed

    async def _refused(self, pool: SlotPool, error: Exception, run_ids: list[RunId]) -> list[Claimed]:
        """One line for each kind of trouble, and a pause that grows. The claim may have been committed all the same."""
        told, lost = f"{type(error).__name__}: {error}", isinstance(error, Unavailable)
        if not any(other.claim_error == told for other in self._pools):
            tell = log.warning if lost else log.error
            event = "claim_unanswered" if lost else "claim_refused"
            tell(event, worker_id=self._worker_id, error=told, action="It is tried again, less and less often.")
        if told != pool.claim_error:
            pool.claim_pause_seconds = (
                0.0 if lost else FIRST_CLAIM_PAUSE_SECONDS
            )  # One answer that was lost is no reason to wait.
            pool.claim_error = told
        await wait_at_most(self._stopping, pool.claim_pause_seconds)
        pool.claim_pause_seconds = min(max(pool.claim_pause_seconds * 2, FIRST_CLAIM_PAUSE_SECONDS), LONGEST_CLAIM_PAUSE_SECONDS)
        if not lost or getattr(error, "by_statement", False):
            await self._set_aside_unstartable(pool, len(run_ids))
        with suppress(Exception):
            return await self._late_claims.adopt(self._worker_id, run_ids)
        return []

    async def _set_aside_unstartable(self, pool: SlotPool, limit: int) -> None:
        """A job that cannot be started must not prevent others from starting."""
        try:
            aside = await self._store.queue.set_aside_unstartable(self._worker_id, pool.queues, pool.job_types, limit)
        except Exception as error:
            log.warning(
                "set_aside_failed", error=f"{type(error).__name__}: {error}", action="The next refused claim tries again."
            )
            return
        for job_id in aside:
            log.error("job_cannot_be_started", job_id=job_id, action="It waits for a minute. The refused claim says why.")

    async def _wait_for_a_reason(self, pool: SlotPool) -> None:
        """A signal, a free slot, the end; or, where no signal can come, a look every now and then."""
        poll = self._store.signals.poll_seconds * (0.8 + 0.4 * self._random())
        await asyncio.sleep(pool.rest_seconds)
        if pool is self._users and self._neighbours.to_be_told(self._worker_id, pool):
            await wait_at_most(pool.wake, SETTLED_SECONDS)
            if not pool.wake.is_set():
                await self._neighbours.tell(self._worker_id, pool)
        await wait_at_most(pool.wake, poll)

    # -- running ---------------------------------------------------------------------------------

    def _fill_slots(self) -> None:
        """Not after the lease was lost: the answer to a claim or a look that was under way may still come."""
        for pool in self._pools:
            while pool.has_backlog and pool.running < pool.slots and self._may_start:
                self._start(pool.next())
        self._hand_back_in_time()

    @property
    def _may_start(self) -> bool:
        return not self._stopping.is_set() and not self._lease_lost.is_set()

    def _hand_back_in_time(self) -> None:
        """RUNNING means that the handler is called, now or within a quarter of a second."""
        waiting = [pool.seconds_until_late for pool in self._pools if pool.has_backlog]
        if waiting and self._handing_back is None:
            self._handing_back = asyncio.get_running_loop().call_later(min(waiting), self._hand_back_late)

    def _hand_back_late(self) -> None:
        self._handing_back = None
        for pool in self._pools:
            for claimed in pool.give_up_late():
                self._outbox.post(self._transition(claimed, HandedBack()), lambda _: None)
        self._hand_back_in_time()

    def _pool_of(self, claimed: Claimed) -> SlotPool:
        return self._internal if claimed.queue == INTERNAL_QUEUE else self._users

    def _start(self, claimed: Claimed) -> None:
        if not self._is_suspect(claimed):
            self._start_as(Execution, claimed)
        elif self._isolation is None:
            log.warning(
                "suspect_not_isolated",
                job_id=claimed.job_id,
                agent=claimed.job_type,
                why="No other process could find this plane. Make it a variable of a module, or set plane.app.",
            )
            self._start_as(Execution, claimed)
        elif sum(isinstance(execution, IsolatedExecution) for execution in self._running.values()) >= MOST_ISOLATED:
            later = self._transition(claimed, HandedBack())._replace(delay_seconds=SUSPECT_PAUSE_SECONDS)
            self._outbox.post(later, lambda _: None)
        else:
            execution = self._start_as(IsolatedExecution, claimed)
            execution.isolate(self._isolation, self._worker_id, self._trusted_until, self._process_died)

    def _is_suspect(self, claimed: Claimed) -> bool:
        limit = self._agents[claimed.job_type].config.crash_limit
        return is_suspect(claimed.crash_count, limit) and not claimed.job_type.startswith(INTERNAL_PREFIX)

    async def _process_died(self, claimed: Claimed, how: str) -> None:
        """The run was alone in its process, so this job caused the crash."""
        log.error("isolated_run_died", job_id=claimed.job_id, run_id=claimed.run_id, agent=claimed.job_type, how=how)
        lost = await patient(self._store.workers.crashed_run, self._clock)(claimed.job_id, claimed.run_id)
        if lost is not None:
            transition = after_crash(lost, Chance(self._random(), JobId(self._new_id())), proved=True)
            if is_poisoned(transition):
                count("poisoned_jobs")
            await self._outbox.finish(transition)

    def _start_as(self, kind: type[Some], claimed: Claimed) -> Some:
        loop = asyncio.get_running_loop()
        execution = kind(claimed, self._agents[claimed.job_type], self._threads, loop.time(), self._services)
        self._running[claimed.run_id] = execution
        self._pool_of(claimed).called(claimed)
        self._nothing_runs.clear()
        execution.task = self._tasks.start(self._execute(execution), run_id=claimed.run_id)
        return execution

    async def _execute(self, execution: Execution) -> None:
        """From the handler's first line to its last. The slot is free only when the outcome is acknowledged."""
        try:
            outcome = await execution.run()
        except BaseException as error:  # A GeneratorExit out of a future closes all frames up to here.
            if asyncio.get_running_loop().is_closed():
                raise
            outcome = execution.left_with(failed(error))
        seconds = asyncio.get_running_loop().time() - execution.started_at
        self._pool_of(execution.claimed).ran(execution.claimed, seconds)
        if outcome is None or self._lease_lost.is_set():
            self._free(execution)
            return
        if isinstance(outcome, Failed) and outcome.waits is not None and outcome.waits.scope != "job":
            await self._hold_siblings(execution.claimed, outcome.waits)
        if isinstance(outcome, Held) and outcome.handed_back:
            self._give_way(execution.claimed, outcome.delay_seconds)
        transition = self._transition(execution.claimed, outcome)
        final_checkpoint = execution.final_checkpoint(outcome, transition.status)
        transition = _with_cost(transition, execution)
        self._figures.ended(execution.claimed.job_type, transition, seconds)
        log_failure(execution.claimed, outcome, transition.status)
        post = partial(self._post, execution, transition, final_checkpoint)
        if execution.goes_on and is_tried_again(transition):
            self._post_when_over(execution, post)
        else:
            post()

    def _post(self, execution: Execution, transition: Transition, final_checkpoint: Checkpoint | None) -> None:
        execution.posted = True
        self._outbox.post(transition, partial(self._answered, execution), final_checkpoint)

    def _give_way(self, claimed: Claimed, seconds: float) -> None:
        pool, loop = self._pool_of(claimed), asyncio.get_running_loop()
        over = pool.give_way(claimed.job_type, loop.time() + seconds)
        loop.call_at(over, pool.wake.set)

    async def _hold_siblings(self, claimed: Claimed, wait: Wait) -> None:
        """Saved before the outcome: if this worker dies in between, the hold expires. Jobs claimed ahead are handed back
        first, so that they do not start meanwhile."""
        by_agent = wait.scope == "agent"
        pool = self._pool_of(claimed)
        for one in pool.give_up(lambda one: one.job_type == claimed.job_type if by_agent else one.queue == claimed.queue):
            self._outbox.post(self._transition(one, HandedBack()), lambda _: pool.wake.set())
        try:
            await self._services.hold(claimed, wait.scope, wait.seconds, wait.reason)
        except Exception as error:  # The job itself waits all the same.
            log.warning("hold_refused", job_id=claimed.job_id, scope=wait.scope, error=str(error))

    def _post_when_over(self, execution: Execution, post: Callable[[], None]) -> None:
        """A plain function that has timed out cannot be stopped. Until it returns, its job stays RUNNING and is not retried:
        otherwise two attempts would run concurrently."""
        claimed = execution.claimed
        message = "The run timed out, but its function still runs. The job is retried when the function has returned."
        log.warning("timed_out_function_goes_on", job_id=claimed.job_id, agent=claimed.job_type, action=message)
        self._reporter.tell(claimed.job_id, claimed.run_id, "log", {"level": "warning", "message": message})
        outbox = self._outbox

        def over() -> None:
            if outbox is self._outbox and not self._lease_lost.is_set() and not execution.given_up:
                post()

        execution.when_over(over)

    def _answered(self, execution: Execution, answer: bool | Exception) -> None:
        if not isinstance(answer, Exception):
            self._free(execution)
            return
        log.error("outcome_refused", job_id=execution.claimed.job_id, error=str(answer))
        refused = Failed({"type": "OutcomeRefused", "message": f"The database refused the outcome: {answer}"}, retryable=False)
        self._outbox.post(self._ended(execution, refused), partial(self._answered_to_refusal, execution, refused))

    def _answered_to_refusal(self, execution: Execution, refused: Failed, answer: bool | Exception) -> None:
        """Where not even the failure can be written, the slot is free all the same, and the failure is posted again later."""
        self._free(execution)
        if isinstance(answer, Exception):
            log.error(
                "failure_refused", job_id=execution.claimed.job_id, error=str(answer), again_in_seconds=REFUSED_AGAIN_SECONDS
            )
            asyncio.get_running_loop().call_later(REFUSED_AGAIN_SECONDS, self._post_again, execution, refused, self._outbox)

    def _post_again(self, execution: Execution, refused: Failed, outbox: Outbox) -> None:
        if outbox is self._outbox and not self._stopping.is_set() and not self._lease_lost.is_set():
            outbox.post(self._ended(execution, refused), partial(self._answered_to_refusal, execution, refused))

    def _ended(self, execution: Execution, outcome: Outcome) -> Transition:
        return _with_cost(self._transition(execution.claimed, outcome), execution)

    def _transition(self, claimed: Claimed, outcome: Outcome) -> Transition:
        policy = claimed.retry_policy or self._agents[claimed.job_type].config.retry
        chance = Chance(self._random(), JobId(self._new_id())) if isinstance(outcome, Failed) else NO_CHANCE
        return after_run(claimed, outcome, policy, chance)

    def _free(self, execution: Execution) -> None:
        execution.when_over(partial(self._leave_slot, execution))

    def _leave_slot(self, execution: Execution) -> None:
        """Answers come in batches; the slots of a batch are filled together."""
        pool = self._pool_of(execution.claimed)
        if self._running.pop(execution.claimed.run_id, None) is not None:
            pool.freed(execution.claimed.run_id)
        if not self._freed:
            asyncio.get_running_loop().call_soon(self._refill)
        self._freed.add(pool)

    def _refill(self) -> None:
        self._fill_slots()
        for pool in self._freed:
            pool.wake.set()
        self._freed.clear()
        if not self._running:
            self._nothing_runs.set()

    # -- cancelling ------------------------------------------------------------------------------

    async def _compare_with_the_database(self) -> None:
        """Runs that were cancelled or taken over are ended; runs that we hold without knowing are started."""
        trouble = Trouble("look_at_runs_failed", "look_at_runs_works_again")
        while True:
            await wait_at_most(self._cancelled, self._store.signals.poll_seconds)
            self._cancelled.clear()
            await asyncio.sleep(LOOK_FOR_CANCELLED_SECONDS)  # Signals may come in crowds; one look serves them all.
            try:
                await self._look_for_superseded()
                await self._look_for_late_claims()
                await self._time.measure()
                trouble.over()
            except Exception as error:  # The next look may go well.
                trouble.tell(error)

    async def _look_for_late_claims(self) -> None:
        for claimed in await self._late_claims.look(self._worker_id):
            self._pool_of(claimed).add([claimed])
        self._fill_slots()

    async def _look_for_superseded(self) -> None:
        long_ago = asyncio.get_running_loop().time() - LOOK_FOR_CANCELLED_SECONDS / 2
        looked_at = [execution for execution in self._running.values() if execution.started_at < long_ago]
        if not looked_at:
            return
        runs = [(execution.claimed.job_id, execution.claimed.run_id) for execution in looked_at]
        for run_id in await self._store.queue.closed_runs(runs):
            if execution := self._running.get(run_id):
                execution.end("superseded")
        careful = [(it.claimed.job_id, it.claimed.run_id) for it in looked_at if it.may_clean_up]
        for run_id, request in (await self._store.queue.asked_to_end(careful) if careful else {}).items():
            if execution := self._running.get(run_id):
                execution.ask_to_end(request or {})

    # -- leaving ---------------------------------------------------------------------------------

    async def _leave_in_order(self) -> None:
        await self._hand_back()
        await self._let_handlers_finish()
        await self._interrupt_handlers()
        await self._outbox.drained()
        self._figures.flush()
        await self._reporter.finish()
        await self._sign_out()
        log.info("worker_stopped", worker_id=self._worker_id)

    async def _sign_out(self) -> None:
        """A worker with an open run is marked LOST, so that another worker rescues the run. Without a database its lease
        expires."""
        with suppress(Unavailable):
            if not await self._store.workers.leave(self._worker_id):
                await self._store.workers.give_up(self._worker_id)

    async def _hand_back(self) -> None:
        """A job that another transaction has locked is not waited for: its run stays open, and another worker rescues it."""
        unstarted = self._unstarted()
        for pool in self._pools:
            pool.give_up()
        handing = [asyncio.ensure_future(self._outbox.finish(self._transition(claimed, HandedBack()))) for claimed in unstarted]
        if handing:
            await asyncio.wait(handing, timeout=self._options.grace_seconds + FINAL_WRITES_SECONDS)

    async def _let_handlers_finish(self) -> None:
        for execution in self._running.values():
            execution.stops_soon()
        if self._running:
            reasons = [self._tasks.start(event.wait()) for event in (self._nothing_runs, self._hurry)]
            await asyncio.wait(reasons, timeout=self._options.grace_seconds, return_when=asyncio.FIRST_COMPLETED)
            for reason in reasons:
                reason.end()

    async def _interrupt_handlers(self) -> None:
        for execution in list(self._running.values()):
            execution.end("interrupted")
        await self._all_ended(FINAL_WRITES_SECONDS)
        # A handler that ignores its interruption loses its job: another worker resumes it.
        for execution in [one for one in self._running.values() if not one.posted]:
            execution.given_up = True
            log.warning("handler_ignores_interruption", job_id=execution.claimed.job_id, agent=execution.claimed.job_type)
            await self._outbox.finish(self._ended(execution, Interrupted()))

    async def _stop_everything(self) -> None:
        await self._all_ended(FINAL_WRITES_SECONDS)
        self._running.clear()
        for pool in self._pools:
            pool.forget()
        with suppress(Unavailable, TimeoutError):  # Its lease runs out by itself.
            async with asyncio.timeout(FINAL_WRITES_SECONDS):
                await self._store.workers.give_up(self._worker_id)

    async def _all_ended(self, seconds: float) -> None:
        if self._running:
            await wait_at_most(self._nothing_runs, seconds)


NO_CHANCE = Chance(0.0, JobId(""))


def _with_cost(transition: Transition, execution: Execution) -> Transition:
    """Adds the costs that no checkpoint includes, whatever the outcome."""
    cost_cents = execution.cost_cents
    return transition._replace(cost_cents=cost_cents) if cost_cents else transition
