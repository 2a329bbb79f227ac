"""Graphs survive the death of their workers: real processes are killed in every node and around every write."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Plane, Settings
from cortex_plane.integrations.langgraph import PlaneSaver
from tests.durable.app import lines
from tests.end_to_end.fleet import stopped
from tests.end_to_end.inspection import broken_rules
from tests.forked import Forked
from tests.graphs.app import NAME, NODES, register
from tests.runtime.helpers import eventually

pytestmark = pytest.mark.anyio

SAVES = 10
WRITTEN = {
    "plan of the sea": "plan",
    "rhyme": "rhyme",
    "metre": "metre",
    "polished 3": "polish",
    "published by nobody": "publish",
}


class Scene:
    def __init__(self, url: str, folder: Path, decisions: str | None = None) -> None:
        self.url, self.effects, self.folder, self.decisions = url, str(folder / "effects"), folder, decisions
        self.plane = Plane(settings=Settings(database_url=url, lease_seconds=0.6, data_dir=str(folder / "files")))
        register(self.plane, self.effects, None, decisions)

    def start(self, *die: Any) -> Forked:
        options = {"url": self.url, "effects": self.effects, "die": list(die), "folder": self.decisions}
        return Forked("tests.graphs.app", options)

    async def killed_at(self, *die: Any) -> int:
        process = self.start(*die)
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

    async def kept(self, job_id: str) -> set[str]:
        """The nodes whose results the store has, in whichever graph."""
        saver = PlaneSaver(self.plane.store.graphs)
        kept: set[str] = set()
        async for found in saver.alist({"configurable": {"thread_id": job_id}}):
            written = [value for _, channel, value in found.pending_writes or () if channel == "lines"]
            kept |= {WRITTEN[line] for line in sum(written, found.checkpoint["channel_values"].get("lines", []))}
        return kept

    async def prompt_tokens(self, job_id: str) -> int:
        blob = await self.plane.checkpoints.get(job_id)
        tokens: int = blob["memory_context"]["token_usage"]["prompt_tokens"]
        return tokens

    def done(self) -> Counter[str]:
        return Counter(lines(self.effects))


@pytest.fixture
def scene(database_url: str, tmp_path: Path) -> Scene:
    return Scene(database_url, tmp_path)


@pytest.mark.parametrize("node", NODES)
async def test_a_graph_goes_on_at_the_node_in_which_its_worker_was_killed(scene: Scene, node: str) -> None:
    async with scene.plane as plane:
        job = await plane.submit(NAME, {"topic": "the sea"})
        assert await scene.killed_at("node", node) == -signal.SIGKILL

        output = await scene.finish(job)

        together = {"rhyme", "metre"} if node in ("rhyme", "metre") else {node}
        done = scene.done()
        assert {name: done[name] for name in NODES if name not in together} == {n: 1 for n in NODES if n not in together}
        assert done[node] == 2
        assert sorted(output["lines"]) == sorted(WRITTEN)
        assert await broken_rules(scene.url) == {}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("count", range(1, SAVES + 1))
async def test_wherever_a_worker_is_killed_no_node_whose_result_is_kept_runs_again(scene: Scene, moment: str, count: int) -> None:
    async with scene.plane as plane:
        job = await plane.submit(NAME, {"topic": "the sea"})
        assert await scene.killed_at("save", moment, count) == -signal.SIGKILL
        kept, begun = await scene.kept(job.id), set(scene.done())

        output = await scene.finish(job)

        again = {node for node, times in scene.done().items() if times > 1}
        assert set(scene.done()) == set(NODES)
        assert again == begun - kept
        assert await scene.prompt_tokens(job.id) == 10 * scene.done()["plan"], "each call of the model is counted, and once"
        assert sorted(output["lines"]) == sorted(WRITTEN)


async def test_an_interrupt_is_answered_in_another_process_than_it_was_asked_in(database_url: str, tmp_path: Path) -> None:
    decisions = tmp_path / "decisions"
    decisions.mkdir()
    scene = Scene(database_url, tmp_path, str(decisions))
    async with scene.plane as plane:
        job = await plane.submit(NAME, {"topic": "the sea"})
        process = scene.start()

        async def asked() -> bool:
            return bool(lines(str(decisions / "asked")))

        try:
            await eventually(asked, 30)
        finally:
            process.kill()
            process.wait()
        [(asker, question)] = {tuple(line.split()) for line in lines(str(decisions / "asked"))}
        answer = {"approved": True, "decided_by": "ada@example.com", "reason": None, "details": None}
        (decisions / question).write_text(json.dumps(answer))

        output = await scene.finish(job)

        assert asker == str(process.pid)
        assert output["lines"][-1] == "published by ada@example.com"
        assert scene.done() == Counter(NODES)
