"""Writes the checkpoints and outcomes of a worker's runs in batches: writes that arrive during one batch go into the next.

    PendingWrites of each run:   checkpoint, checkpoint, checkpoint, finish
                                  └── only the newest is written ──┘     └── after it

A writer of an older checkpoint is acknowledged with the newer one, which contains it.

While the database is unavailable, the batch is retried as a whole. A batch that the database rejects is split: an element whose
job another transaction has locked is set aside and retried; so is, a few times, an element whose statement failed for an
external reason (cancelled, server out of memory). An element with invalid data is answered with the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import structlog

from cortex_plane.durable.schema import Checkpoint
from cortex_plane.errors import Contended, LeaseLost, Unavailable
from cortex_plane.jobs.outcomes import Transition
from cortex_plane.metrics.service import count
from cortex_plane.worker.loops import Trouble
from cortex_plane.worker.rescue import BatchWriter, DeliveryAnswer, Write, deliver_batch, finish_runs
from cortex_plane.worker.threads import end_task

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.jobs.model import JobId, RunId
    from cortex_plane.stores import Store

log = structlog.get_logger()

LARGEST_BATCH = 500
SMALLEST_BATCH = 50
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
TRIES = 8
"""Attempts for an element whose statement fails; with their pauses they take five seconds."""

Start = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[Any]]


@dataclass(slots=True)
class PendingWrites:
    checkpoint: Checkpoint | None = None
    checkpoint_waiters: list[asyncio.Future[None]] = field(default_factory=list)
    transition: Transition | None = None
    answered: Callable[[DeliveryAnswer], None] | None = None
    held: bool = False
    """Set aside: another transaction had locked the job, or the statement failed."""
    tries: int = 0
    """Attempts whose statement failed."""
    pause_seconds: float = FIRST_PAUSE_SECONDS

    @property
    def job_id(self) -> JobId:
        write = self.transition or self.checkpoint
        assert write is not None
        return write.job_id

    def absorb(self, newer: PendingWrites) -> None:
        if newer.checkpoint is not None:
            self.take(newer.checkpoint)
        self.checkpoint_waiters += newer.checkpoint_waiters
        if newer.transition is not None:
            self.transition, self.answered = newer.transition, newer.answered

    def take(self, checkpoint: Checkpoint) -> None:
        """Replaces an unwritten checkpoint by a newer one, keeping the predecessor, blobs and costs of the older one. Segments
        are blobs: the newer checkpoint refers to those of the older."""
        older, self.checkpoint = self.checkpoint, checkpoint
        if older is not None:
            self.checkpoint = replace(
                checkpoint,
                previous_id=older.previous_id,
                blobs=older.blobs + checkpoint.blobs,
                cost_cents=older.cost_cents + checkpoint.cost_cents,
            )


class Outbox:
    """`start` makes the task that writes; it must not belong to the handler that happens to be first."""

    def __init__(self, store: Store, clock: Clock, actor: str, slots: int, start: Start | None = None) -> None:
        self._store = store
        self._clock = clock
        self._actor = actor
        # While half of the slots wait for the database, the other half works.
        self._most_in_a_batch = min(LARGEST_BATCH, max(SMALLEST_BATCH, slots // 2))
        self._pending: dict[RunId, PendingWrites] = {}
        self._under_way: dict[RunId, PendingWrites] = {}
        self._aside: dict[RunId, tuple[PendingWrites, asyncio.Task[Any]]] = {}
        self._start: Start = start or _start
        self._flushing: asyncio.Task[Any] | None = None

    async def save(self, checkpoint: Checkpoint) -> None:
        """Returns when this checkpoint, or a newer one of its run, is in the database. Raises LeaseLost if it never will be."""
        pending = self._pending_of(checkpoint.run_id)
        pending.take(checkpoint)
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pending.checkpoint_waiters.append(saved)
        self._flush_soon()
        await saved

    def post(
        self, transition: Transition, answered: Callable[[DeliveryAnswer], None], final_checkpoint: Checkpoint | None = None
    ) -> None:
        """`answered` is called with True when the transition is in the database, with False when the run was superseded,
        and with the error when the database refuses it. The run's last checkpoint is written with it, or before it if it
        brings large results."""
        pending = self._pending_of(transition.run_id)
        if final_checkpoint is not None and final_checkpoint.blobs:
            pending.take(final_checkpoint)
        elif final_checkpoint is not None:
            transition = transition._replace(
                checkpoint=final_checkpoint.document,
                checkpoint_id=final_checkpoint.checkpoint_id,
                cost_cents=transition.cost_cents + final_checkpoint.cost_cents,
            )
        pending.transition, pending.answered = transition, answered
        self._flush_soon()

    async def finish(self, transition: Transition) -> bool:
        """Posts a transition and waits for the answer."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.post(transition, lambda given: _settle(answer, given))
        return await answer

    def abandon(self) -> None:
        """The lease is lost: every unwritten checkpoint and outcome would be rejected."""
        if self._flushing is not None:
            end_task(self._flushing)
        for _, trying_again in self._aside.values():
            end_task(trying_again)
        aside = [(run_id, pending) for run_id, (pending, _) in self._aside.items()]
        for run_id, pending in [*self._under_way.items(), *aside, *self._pending.items()]:
            _answer_checkpoint(pending, run_id, False)
            _answer_transition(pending, False)
        self._under_way = {}
        self._aside.clear()
        self._pending.clear()

    async def drained(self) -> None:
        """Waits until all batches are written, except elements set aside: a foreign lock must not delay a shutdown."""
        while self._flushing is not None and not self._flushing.done():
            await asyncio.wait([self._flushing])

    def _pending_of(self, run_id: RunId) -> PendingWrites:
        if run_id in self._aside:
            return self._aside[run_id][0]
        return self._pending.setdefault(run_id, PendingWrites())

    def _flush_soon(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = self._start(self._flush(), "cortex-outbox")

    async def _flush(self) -> None:
        while self._pending:
            self._under_way = {run_id: self._pending.pop(run_id) for run_id in list(self._pending)[: self._most_in_a_batch]}
            await self._write(self._under_way)
            self._under_way = {}

    async def _write(self, batch: dict[RunId, PendingWrites]) -> None:
        batch = await self._without_held(batch)
        checkpoints = [pending.checkpoint for pending in batch.values() if pending.checkpoint is not None]
        if checkpoints:
            for run_id, answer in (await self._deliver(checkpoints, self._store.checkpoints.save)).items():
                pending = batch[run_id]
                if _may_be_tried_again(pending, answer):
                    self._set_aside(run_id, batch.pop(run_id), answer)
                else:
                    _answer_checkpoint(pending, run_id, answer)
                    pending.checkpoint, pending.checkpoint_waiters = None, []
        transitions = [pending.transition for pending in batch.values() if pending.transition is not None]
        if transitions:
            for run_id, answer in (await self._deliver(transitions, self._finish)).items():
                if _may_be_tried_again(batch[run_id], answer):
                    self._set_aside(run_id, batch.pop(run_id), answer)
                else:
                    _answer_transition(batch[run_id], answer)

    async def _finish(self, transitions: Sequence[Transition]) -> set[RunId]:
        applied = await finish_runs(self._store, transitions, self._actor)
        if len(applied) < len(transitions):
            count("stale_writes", len(transitions) - len(applied))
        return applied

    async def _deliver(self, writes: Sequence[Write], write: BatchWriter[Write]) -> dict[RunId, DeliveryAnswer]:
        """Retries while the database is unavailable. A lease lost meanwhile ends the wait from outside."""
        pause, trouble = FIRST_PAUSE_SECONDS, Trouble("outbox_waits", "outbox_goes_on")
        while True:
            try:
                answers = await deliver_batch(self._store, writes, write)
            except Unavailable as error:
                trouble.tell(error, writes=len(writes))
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            else:
                trouble.over()
                return answers

    # -- jobs that another transaction has locked, statements that failed ------------------------

    def _set_aside(self, run_id: RunId, pending: PendingWrites, why: DeliveryAnswer | None = None) -> None:
        """Later writes of this run are added to the element, so that their order is kept."""
        if isinstance(why, Unavailable) and not isinstance(why, Contended):
            log.warning("write_failed", job_id=pending.job_id, error=str(why), tries=pending.tries, meaning="It is tried again.")
        elif not pending.held:
            log.warning("job_is_locked", job_id=pending.job_id, meaning="Another transaction holds its row; tried again.")
        if newer := self._pending.pop(run_id, None):
            pending.absorb(newer)
        self._under_way.pop(run_id, None)
        pending.held = True
        self._aside[run_id] = pending, self._start(self._try_again(run_id, pending), "cortex-outbox-aside")

    async def _try_again(self, run_id: RunId, pending: PendingWrites) -> None:
        await self._clock.sleep(pending.pause_seconds)
        pending.pause_seconds = min(pending.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        del self._aside[run_id]
        self._pending[run_id] = pending
        self._flush_soon()

    async def _without_held(self, batch: dict[RunId, PendingWrites]) -> dict[RunId, PendingWrites]:
        """The batch without elements whose jobs are still locked, so that no batch waits for the same lock repeatedly."""
        held = [pending.job_id for pending in batch.values() if pending.held]
        if not held:
            return dict(batch)
        try:
            free = await self._store.queue.free_jobs(held)
        except Unavailable:
            free = set()
        for run_id, pending in list(batch.items()):
            if pending.held and pending.job_id not in free:
                self._set_aside(run_id, pending)
        return {run_id: pending for run_id, pending in batch.items() if run_id not in self._aside}


def _start(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[Any]:
    return asyncio.create_task(work, name=name)


def _may_be_tried_again(pending: PendingWrites, answer: DeliveryAnswer) -> bool:
    if isinstance(answer, Contended) or not isinstance(answer, Unavailable):
        return isinstance(answer, Contended)
    pending.tries += 1
    return pending.tries < TRIES


def _answer_checkpoint(pending: PendingWrites, run_id: RunId, answer: DeliveryAnswer) -> None:
    for waiter in pending.checkpoint_waiters:
        if waiter.done():
            continue
        if answer is True:
            waiter.set_result(None)
        else:
            waiter.set_exception(answer if isinstance(answer, Exception) else LeaseLost(str(_job_of(pending)), run_id))


def _answer_transition(pending: PendingWrites, answer: DeliveryAnswer) -> None:
    answered, pending.answered = pending.answered, None
    if answered is not None:
        answered(answer)


def _settle(future: asyncio.Future[bool], answer: DeliveryAnswer) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _job_of(pending: PendingWrites) -> Any:
    return pending.checkpoint.job_id if pending.checkpoint else None
