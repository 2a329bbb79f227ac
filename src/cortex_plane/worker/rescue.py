"""Delivers outcomes in batches, rescues the runs of lost workers, and repairs broken jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import structlog

from cortex_plane.audit.model import AuditEntry
from cortex_plane.durable.schema import Checkpoint
from cortex_plane.errors import Contended, Unavailable
from cortex_plane.jobs.model import JobId, RunId, WorkerId
from cortex_plane.jobs.outcomes import (
    BrokenJob,
    Chance,
    LostRun,
    Transition,
    after_closed_run,
    after_crash,
    after_stranding,
    is_poisoned,
)
from cortex_plane.metrics.service import count
from cortex_plane.worker.heartbeat import Identity, is_gone, own_process
from cortex_plane.worker.model import actor_of

if TYPE_CHECKING:
    from cortex_plane.clock import Clock, Random
    from cortex_plane.ids import NewId
    from cortex_plane.stores import Store

Write = TypeVar("Write", Checkpoint, Transition)
BatchWriter = Callable[[Sequence[Write]], Awaitable[set[RunId]]]
DeliveryAnswer = bool | Exception
"""True: written. False: the run was superseded. Contended: another transaction has locked the job; it may be tried again."""


async def deliver_batch(store: Store, writes: Sequence[Write], write: BatchWriter[Write]) -> dict[RunId, DeliveryAnswer]:
    """Raises only connection errors, after which the outcome of the whole batch is unknown."""
    try:
        applied = await write(writes)
        return {one.run_id: one.run_id in applied for one in writes}
    except Exception as error:
        if isinstance(error, Unavailable) and not error.by_statement:
            raise
        if len(writes) == 1:
            return {writes[0].run_id: error}
        first, second = await _parts(store, writes, error)
        return {**await deliver_batch(store, first, write), **await deliver_batch(store, second, write)}


async def _parts(store: Store, writes: Sequence[Write], error: Exception) -> tuple[Sequence[Write], Sequence[Write]]:
    """Splits a batch: locked jobs apart from the others, or in halves if locks are not the problem."""
    if isinstance(error, Contended):
        free = await store.queue.free_jobs([one.job_id for one in writes])
        if 0 < len(free) < len(writes):
            held = [one for one in writes if one.job_id not in free]
            return [one for one in writes if one.job_id in free], held
    middle = len(writes) // 2
    return writes[:middle], writes[middle:]


# -- finish runs -------------------------------------------------------------------------------
# Ends runs: applies their transitions, and reports those that were not applied.


log = structlog.get_logger()


async def finish_runs(store: Store, transitions: Sequence[Transition], actor: str) -> set[RunId]:
    """Returns the runs whose transition was applied. The others were superseded: a STALE_WRITE is recorded for each."""
    applied = await _applied(store, transitions, actor)
    refused = [transition for transition in transitions if transition.run_id not in applied]
    if not refused:
        return applied
    # The answer to an earlier try may have been lost: a run that we closed ourselves is not stale.
    closed = await store.queue.closed_runs([(transition.job_id, transition.run_id) for transition in refused])
    ours = {run_id for run_id, closed_by in closed.items() if closed_by == actor}
    await _record_stale(store, [transition for transition in refused if transition.run_id not in ours], actor)
    return applied | ours


async def _applied(store: Store, transitions: Sequence[Transition], actor: str) -> set[RunId]:
    for transition in transitions:
        if transition.large_output is not None:
            await store.queue.save_output(transition.job_id, transition.run_id, transition.large_output)
    plain = [transition for transition in transitions if transition.approval is None]
    applied = await store.queue.finish(plain, actor) if plain else set()
    for transition in transitions:
        if transition.approval is not None and await store.approvals.open(transition, transition.approval, actor):
            applied.add(transition.run_id)
    return applied


async def _record_stale(store: Store, stale: Sequence[Transition], actor: str) -> None:
    if not stale:
        return
    for transition in stale:
        log.warning("stale_write", job_id=transition.job_id, run_id=transition.run_id, wanted=transition.status)
    await store.audit.record(
        [
            AuditEntry("STALE_WRITE", "job", t.job_id, actor=actor, details={"run_id": t.run_id, "wanted": str(t.status)})
            for t in stale
        ]
    )


# -- rescue runs -------------------------------------------------------------------------------
# Ends the runs of lost workers; each agent's crash policy decides what becomes of the job.


BATCH = 100


async def declare_lost(store: Store, by: WorkerId) -> int:
    lost = await store.workers.declare_lost(by)
    for worker_id, name in lost:
        log.warning("worker_lost", worker_id=worker_id, name=name)
    return len(lost)


async def declare_gone(store: Store, by: WorkerId, here: str, is_gone: Callable[[str], bool]) -> int:
    """Workers of this machine whose process has ended are marked LOST at once, without waiting for the lease."""
    gone = [(worker_id, name) for worker_id, name, process in await store.workers.processes(by, here) if is_gone(process)]
    for worker_id, name in gone:
        if await store.workers.give_up(worker_id):
            log.warning("worker_lost", worker_id=worker_id, name=name, why="Its process is gone.")
    return len(gone)


async def rescue_runs(
    store: Store, by: WorkerId, new_id: NewId, random: Random, tell: Callable[[Transition], None] = lambda _: None
) -> int:
    """Rescues in small batches until no lost worker has an open run; returns the number of runs. Each is logged. A job that
    another transaction has locked delays only itself: it is left for the next pass."""
    rescued, left = 0, set[RunId]()
    while runs := [lost for lost in await store.workers.lost_runs(BATCH + len(left)) if lost.claimed.run_id not in left]:
        transitions = [after_crash(lost, Chance(random(), JobId(new_id()))) for lost in runs]
        # Another rescuer may have been faster: then these runs are already closed.
        answers = await deliver_batch(store, transitions, lambda some: store.queue.finish(some, actor_of(by)))
        for transition in transitions:
            answer = answers[transition.run_id]
            if answer is True:
                rescued += 1
                tell(transition)
                log.info("run_rescued", job_id=transition.job_id, run_id=transition.run_id, job_status=transition.status)
            elif answer is not False:
                left.add(transition.run_id)
                log.warning("rescue_postponed", job_id=transition.job_id, run_id=transition.run_id, error=str(answer))
    await store.workers.close_lost()
    return rescued


# -- rescuer -----------------------------------------------------------------------------------
# Monitors other workers, and rescues the jobs of those whose lease expired or whose process is gone.


LOOKS_IN_A_LEASE = 5
LONGEST_REST_SECONDS = 1.0


class Rescuer:
    """`settled` returns whether this worker's own heartbeat is regular; before that it judges no other worker by its lease."""

    def __init__(
        self,
        store: Store,
        worker_id: WorkerId,
        lease_seconds: float,
        settled: Callable[[], bool],
        new_id: NewId,
        random: Random,
        clock: Clock,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._look_seconds = lease_seconds / LOOKS_IN_A_LEASE
        self._settled = settled
        self._new_id = new_id
        self._random = random
        self._clock = clock
        self._own = own_process()
        self._settle_at = clock.elapsed()

    async def once(self) -> float:
        if self._own is not None:
            await declare_gone(self._store, self._worker_id, self._own.machine, self._is_gone)
        if self._settled():
            await declare_lost(self._store, self._worker_id)
        await rescue_runs(self._store, self._worker_id, self._new_id, self._random, _counted)
        if self._clock.elapsed() >= self._settle_at:
            await self._store.queue.settle_stuck_keys()
            self._settle_at = self._clock.elapsed() + self._look_seconds
        return min(self._look_seconds, LONGEST_REST_SECONDS)

    def _is_gone(self, process: str) -> bool:
        try:
            return is_gone(Identity.from_text(process), self._own)
        except (TypeError, ValueError):
            return False


def _counted(transition: Transition) -> None:
    count("rescued_runs")
    if is_poisoned(transition):
        count("poisoned_jobs")


# -- repair jobs -------------------------------------------------------------------------------
# Repairs jobs that are RUNNING without a worker.
#
#     run without a worker or queue entry     a raw update made it: the run is closed, the job is claimed again
#     run of a worker that has ended          as after any crash
#     no run                                  one is opened and closed as FAILED, and the retry policy decides, as after
# any crash
#     closed run                              the job takes the outcome of its run
#
# The triggers of the database make the last two impossible; a restored or damaged database may hold them all the same. No
# index
# lists the jobs that run, so they are looked for page by page.


PAGE = 5_000
BEFORE_ALL = JobId("00000000-0000-0000-0000-000000000000")
ACTOR = "repair"


async def repair_jobs(store: Store, new_id: NewId, random: Random) -> int:
    """All of them, for `cortex db repair`; returns how many were mended."""
    repaired = await _repair_stranded(store, new_id, random)
    after = BEFORE_ALL
    while last := await store.queue.next_page(after, PAGE):
        repaired += await _repair_broken(store, after, last, new_id, random)
        after = last
    return repaired


async def repair_some(store: Store, new_id: NewId, random: Random, rest_seconds: float) -> None:
    """Stranded runs, and the next page of jobs. For every worker, every now and then: of many, one looks."""
    after = await store.queue.take_turn_to_mend(rest_seconds)
    if after is None:
        return
    await _repair_stranded(store, new_id, random)
    last = await store.queue.next_page(after, PAGE)
    if last is not None:
        await _repair_broken(store, after, last, new_id, random)
    await store.queue.mended_up_to(last or BEFORE_ALL)


async def _repair_stranded(store: Store, new_id: NewId, random: Random) -> int:
    repaired, left = 0, set[RunId]()
    while lost := [one for one in await store.queue.stranded_runs(BATCH + len(left)) if one.claimed.run_id not in left]:
        transitions = [_after_stranding(one, Chance(random(), JobId(new_id()))) for one in lost]
        applied = await _apply(store, transitions)
        left |= {one.claimed.run_id for one in lost} - applied
        repaired += len(applied)
    return repaired


def _after_stranding(lost: LostRun, chance: Chance) -> Transition:
    return after_crash(lost, chance) if lost.worker_id else after_stranding(lost.claimed)


async def _repair_broken(store: Store, after: JobId, last: JobId, new_id: NewId, random: Random) -> int:
    repaired, left = 0, set[RunId]()
    while broken := [
        job for job in await store.queue.broken_jobs(after, last, BATCH + len(left)) if job.lost.claimed.run_id not in left
    ]:
        transitions = [await _after_damage(store, job, Chance(random(), JobId(new_id()))) for job in broken]
        applied = await _apply(store, transitions)
        left |= {job.lost.claimed.run_id for job in broken} - applied
        repaired += len(applied)
    return repaired


async def _after_damage(store: Store, job: BrokenJob, chance: Chance) -> Transition:
    if job.run_status is not None:
        return after_closed_run(job, job.run_status)
    await store.queue.open_missing_run(job.lost.claimed.job_id)
    return after_crash(job.lost, chance)


async def _apply(store: Store, transitions: list[Transition]) -> set[RunId]:
    """A job that another transaction has locked delays only itself."""
    answers = await deliver_batch(store, transitions, lambda some: store.queue.finish(some, ACTOR))
    for transition in transitions:
        if answers[transition.run_id] is True:
            log.warning("job_repaired", job_id=transition.job_id, status=transition.status)
        elif answers[transition.run_id] is not False:
            log.warning("repair_postponed", job_id=transition.job_id, error=str(answers[transition.run_id]))
    return {run_id for run_id, answer in answers.items() if answer is True}
