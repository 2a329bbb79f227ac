"""Submit, claim, complete, fail, crash, move, pause, cancel and reserve, in any order, against a model that fits in the head."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from cortex_plane.errors import JobNotQueued, QueueBusy
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId, WorkerId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus
from cortex_plane.queues import controls
from cortex_plane.queues.model import Place, ReservationId, Scope
from cortex_plane.queues.service import move_job
from cortex_plane.testing import ManualClock
from cortex_plane.wiring import open_store
from tests.contract.support import FATAL, Scene

Result = TypeVar("Result")
numbers = count(1)


@dataclass
class Waiting:
    """The model of a job that waits: where it stands."""

    priority: int
    position: Fraction
    number: int

    @property
    def key(self) -> tuple[int, Fraction, int]:
        return -self.priority, self.position, self.number


class Model(RuleBasedStateMachine):
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = open_store(self.url, ManualClock())
        self.do(self.store.open())
        self.scene = Scene(self.store, ManualClock())
        self.queue = f"model {new_id()}"
        self.do(self.scene.agent())
        self.worker: WorkerId = self.do(self.scene.worker())
        self.waiting: dict[JobId, Waiting] = {}
        self.running: dict[JobId, tuple[Claimed, Waiting]] = {}
        self.ended: dict[JobId, JobStatus] = {}
        self.paused = False
        self.reserved: JobId | None = None

    def teardown(self) -> None:
        self.do(self.store.close())
        self.runner.close()

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)

    def order(self) -> list[JobId]:
        return sorted((job for job in self.waiting if job != self.reserved), key=lambda job: self.waiting[job].key)

    def expected(self, limit: int) -> list[JobId]:
        if self.paused:
            return []
        if self.reserved is not None:
            return [self.reserved] if self.reserved in self.waiting and not self.running else []
        return self.order()[:limit]

    # -- what can be done ------------------------------------------------------------------------

    @rule(priority=st.integers(0, 2))
    def submit(self, priority: int) -> None:
        number = next(numbers)
        job = self.do(self.scene.submit(queue=self.queue, priority=priority))
        self.waiting[job] = Waiting(priority, Fraction(100 * number), number)

    @rule(limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        claimed = self.do(self.scene.claim(self.worker, limit, (self.queue,)))

        assert [one.job_id for one in claimed] == self.expected(limit)
        for one in claimed:
            self.running[one.job_id] = (one, self.waiting.pop(one.job_id))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: st.DataObject, fails: bool) -> None:
        job = data.draw(st.sampled_from(sorted(self.running)))
        claimed, _ = self.running.pop(job)

        assert self.do(self.scene.finish(claimed, FATAL if fails else Done("1")))
        self.end(job, JobStatus.FAILED if fails else JobStatus.COMPLETED)

    @rule()
    def crash(self) -> None:
        """The worker dies with all that it runs; another goes on."""
        lost, self.running = self.running, {}
        self.do(self.store.workers.give_up(self.worker))
        assert self.do(self.scene.rescue()) == len(lost)
        self.worker = self.do(self.scene.worker())
        for job, (claimed, place) in lost.items():
            if self.do(self.scene.status(job)) is JobStatus.FAILED:
                assert self.do(self.scene.job(job)).crash_count == 3  # Poisoned.
                self.end(job, JobStatus.FAILED)
            else:
                self.waiting[job] = Waiting(place.priority, place.position, place.number)
                if job == self.reserved:
                    self.reserved = None
            assert not self.do(self.scene.finish(claimed, Done('"late"')))

    @precondition(lambda self: self.waiting or self.running)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted([*self.waiting, *self.running])))

        assert self.do(self.store.jobs.cancel(job, "ada", None))
        self.waiting.pop(job, None)
        if job in self.running:
            claimed, _ = self.running.pop(job)
            assert not self.do(self.scene.finish(claimed, Done('"late"')))
        self.end(job, JobStatus.CANCELLED)

    @precondition(lambda self: len(self.waiting) > 1 and self.reserved is None)
    @rule(data=st.data(), place=st.sampled_from(Place))
    def move(self, data: st.DataObject, place: Place) -> None:
        job = data.draw(st.sampled_from(sorted(self.waiting)))
        others = [other for other in self.order() if other != job]
        anchor = {Place.FRONT: others[0], Place.BACK: others[-1]}.get(place) or data.draw(st.sampled_from(others))
        beside = anchor if place in (Place.BEFORE, Place.AFTER) else None

        self.do(move_job(self.store, job, place, beside))
        self.waiting[job] = self.beside(self.waiting[job], anchor, others, place in (Place.BEFORE, Place.FRONT))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def move_what_runs(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.running)))
        try:
            self.do(move_job(self.store, job, Place.FRONT))
        except JobNotQueued:
            return
        raise AssertionError("It was moved.")

    @rule()
    def pause_or_resume(self) -> None:
        verb = controls.resume if self.paused else controls.pause
        assert self.do(verb(self.store, Scope.QUEUE, self.queue, actor="ada", reason=None))
        self.paused = not self.paused

    @rule()
    def reserve(self) -> None:
        number = next(numbers)
        job = self.do(self.scene.new_job(queue=self.queue))
        try:
            self.do(self.store.reservations.reserve(ReservationId(new_id()), job, "ada", 1000))
        except QueueBusy:
            assert self.reserved is not None
            return
        assert self.reserved is None
        self.reserved = job.id
        self.waiting[job.id] = Waiting(0, Fraction(100 * number), number)

    # -- what must be true -----------------------------------------------------------------------

    @invariant()
    def states_are_as_the_model_says(self) -> None:
        for job in self.running:
            assert self.do(self.scene.status(job)) is JobStatus.RUNNING
        for job in self.waiting:
            assert self.do(self.scene.status(job)) in (JobStatus.PENDING, JobStatus.RETRY)
        for job, status in self.ended.items():
            assert self.do(self.scene.status(job)) is status
        depths = self.do(self.store.queue.depths()).get(self.queue, {})
        assert depths.get("ready", 0) == len(self.waiting)

    def end(self, job: JobId, status: JobStatus) -> None:
        self.ended[job] = status
        if job == self.reserved:
            self.reserved = None

    def beside(self, moved: Waiting, anchor: JobId, others: list[JobId], before: bool) -> Waiting:
        here = self.waiting[anchor]
        index = others.index(anchor)
        neighbour = (
            others[index - 1] if before and index else others[index + 1] if not before and index + 1 < len(others) else None
        )
        there = self.waiting[neighbour] if neighbour else None
        if there is None or there.priority != here.priority:
            position = here.position - 100 if before else Fraction(100 * next(numbers))
        else:
            position = (here.position + there.position) / 2
        return Waiting(here.priority, position, moved.number)


def test_any_series_of_deeds_equals_the_model(database_url: str) -> None:
    machine = type("ModelOnThisStore", (Model,), {"url": database_url})

    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)),
    )
