"""What a run tells while it goes on, and what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Context, InvalidInput, JobFailed, JobStatus
from cortex_plane.testing import TestPlane
from tests.runtime.faults import FaultyStore
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, worker_on

pytestmark = pytest.mark.anyio


async def test_log_lines_and_the_newest_progress_are_stored_with_the_run(plane: TestPlane) -> None:
    @plane.agent("talker")
    async def talker(ctx: Context) -> None:
        ctx.log.info("begun", size=3)
        for done in range(100):
            ctx.progress(done, 100, f"part {done}")
        ctx.log.warning("odd: \x00 \ud800", thing=object, number=2**80, not_a_number=float("nan"))

    job = await talker.submit()
    await plane.work()

    told = await plane.store.events.list(job.id)
    runs = await plane.jobs.runs(job.id)
    assert {event.run_id for event in told} == {runs[0].id}
    logs = [event.data for event in told if event.kind == "log"]
    assert [(line["level"], line["message"]) for line in logs] == [("info", "begun"), ("warning", "odd: \\x00 \\ud800")]
    assert logs[0]["data"] == {"size": 3}
    assert [event.data["done"] for event in told if event.kind == "progress"] == [99]


async def test_a_plain_function_can_tell_too(plane: TestPlane) -> None:
    @plane.agent("plain")
    def plain(ctx: Context) -> None:
        ctx.log.info("from a thread")
        ctx.progress(1, 2)

    job = await plain.submit()
    await plane.work()

    assert {event.kind for event in await plane.store.events.list(job.id)} == {"log", "progress"}


async def test_a_worker_that_leaves_waits_for_the_line_that_is_just_being_written(plane: TestPlane) -> None:
    writing, let_go = asyncio.Event(), asyncio.Event()

    async def slowly(method: Any, *values: Any) -> Any:
        writing.set()
        await let_go.wait()
        return await method(*values)

    @plane.agent("talker")
    async def talker(ctx: Context) -> None:
        ctx.log.info("the last words")

    job = await talker.submit()
    faulty: Any = FaultyStore(plane.store)
    faulty.around("events", "add", slowly)
    async with worker_on(plane, faulty) as worker:
        await asyncio.wait_for(writing.wait(), PATIENCE_SECONDS)
        worker.stop()
        asyncio.get_running_loop().call_later(0.3, let_go.set)

    assert [event.data["message"] for event in await plane.store.events.list(job.id)] == ["the last words"]


async def test_artifacts_are_kept_whole_and_listed_with_the_run(plane: TestPlane, tmp_path: Path) -> None:
    (tmp_path / "made.txt").write_text("made")

    @plane.agent("maker")
    async def maker(ctx: Context) -> None:
        await ctx.artifact(b"bytes", "report.bin")
        await ctx.artifact(tmp_path / "made.txt")
        await ctx.artifact(b"newer", "report.bin")

    job = await maker.submit()
    await plane.work()

    (run,) = await plane.jobs.runs(job.id)
    assert {Path(path).name: Path(path).read_bytes() for path in run.artifacts} == {"report.bin": b"newer", "made.txt": b"made"}


async def test_a_plain_function_keeps_artifacts_without_awaiting_them(plane: TestPlane) -> None:
    @plane.agent("maker")
    def maker(ctx: Context) -> str:
        return Path(ctx.artifact(b"bytes", "report.bin")).read_text()

    job = await maker.submit()
    await plane.work()

    assert await job.result(timeout=5) == "bytes"


async def test_artifacts_are_written_outside_the_event_loop_and_on_disk_before_they_have_their_name(
    plane: TestPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bool]] = []

    def noted(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*values: Any) -> Any:
            seen.append((what, threading.current_thread() is threading.main_thread()))
            return call(*values)

        return noting

    monkeypatch.setattr(os, "fsync", noted("sync", os.fsync))
    monkeypatch.setattr(Path, "replace", noted("rename", Path.replace))

    @plane.agent("maker")
    async def maker(ctx: Context) -> None:
        await ctx.step("inside", keep, ctx)
        assert (await ctx.artifact(b"bytes", "report.bin")).read_bytes() == b"bytes"

    async def keep(ctx: Context) -> None:
        await ctx.artifact(b"bytes", "inside.bin")

    job = await maker.submit()
    await plane.work()

    await job.result(timeout=5)
    assert seen == [("sync", False), ("rename", False), ("sync", False)] * 2


async def test_two_branches_that_keep_the_same_name_at_once_leave_one_whole_file(
    plane: TestPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, sync = threading.Barrier(2, timeout=20), os.fsync

    def sync_together(file: int) -> None:
        if not both.broken and not stat.S_ISDIR(os.fstat(file).st_mode):
            both.wait()
        sync(file)

    monkeypatch.setattr(os, "fsync", sync_together)

    @plane.agent("maker")
    async def maker(ctx: Context) -> None:
        async def keep(content: bytes) -> None:
            await ctx.artifact(content, "report.bin")

        await ctx.gather(keep(b"a" * 1_000), keep(b"b" * 1_000))

    job = await maker.submit()
    await plane.work()

    await job.result(timeout=5)
    (run,) = await plane.jobs.runs(job.id)
    [path] = map(Path, run.artifacts)
    assert path.read_bytes() in (b"a" * 1_000, b"b" * 1_000)
    assert [one.name for one in path.parent.iterdir()] == ["report.bin"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "x" * 300, "a\nb"])
async def test_an_artifact_cannot_leave_its_folder(plane: TestPlane, name: str) -> None:
    @plane.agent("maker")
    async def maker(ctx: Context) -> None:
        await ctx.artifact(b"x", name)

    job = await maker.submit()
    await plane.work()

    with pytest.raises(JobFailed, match="plain file name"):
        await job.result(timeout=5)


async def test_a_checkpoint_that_cannot_be_written_stops_the_run_whatever_the_handler_catches(plane: TestPlane) -> None:
    done: list[str] = []

    async def work(name: str) -> None:
        done.append(name)

    @plane.agent("stubborn", max_retries=0)
    async def stubborn(ctx: Context) -> str:
        try:
            await ctx.step("first", work, "first")
        except BaseException:
            done.append("caught")
        try:
            await ctx.step("second", work, "second")
        except Exception:
            done.append("caught again")
        return "went on"

    async def refuse(method: Any, batch: Any) -> Any:
        raise InvalidInput("The database refuses this checkpoint.")

    job = await stubborn.submit()
    faulty: Any = FaultyStore(plane.store)
    faulty.around("checkpoints", "save", refuse)

    async def ended() -> bool:
        return (await job.status()).is_terminal

    async with worker_on(plane, faulty):
        await eventually(ended)

    assert done == ["first", "caught"]
    with pytest.raises(JobFailed, match="refuses this checkpoint"):
        await job.result(timeout=5)


async def test_a_run_that_was_cancelled_does_no_further_step(plane: TestPlane) -> None:
    done: list[str] = []
    begun = asyncio.Event()

    async def work(name: str) -> None:
        done.append(name)
        begun.set()
        await asyncio.sleep(0.05)

    @plane.agent("long")
    async def long(ctx: Context) -> None:
        for number in range(200):
            await ctx.step(f"step-{number}", work, str(number))

    job = await long.submit()
    worker = asyncio.create_task(plane.run_worker())
    await begun.wait()
    await job.cancel()
    count = len(done)
    plane.stop_workers()
    await worker

    assert await job.status() is JobStatus.CANCELLED
    assert len(done) <= count + 30
