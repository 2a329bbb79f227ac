"""Everything that the runs of a worker write, in batches: whatever comes while one batch is under way goes in the next.

    one mailbox for each run:   checkpoint, checkpoint, checkpoint, finish
                                 └── only the newest is written ──┘     └── after it

The writer of an older checkpoint is answered with the newer one: that holds all that the older one held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from cortex_plane.core.checkpoints import Checkpoint
from cortex_plane.core.errors import LeaseLost, Unavailable
from cortex_plane.core.jobs import RunId
from cortex_plane.core.outcomes import Transition
from cortex_plane.operations.finish_runs import finish_runs
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.store import Store
from cortex_plane.runtime.metrics import count

log = structlog.get_logger()

LARGEST_BATCH = 500
SMALLEST_BATCH = 50
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0

Letter = TypeVar("Letter", Checkpoint, Transition)
Answers = dict[RunId, bool | Exception]


@dataclass(slots=True)
class Mailbox:
    checkpoint: Checkpoint | None = None
    checkpoint_waiters: list[asyncio.Future[None]] = field(default_factory=list)
    transition: Transition | None = None
    answered: Callable[[bool | Exception], None] | None = None

    def take(self, checkpoint: Checkpoint) -> None:
        """The newer one takes the older one's place, with what only the older one brought: its predecessor, blobs and cost.
        What it adds may be added to the older one: if that was to be written whole, this one is."""
        older, self.checkpoint = self.checkpoint, checkpoint
        if older is not None:
            self.checkpoint = replace(
                checkpoint,
                previous_id=older.previous_id,
                blobs=older.blobs + checkpoint.blobs,
                cost_cents=older.cost_cents + checkpoint.cost_cents,
                added=checkpoint.added if older.added is not None else None,
            )


class Outbox:
    def __init__(self, store: Store, clock: Clock, actor: str, slots: int) -> None:
        self._store = store
        self._clock = clock
        self._actor = actor
        # While half of the slots wait for the database, the other half works.
        self._most_in_a_batch = min(LARGEST_BATCH, max(SMALLEST_BATCH, slots // 2))
        self._boxes: dict[RunId, Mailbox] = {}
        self._under_way: dict[RunId, Mailbox] = {}
        self._flushing: asyncio.Task[None] | None = None

    async def save(self, checkpoint: Checkpoint) -> None:
        """Returns when this checkpoint, or a newer one of its run, is in the database. Raises LeaseLost if it never will be."""
        box = self._boxes.setdefault(checkpoint.run_id, Mailbox())
        box.take(checkpoint)
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        box.checkpoint_waiters.append(saved)
        self._flush_soon()
        await saved

    def post(
        self, transition: Transition, answered: Callable[[bool | Exception], None], last_words: Checkpoint | None = None
    ) -> None:
        """`answered` is called with True when the transition is in the database, with False when the run was superseded,
        and with the error when the database refuses it. The run's last checkpoint is written with it, or before it if it
        brings large results."""
        box = self._boxes.setdefault(transition.run_id, Mailbox())
        if last_words is not None and last_words.blobs:
            box.take(replace(last_words, added=None))
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
            self._flushing.cancel()
        for run_id, box in [*self._under_way.items(), *self._boxes.items()]:
            _answer_checkpoint(box, run_id, False)
            _answer_transition(box, False)
        self._under_way = {}
        self._boxes.clear()

    async def drained(self) -> None:
        while self._flushing is not None and not self._flushing.done():
            await asyncio.wait([self._flushing])

    def _flush_soon(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush(), name="cortex-outbox")

    async def _flush(self) -> None:
        while self._boxes:
            self._under_way = {run_id: self._boxes.pop(run_id) for run_id in list(self._boxes)[: self._most_in_a_batch]}
            await self._write(self._under_way)
            self._under_way = {}

    async def _write(self, batch: dict[RunId, Mailbox]) -> None:
        checkpoints = [box.checkpoint for box in batch.values() if box.checkpoint is not None]
        if checkpoints:
            answers = await self._deliver(checkpoints, self._store.checkpoints.save)
            for run_id, answer in answers.items():
                _answer_checkpoint(batch[run_id], run_id, answer)
        transitions = [box.transition for box in batch.values() if box.transition is not None]
        if transitions:
            answers = await self._deliver(transitions, self._finish)
            for run_id, answer in answers.items():
                _answer_transition(batch[run_id], answer)

    async def _finish(self, transitions: Sequence[Transition]) -> set[RunId]:
        applied = await finish_runs(self._store, transitions, self._actor)
        if len(applied) < len(transitions):
            count("stale_writes", len(transitions) - len(applied))
        return applied

    async def _deliver(self, letters: Sequence[Letter], write: Callable[[Sequence[Letter]], Awaitable[set[RunId]]]) -> Answers:
        """Where a batch cannot be written because of what is in it, halves it until the bad element stands alone."""
        try:
            applied = await self._patiently(letters, write)
            return {letter.run_id: letter.run_id in applied for letter in letters}
        except Exception as error:
            if len(letters) == 1:
                return {letters[0].run_id: error}
            middle = len(letters) // 2
            return {**await self._deliver(letters[:middle], write), **await self._deliver(letters[middle:], write)}

    async def _patiently(
        self, letters: Sequence[Letter], write: Callable[[Sequence[Letter]], Awaitable[set[RunId]]]
    ) -> set[RunId]:
        """A database that is away gets the batch when it is back; a lease that runs out meanwhile ends the wait from outside."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await write(letters)
            except Unavailable as error:
                log.warning("outbox_waits", letters=len(letters), error=str(error))
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _answer_checkpoint(box: Mailbox, run_id: RunId, answer: bool | Exception) -> None:
    for waiter in box.checkpoint_waiters:
        if waiter.done():
            continue
        if answer is True:
            waiter.set_result(None)
        else:
            waiter.set_exception(answer if isinstance(answer, Exception) else LeaseLost(str(_job_of(box)), run_id))


def _answer_transition(box: Mailbox, answer: bool | Exception) -> None:
    answered, box.answered = box.answered, None
    if answered is not None:
        answered(answer)


def _settle(future: asyncio.Future[bool], answer: bool | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _job_of(box: Mailbox) -> Any:
    return box.checkpoint.job_id if box.checkpoint else None
