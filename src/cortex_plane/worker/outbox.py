"""Everything that the runs of a worker write, in batches: whatever comes while one batch is under way goes in the next.

    one mailbox for each run:   checkpoint, checkpoint, checkpoint, finish
                                 └── only the newest is written ──┘     └── after it

The writer of an older checkpoint is answered with the newer one: that holds all that the older one held.

A database that is away gets the whole batch when it is back. What it answers but does not take is taken apart: an element that
another transaction has locked is set aside and tried again later. So is, a few times, one whose statement failed by no fault of
its own (cancelled, server out of memory). What is refused for what it says is answered with the error.
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
from cortex_plane.worker.rescue import DeliveryAnswer, Letter, Write, deliver_batch, finish_runs
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
"""Of one element whose statement fails; with their pauses they take five seconds."""

Start = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[Any]]


@dataclass(slots=True)
class Mailbox:
    checkpoint: Checkpoint | None = None
    checkpoint_waiters: list[asyncio.Future[None]] = field(default_factory=list)
    transition: Transition | None = None
    answered: Callable[[DeliveryAnswer], None] | None = None
    held: bool = False
    """Another transaction had locked its job when it was last tried, or its statement failed."""
    tries: int = 0
    """Whose statement failed."""
    pause_seconds: float = FIRST_PAUSE_SECONDS

    @property
    def job_id(self) -> JobId:
        letter = self.transition or self.checkpoint
        assert letter is not None
        return letter.job_id

    def absorb(self, newer: Mailbox) -> None:
        if newer.checkpoint is not None:
            self.take(newer.checkpoint)
        self.checkpoint_waiters += newer.checkpoint_waiters
        if newer.transition is not None:
            self.transition, self.answered = newer.transition, newer.answered

    def take(self, checkpoint: Checkpoint) -> None:
        """The newer one takes the older one's place, with what only the older one brought: its predecessor, blobs and cost.
        Segments are blobs: one that the older was to bring, the newer refers to."""
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
        self._boxes: dict[RunId, Mailbox] = {}
        self._under_way: dict[RunId, Mailbox] = {}
        self._aside: dict[RunId, tuple[Mailbox, asyncio.Task[Any]]] = {}
        self._start: Start = start or _start
        self._flushing: asyncio.Task[Any] | None = None

    async def save(self, checkpoint: Checkpoint) -> None:
        """Returns when this checkpoint, or a newer one of its run, is in the database. Raises LeaseLost if it never will be."""
        box = self._box_of(checkpoint.run_id)
        box.take(checkpoint)
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        box.checkpoint_waiters.append(saved)
        self._flush_soon()
        await saved

    def post(
        self, transition: Transition, answered: Callable[[DeliveryAnswer], None], last_words: Checkpoint | None = None
    ) -> None:
        """`answered` is called with True when the transition is in the database, with False when the run was superseded,
        and with the error when the database refuses it. The run's last checkpoint is written with it, or before it if it
        brings large results."""
        box = self._box_of(transition.run_id)
        if last_words is not None and last_words.blobs:
            box.take(last_words)
        elif last_words is not None:
            transition = transition._replace(
                checkpoint=last_words.document,
                checkpoint_id=last_words.checkpoint_id,
                cost_cents=transition.cost_cents + last_words.cost_cents,
            )
        box.transition, box.answered = transition, answered
        self._flush_soon()

    async def finish(self, transition: Transition) -> bool:
        """The same, for those who wait for the answer."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.post(transition, lambda given: _settle(answer, given))
        return await answer

    def abandon(self) -> None:
        """The lease is lost: whatever is still unwritten would be refused."""
        if self._flushing is not None:
            end_task(self._flushing)
        for _, trying_again in self._aside.values():
            end_task(trying_again)
        aside = [(run_id, box) for run_id, (box, _) in self._aside.items()]
        for run_id, box in [*self._under_way.items(), *aside, *self._boxes.items()]:
            _answer_checkpoint(box, run_id, False)
            _answer_transition(box, False)
        self._under_way = {}
        self._aside.clear()
        self._boxes.clear()

    async def drained(self) -> None:
        """What is set aside is not waited for: somebody else's lock must not keep a worker from leaving."""
        while self._flushing is not None and not self._flushing.done():
            await asyncio.wait([self._flushing])

    def _box_of(self, run_id: RunId) -> Mailbox:
        if run_id in self._aside:
            return self._aside[run_id][0]
        return self._boxes.setdefault(run_id, Mailbox())

    def _flush_soon(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = self._start(self._flush(), "cortex-outbox")

    async def _flush(self) -> None:
        while self._boxes:
            self._under_way = {run_id: self._boxes.pop(run_id) for run_id in list(self._boxes)[: self._most_in_a_batch]}
            await self._write(self._under_way)
            self._under_way = {}

    async def _write(self, batch: dict[RunId, Mailbox]) -> None:
        batch = await self._without_held(batch)
        checkpoints = [box.checkpoint for box in batch.values() if box.checkpoint is not None]
        if checkpoints:
            for run_id, answer in (await self._deliver(checkpoints, self._store.checkpoints.save)).items():
                box = batch[run_id]
                if _may_be_tried_again(box, answer):
                    self._set_aside(run_id, batch.pop(run_id), answer)
                else:
                    _answer_checkpoint(box, run_id, answer)
                    box.checkpoint, box.checkpoint_waiters = None, []
        transitions = [box.transition for box in batch.values() if box.transition is not None]
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

    async def _deliver(self, letters: Sequence[Letter], write: Write[Letter]) -> dict[RunId, DeliveryAnswer]:
        """A database that is away gets the batch when it is back; a lease that runs out meanwhile ends the wait from outside."""
        pause, trouble = FIRST_PAUSE_SECONDS, Trouble("outbox_waits", "outbox_goes_on")
        while True:
            try:
                answers = await deliver_batch(self._store, letters, write)
            except Unavailable as error:
                trouble.tell(error, letters=len(letters))
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            else:
                trouble.over()
                return answers

    # -- jobs that another transaction has locked, statements that failed ------------------------

    def _set_aside(self, run_id: RunId, box: Mailbox, why: DeliveryAnswer | None = None) -> None:
        """Whatever comes for this run meanwhile is put to it, so that its order is kept."""
        if isinstance(why, Unavailable) and not isinstance(why, Contended):
            log.warning("write_failed", job_id=box.job_id, error=str(why), tries=box.tries, meaning="It is tried again.")
        elif not box.held:
            log.warning("job_is_locked", job_id=box.job_id, meaning="Another transaction holds its row; tried again.")
        if newer := self._boxes.pop(run_id, None):
            box.absorb(newer)
        self._under_way.pop(run_id, None)
        box.held = True
        self._aside[run_id] = box, self._start(self._try_again(run_id, box), "cortex-outbox-aside")

    async def _try_again(self, run_id: RunId, box: Mailbox) -> None:
        await self._clock.sleep(box.pause_seconds)
        box.pause_seconds = min(box.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        del self._aside[run_id]
        self._boxes[run_id] = box
        self._flush_soon()

    async def _without_held(self, batch: dict[RunId, Mailbox]) -> dict[RunId, Mailbox]:
        """Of what was set aside, only what is free now: nobody waits for the lock of one job again and again."""
        held = [box.job_id for box in batch.values() if box.held]
        if not held:
            return dict(batch)
        try:
            free = await self._store.queue.free_jobs(held)
        except Unavailable:
            free = set()
        for run_id, box in list(batch.items()):
            if box.held and box.job_id not in free:
                self._set_aside(run_id, box)
        return {run_id: box for run_id, box in batch.items() if run_id not in self._aside}


def _start(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[Any]:
    return asyncio.create_task(work, name=name)


def _may_be_tried_again(box: Mailbox, answer: DeliveryAnswer) -> bool:
    if isinstance(answer, Contended) or not isinstance(answer, Unavailable):
        return isinstance(answer, Contended)
    box.tries += 1
    return box.tries < TRIES


def _answer_checkpoint(box: Mailbox, run_id: RunId, answer: DeliveryAnswer) -> None:
    for waiter in box.checkpoint_waiters:
        if waiter.done():
            continue
        if answer is True:
            waiter.set_result(None)
        else:
            waiter.set_exception(answer if isinstance(answer, Exception) else LeaseLost(str(_job_of(box)), run_id))


def _answer_transition(box: Mailbox, answer: DeliveryAnswer) -> None:
    answered, box.answered = box.answered, None
    if answered is not None:
        answered(answer)


def _settle(future: asyncio.Future[bool], answer: DeliveryAnswer) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _job_of(box: Mailbox) -> Any:
    return box.checkpoint.job_id if box.checkpoint else None
