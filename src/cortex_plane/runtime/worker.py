"""Claims jobs, runs their handlers, writes what became of them; survives what they do, and leaves in order.

claim ──▶ backlog ──▶ slot: handler ──▶ outbox ──▶ acknowledged: the slot is free
  ▲                                                     │
  └───────────── signal, or a slot that is free ◀───────┘
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import structlog

from cortex_plane.core.errors import Unavailable
from cortex_plane.core.jobs import INTERNAL_PREFIX, INTERNAL_QUEUE, Claimed, JobId, RunId, WorkerId
from cortex_plane.core.outcomes import Chance, Failed, HandedBack, Interrupted, Outcome, Transition, after_run
from cortex_plane.core.workers import DEFAULT_LEASE_SECONDS, NewWorker, actor_of
from cortex_plane.ports.clock import Clock, NewId, Random
from cortex_plane.ports.store import Store
from cortex_plane.runtime.agents import AgentCode
from cortex_plane.runtime.duties import Due, duties_of
from cortex_plane.runtime.duty import Duty
from cortex_plane.runtime.execution import Execution
from cortex_plane.runtime.failures import log_failure
from cortex_plane.runtime.heartbeat import Heartbeat
from cortex_plane.runtime.late_claims import LateClaims
from cortex_plane.runtime.lending import Lender
from cortex_plane.runtime.outbox import Outbox
from cortex_plane.runtime.pace import Pace
from cortex_plane.runtime.probation import Probation
from cortex_plane.runtime.reporter import Reporter
from cortex_plane.runtime.rescuer import Rescuer
from cortex_plane.runtime.run_figures import RunFigures
from cortex_plane.runtime.waiting import wait_at_most

log = structlog.get_logger()

LARGEST_CLAIM = 500
SMALLEST_CLAIM = 20
LOOK_FOR_CANCELLED_SECONDS = 0.2
LAST_WORD_SECONDS = 5.0
START_ANEW_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    queues: tuple[str, ...]
    concurrency: int = 20
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    grace_seconds: float = 30.0
    blocked_limit_seconds: float = 120.0
    name: str = ""


class Worker:
    def __init__(
        self,
        store: Store,
        agents: Mapping[str, AgentCode],
        options: WorkerOptions,
        clock: Clock,
        new_id: NewId,
        random: Random,
        lender: Lender,
    ) -> None:
        self._lender = lender
        self._reporter = Reporter(store, clock)
        self._figures, self._due = RunFigures(store), Due(store)
        self._store, self._agents, self._options = store, agents, options
        self._clock, self._new_id, self._random = clock, new_id, random
        self._queues = (*options.queues, INTERNAL_QUEUE)
        self._pace = Pace(clock)
        self._threads = ThreadPoolExecutor(options.concurrency, thread_name_prefix="cortex-handler")
        self._backlog: deque[Claimed] = deque()
        self._running: dict[RunId, Execution] = {}
        self._wake = asyncio.Event()
        self._cancelled = asyncio.Event()
        self._stopping = asyncio.Event()
        self._nothing_runs = asyncio.Event()
        self._appetite = SMALLEST_CLAIM  # A short claim has a short answer; one that is filled is followed by large ones.
        self._found_nothing = False
        self._refilling = False
        self._late_claims = LateClaims(store, clock)
        self._probation = Probation(clock)
        self._lease_lost = asyncio.Event()
        self.duties: list[Duty] = []

    async def run(self, *, until_idle: bool = False) -> None:
        """Until `stop()` is called, or with `until_idle` until nothing is ready and nothing runs."""
        try:
            await self._live(until_idle)
            while self._lease_lost.is_set() and not self._stopping.is_set():
                await self._live_again(until_idle)
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        """Claims nothing more, hands back what has not started, lets handlers finish for a while, then interrupts them."""
        self._stopping.set()
        self._wake.set()

    def _drain(self) -> None:
        """Told at every heartbeat until it has left."""
        if not self._stopping.is_set():
            log.info("worker_draining", worker_id=self._worker_id, why="somebody asked it to finish what it has, and to leave")
            self.stop()

    def die(self) -> None:
        """For tests: writes nothing more, as if it had been killed, but the others need not wait for its lease to run out."""
        self._stopping.set()
        self._lose_lease("it was told to die")

    # -- one life: from registration to a lost lease or an orderly end ---------------------------

    async def _live_again(self, until_idle: bool) -> None:
        """A database that was away long enough to lose the lease may still be away."""
        try:
            await self._live(until_idle)
        except Unavailable as error:
            log.warning("worker_cannot_start_anew", error=str(error))
            await wait_at_most(self._stopping, START_ANEW_SECONDS)

    async def _live(self, until_idle: bool) -> None:
        self._worker_id = WorkerId(self._new_id())
        self._outbox = Outbox(self._store, self._clock, actor_of(self._worker_id), self._options.concurrency)
        await self._store.workers.register(self._registration())
        self._lent = await self._lender.lend(self._outbox, self._reporter, self._agents)
        self._lease_lost.clear()
        heart = Heartbeat(
            partial(self._store.workers.beat, self._worker_id),
            self._lose_lease,
            self._clock,
            self._options.lease_seconds,
            self._options.blocked_limit_seconds,
            self._drain,
        )
        heart.start()
        self._store.signals.subscribe(self._wake, queues=frozenset(self._queues))
        self._store.signals.subscribe(self._cancelled, worker_id=self._worker_id)
        helpers = [asyncio.create_task(work, name=name) for name, work in self._helpers(heart)]
        log.info("worker_started", worker_id=self._worker_id, queues=self._options.queues, agents=sorted(self._agents))
        try:
            await self._work_while_trusted(until_idle)
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            self._store.signals.unsubscribe(self._wake)
            self._store.signals.unsubscribe(self._cancelled)
            await heart.stop()

    async def _work_while_trusted(self, until_idle: bool) -> None:
        """Whatever the work waits for, a lost lease ends it at once."""
        work = asyncio.create_task(self._work(until_idle), name="cortex-work")
        lost = asyncio.create_task(self._lease_lost.wait())
        try:
            await asyncio.wait([work, lost], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
            else:
                work.cancel()
                await self._stop_everything()
        finally:
            for task in (work, lost):
                task.cancel()
            await asyncio.gather(work, lost, return_exceptions=True)

    async def _work(self, until_idle: bool) -> None:
        await self._claim_until_told(until_idle)
        await self._leave_in_order()

    def _registration(self) -> NewWorker:
        options = self._options
        name = options.name or f"{socket.gethostname()}:{os.getpid()}"
        own = tuple(sorted(job_type for job_type in self._agents if not job_type.startswith(INTERNAL_PREFIX)))
        return NewWorker(self._worker_id, name, options.queues, own, options.concurrency, options.lease_seconds)

    def _helpers(self, heart: Heartbeat):  # type: ignore[no-untyped-def]
        rescuer = Rescuer(
            self._store, self._worker_id, self._options.lease_seconds, lambda: heart.settled, self._new_id, self._random
        )
        self.duties = duties_of(
            self._store, self._clock, self._new_id, self._lender, self._due, rescuer, self._reporter, self._figures
        )
        yield from ((f"cortex-{duty.name}", duty.run_for_ever()) for duty in self.duties)
        yield "cortex-comparer", self._compare_with_the_database()

    def _lose_lease(self, why: str) -> None:
        """Others run these jobs now, or soon will: they are stopped here, and nothing more is written."""
        log.error("lease_lost", worker_id=self._worker_id, why=why, action="Its jobs are stopped; it starts anew.")
        self._lease_lost.set()
        self._backlog.clear()
        self._late_claims.forget()
        self._outbox.abandon()
        for execution in list(self._running.values()):
            execution.end("superseded")

    # -- claiming --------------------------------------------------------------------------------

    async def _claim_until_told(self, until_idle: bool) -> None:
        if until_idle:
            await self._due.make_ready()  # What is due now counts as ready, in its own place.
        promoted = False
        while not self._stopping.is_set():
            self._wake.clear()
            room = self._room()
            claimed = await self._claim(room) if room > 0 else []
            self._appetite = LARGEST_CLAIM if len(claimed) == room else SMALLEST_CLAIM
            self._found_nothing = not claimed if room > 0 else self._found_nothing
            self._backlog.extend(claimed)
            self._figures.claimed(claimed)
            self._probation.watch(claimed)
            self._fill_slots()
            await asyncio.sleep(0)  # Handlers start before the next claim is put together.
            if until_idle and room > 0 and not claimed and not self._running and not self._backlog:
                if promoted:
                    return
                await self._due.make_ready()  # Look once more.
                promoted = True
                continue
            promoted = False
            if not claimed:  # A claim may bring less than asked though more is ready: one that must run alone, or others' locks.
                await self._wait_for_a_reason()

    def _room(self) -> int:
        if self._probation.seconds_left(self._holds) > 0:
            return 0
        ahead = self._pace.ahead()
        free = self._options.concurrency + ahead - len(self._running) - len(self._backlog)
        if self._backlog and (self._found_nothing or len(self._backlog) > self._pace.little()):
            return 0
        return min(self._appetite, free)

    def _holds(self, run_id: RunId) -> bool:
        return run_id in self._running or any(run_id == waiting.run_id for waiting in self._backlog)

    async def _claim(self, limit: int) -> list[Claimed]:
        run_ids = [RunId(self._new_id()) for _ in range(limit)]
        try:
            return await self._store.queue.claim(self._worker_id, self._queues, tuple(self._agents), run_ids)
        except Unavailable as error:
            log.warning("claim_unanswered", error=str(error))
            return await self._late_claims.adopt(self._worker_id, run_ids)

    async def _wait_for_a_reason(self) -> None:
        """A signal, a free slot, the end; or, where no signal can come, a look every now and then."""
        poll = self._store.signals.poll_seconds * (0.8 + 0.4 * self._random())
        await wait_at_most(self._wake, min(poll, self._probation.seconds_left(self._holds) or poll))

    # -- running ---------------------------------------------------------------------------------

    def _fill_slots(self) -> None:
        while self._backlog and len(self._running) < self._options.concurrency and not self._stopping.is_set():
            self._start(self._backlog.popleft())

    def _start(self, claimed: Claimed) -> None:
        loop = asyncio.get_running_loop()
        execution = Execution(claimed, self._agents[claimed.job_type], self._threads, loop.time(), self._lent)
        self._running[claimed.run_id] = execution
        self._nothing_runs.clear()
        execution.task = loop.create_task(self._see_through(execution))

    async def _see_through(self, execution: Execution) -> None:
        """From the handler's first line to its last. The slot is free only when the outcome is acknowledged."""
        outcome = await execution.run()
        seconds = asyncio.get_running_loop().time() - execution.started_at
        self._pace.ran(seconds)
        if outcome is None or self._lease_lost.is_set():
            self._free(execution)
        else:
            last_words, transition = execution.last_words(outcome), self._ended(execution, outcome)
            self._figures.ended(execution.claimed.job_type, transition, seconds)
            log_failure(execution.claimed, outcome, transition.status)
            self._outbox.post(transition, partial(self._answered, execution), last_words)

    def _answered(self, execution: Execution, answer: bool | Exception) -> None:
        if not isinstance(answer, Exception):
            self._free(execution)
            return
        log.error("outcome_refused", job_id=execution.claimed.job_id, error=str(answer))
        refused = Failed({"type": "OutcomeRefused", "message": f"The database refused the outcome: {answer}"}, retryable=False)
        self._outbox.post(self._ended(execution, refused), lambda _: self._free(execution))

    def _ended(self, execution: Execution, outcome: Outcome) -> Transition:
        """However it ended, it has cost what it has cost."""
        transition = self._transition(execution.claimed, outcome)
        cost_cents = execution.cost_cents
        return transition._replace(cost_cents=cost_cents) if cost_cents else transition

    def _transition(self, claimed: Claimed, outcome: Outcome) -> Transition:
        policy = claimed.retry_policy or self._agents[claimed.job_type].config.retry
        chance = Chance(self._random(), JobId(self._new_id())) if isinstance(outcome, Failed) else NO_CHANCE
        return after_run(claimed, outcome, policy, chance)

    def _free(self, execution: Execution) -> None:
        execution.when_over(partial(self._leave_slot, execution))

    def _leave_slot(self, execution: Execution) -> None:
        """Answers come in batches; the slots of a batch are filled together."""
        self._running.pop(execution.claimed.run_id, None)
        if not self._refilling:
            self._refilling = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _refill(self) -> None:
        self._refilling = False
        self._fill_slots()
        self._wake.set()
        if not self._running:
            self._nothing_runs.set()

    # -- cancelling ------------------------------------------------------------------------------

    async def _compare_with_the_database(self) -> None:
        """Runs that were cancelled or taken over are ended; runs that we hold without knowing are started."""
        while True:
            await wait_at_most(self._cancelled, self._store.signals.poll_seconds)
            self._cancelled.clear()
            await asyncio.sleep(LOOK_FOR_CANCELLED_SECONDS)  # Signals may come in crowds; one look serves them all.
            try:
                await self._look_for_superseded()
                await self._look_for_late_claims()
            except Exception as error:  # The next look may go well.
                log.warning("look_at_runs_failed", error=f"{type(error).__name__}: {error}")

    async def _look_for_late_claims(self) -> None:
        found = await self._late_claims.look(self._worker_id)
        self._backlog.extend(claimed for claimed in found if not self._holds(claimed.run_id))
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

    # -- leaving ---------------------------------------------------------------------------------

    async def _leave_in_order(self) -> None:
        await self._hand_back()
        await self._let_handlers_finish()
        await self._interrupt_handlers()
        await self._outbox.drained()
        self._figures.flush()
        with suppress(Unavailable):
            await self._reporter.once()
        await self._sign_out()
        log.info("worker_stopped", worker_id=self._worker_id)

    async def _sign_out(self) -> None:
        """With a run still open somebody must rescue it, so the worker counts as lost. Without a database its lease runs out."""
        with suppress(Unavailable):
            if not await self._store.workers.leave(self._worker_id):
                await self._store.workers.give_up(self._worker_id)

    async def _hand_back(self) -> None:
        unstarted, self._backlog = list(self._backlog), deque()
        await asyncio.gather(*(self._outbox.finish(self._transition(claimed, HandedBack())) for claimed in unstarted))

    async def _let_handlers_finish(self) -> None:
        for execution in self._running.values():
            execution.context.stopping = True
        await self._all_ended(self._options.grace_seconds)

    async def _interrupt_handlers(self) -> None:
        for execution in list(self._running.values()):
            execution.end("interrupted")
        await self._all_ended(LAST_WORD_SECONDS)
        # A handler that ignores its interruption loses its job: somebody else goes on with it.
        for execution in list(self._running.values()):
            log.warning("handler_ignores_interruption", job_id=execution.claimed.job_id, agent=execution.claimed.job_type)
            await self._outbox.finish(self._ended(execution, Interrupted()))

    async def _stop_everything(self) -> None:
        await self._all_ended(LAST_WORD_SECONDS)
        self._running.clear()
        with suppress(Unavailable, TimeoutError):  # Its lease runs out by itself.
            async with asyncio.timeout(LAST_WORD_SECONDS):
                await self._store.workers.give_up(self._worker_id)

    async def _all_ended(self, seconds: float) -> None:
        if self._running:
            await wait_at_most(self._nothing_runs, seconds)


NO_CHANCE = Chance(0.0, JobId(""))
