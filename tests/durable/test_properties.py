"""The contract of durable agents: six properties, each held while real worker processes are killed at every write of a job.

prefix continuation      what is recorded is never done again, and what is not recorded is done
effect exactly-once      an effect whose other side can be asked happens once, wherever the worker dies
checkpoint validity      after any kill, the stored checkpoint is whole, or there is none yet
recovery determinism     wherever the worker dies, the job ends with the same output and the same log of steps
consume-once             of two runs that go on from one checkpoint, one is refused
fork determinism         a fork takes the recorded prefix as it is, and repeats nothing of it
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Plane, Settings
from cortex_plane.durable.load import checked_blob
from cortex_plane.jobs.states import WorkerStatus
from tests.durable.app import RESULTS, STEPS, TOOLS, lines, register
from tests.end_to_end.fleet import stopped
from tests.end_to_end.inspection import broken_rules
from tests.forked import Forked
from tests.runtime.helpers import eventually

pytestmark = pytest.mark.anyio

WRITES = len(STEPS) + len(TOOLS)
"""One for each step, and one more before each tool. The last words go with the outcome."""

BOUNDARIES = [
    *(("checkpoints/save", moment, count) for count in range(1, WRITES + 1) for moment in ("before", "uncommitted", "committed")),
    *(("checkpoints/save", "answered", count) for count in (1, 8, WRITES)),
    *(("effect", moment, count) for moment in ("before", "after") for count in range(1, len(TOOLS) + 1)),
]

SEALED = [
    *(("checkpoints/save", "committed", count, True) for count in range(1, WRITES + 1)),
    *(("checkpoints/save", "uncommitted", count, True) for count in range(2, WRITES + 1, 2)),
]
"""The same writes where entries are sealed; `test_segments_are_among_what_is_killed` sees that some bring a segment."""


class Scene:
    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.effects = url, str(folder / "effects")
        self.plane = Plane(settings=Settings(database_url=url, lease_seconds=0.6, data_dir=str(folder / "files")))
        register(self.plane, self.effects)

    def start(self, *die: Any, seals: bool = False) -> Forked:
        return Forked("tests.durable.app", {"url": self.url, "effects": self.effects, "die": list(die), "seals": seals})

    async def killed_at(self, *die: Any, seals: bool = False) -> int:
        """Runs a worker process that kills itself there; returns how it ended."""
        process = self.start(*die, seals=seals)
        try:
            return await asyncio.to_thread(process.wait, 30)
        finally:
            process.kill()

    async def finish(self, job: Any) -> Any:
        """Another worker rescues the job and goes on with it. It need not wait for the lease: who was killed is known here."""
        workers = self.plane.store.workers
        for record in await workers.list():
            await workers.give_up(record.id)
        worker = asyncio.create_task(self.plane.run_worker(concurrency=1))
        try:
            return await job.result(timeout=30)
        finally:
            await stopped(self.plane, worker)

    def done(self) -> Counter[str]:
        return Counter(line.split()[0] for line in lines(self.effects))

    async def steps_recorded(self, job_id: Any) -> list[str]:
        """What the stored checkpoint says is done. It must be whole."""
        stored = await self.plane.store.checkpoints.load(job_id)
        if stored is None:
            return []
        blob = checked_blob(stored)
        return [step["step_id"] for step in blob["execution_log"] if step["step_index"] > 0]


@pytest.fixture
def scene(database_url: str, tmp_path: Path) -> Scene:
    return Scene(database_url, tmp_path)


@pytest.mark.parametrize(("statement", "moment", "count", "seals"), [*((*one, False) for one in BOUNDARIES), *SEALED])
async def test_wherever_a_worker_is_killed_the_job_goes_on_from_exactly_there(
    scene: Scene, statement: str, moment: str, count: int, seals: bool
) -> None:
    async with scene.plane as plane:
        job = await plane.submit("ten")
        assert await scene.killed_at(statement, moment, count, seals=seals) == -signal.SIGKILL

        recorded = await scene.steps_recorded(job.id)
        before = scene.done()
        output = await scene.finish(job)
        after = scene.done()

        assert recorded == STEPS[: len(recorded)]
        assert output == [RESULTS[name] for name in STEPS]
        assert await scene.steps_recorded(job.id) == STEPS
        assert {name: after[name] for name in recorded} == dict.fromkeys(recorded, 1)
        assert {name: after[name] for name in TOOLS} == dict.fromkeys(TOOLS, 1)
        assert set(after) == set(STEPS)
        assert sum(after.values()) <= len(STEPS) + 1
        assert all(after[name] - before[name] == 0 for name in recorded)
        assert await broken_rules(scene.url) == {}


async def test_there_is_no_write_that_was_left_out(scene: Scene) -> None:
    """A worker that is to die at one write more than there are finishes the job instead."""
    async with scene.plane as plane:
        job = await plane.submit("ten")
        beyond = asyncio.create_task(scene.killed_at("checkpoints/save", "before", WRITES + 1))

        async def ended() -> bool:
            return (await job.status()).is_terminal

        await eventually(ended, 30)
        assert not beyond.done()
        beyond.cancel()
        assert scene.done() == Counter(STEPS)


async def test_segments_are_among_what_is_killed(scene: Scene) -> None:
    counts = []
    async with scene.plane as plane:
        for count in (2, 6, WRITES):
            job = await plane.submit("ten")
            await scene.killed_at("checkpoints/save", "committed", count, seals=True)
            stored = await plane.store.checkpoints.load(job.id)
            assert stored is not None
            counts.append(len(stored.segments or ()))
            await plane.jobs.cancel(job.id)

    assert counts[0] < counts[1] < counts[2]


async def test_of_two_runs_that_go_on_from_one_checkpoint_one_is_refused(scene: Scene) -> None:
    """A worker is frozen in the middle of a step until another has finished the job; then it wakes, and may write nothing."""
    async with scene.plane as plane:
        job = await plane.submit("ten")
        zombie = scene.start("pause", "draft")
        try:
            await eventually(lambda: _is_stopped(zombie.pid), 30)
            output = await scene.finish(job)
            finished = await scene.steps_recorded(job.id)
            zombie.send_signal(signal.SIGCONT)
            await eventually(lambda: _done_twice(scene), 30)
            zombie.terminate()
            await asyncio.to_thread(zombie.wait, 30)
        finally:
            zombie.kill()

        assert output == [RESULTS[name] for name in STEPS]
        assert await scene.steps_recorded(job.id) == finished == STEPS
        assert scene.done() == Counter([*STEPS, "draft"])
        assert await broken_rules(scene.url) == {}


@pytest.mark.parametrize("tool", sorted(TOOLS))
async def test_a_worker_that_is_frozen_between_the_record_and_the_call_does_not_call_when_it_wakes(
    scene: Scene, tool: str
) -> None:
    async with scene.plane as plane:
        job = await plane.submit("ten")
        zombie = scene.start("freeze", tool)
        try:
            await eventually(lambda: _is_stopped(zombie.pid), 30)
            await asyncio.sleep(scene.plane.settings.lease_seconds)  # The freeze outlasts the lease.
            await scene.finish(job)
            assert not await _lives(plane)
            zombie.send_signal(signal.SIGCONT)
            await eventually(lambda: _lives(plane), 30)  # It has noticed, and begun anew.
            zombie.terminate()
            await asyncio.to_thread(zombie.wait, 30)
        finally:
            zombie.kill()

        assert scene.done() == Counter(STEPS)
        assert await broken_rules(scene.url) == {}


async def _lives(plane: Plane) -> bool:
    return any(worker.status is WorkerStatus.LIVE for worker in await plane.store.workers.list())


async def _is_stopped(pid: int) -> bool:
    return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "T"


async def _done_twice(scene: Scene) -> bool:
    return scene.done()["draft"] == 2
