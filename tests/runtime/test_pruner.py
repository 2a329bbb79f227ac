"""The pruner goes on where it was, rests a little between batches and long between passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cortex_plane import Context
from cortex_plane.audit.sealer import Sealer
from cortex_plane.retention import pruner as pruner_module
from cortex_plane.retention import service as pruning
from cortex_plane.retention.pruner import LONGEST_REST_BETWEEN_BATCHES_SECONDS, REST_BETWEEN_PASSES_SECONDS, Pruner
from cortex_plane.retention.service import RetentionService
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def test_a_pass_is_made_of_batches(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BATCH", 2)
    monkeypatch.setattr(pruner_module, "BATCH", 2)
    monkeypatch.setattr(pruning, "LOOKED_AT", 2)

    @plane.agent("greet")
    async def greet(ctx: Context) -> None: ...

    for _ in range(5):
        await greet.submit()
    await plane.work()
    await RetentionService(plane).add(60)
    await plane.clock.advance(seconds=60)
    pruner = Pruner(plane.store)

    rests = [await pruner.once() for _ in range(4)]

    *between, last, idle = rests
    assert all(0 < rest <= LONGEST_REST_BETWEEN_BATCHES_SECONDS for rest in between)
    assert [last, idle] == [REST_BETWEEN_PASSES_SECONDS] * 2
    assert await plane.jobs.list() == []


async def test_without_rules_it_rests(plane: TestPlane) -> None:
    assert await Pruner(plane.store).once() == REST_BETWEEN_PASSES_SECONDS


async def test_a_pass_can_be_asked_for(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BATCH", 2)

    @plane.agent("greet")
    async def greet(ctx: Context) -> None: ...

    for _ in range(5):
        await greet.submit()
    waiting = await greet.options(delay=3600).submit()
    await plane.work()
    await RetentionService(plane).add(0, agent="greet")

    assert await RetentionService(plane).run() == 5
    assert [job.id for job in await plane.jobs.list()] == [waiting.id]


async def test_a_worker_prunes_audit_entries_only_when_their_seals_were_exported(plane: TestPlane, tmp_path: Path) -> None:
    plane.agent("greet")(_greet)
    plane.settings = replace(plane.settings, seal_export=f"file:{tmp_path / 'seals'}")
    await plane.audit.record("DONE", "thing", "7")
    sealer = Sealer(plane.store)
    await sealer.once()
    await sealer.once()
    await plane.retention.add(60, record="audit_log")
    await plane.clock.advance(seconds=60)
    pruner = Pruner(plane.store, plane._worker_options(None, None, "").seal_export)

    await pruner.once()
    held = await plane.audit.list(action="DONE")
    await plane.audit.export_seals(plane.settings.seal_export)
    await pruner.once()

    assert len(held) == 1
    assert await plane.audit.list(action="DONE") == []


async def _greet(ctx: Context) -> None: ...


async def test_it_rests_for_as_long_as_a_batch_took(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of its time at most, however quick or slow the database is; so a quick one deletes thousands of jobs in a second."""
    monkeypatch.setattr(pruning, "BATCH", 1)
    monkeypatch.setattr(pruner_module, "BATCH", 1)

    @plane.agent("greet")
    async def greet(ctx: Context) -> None: ...

    for _ in range(3):
        await greet.submit()
    await plane.work()
    await RetentionService(plane).add(60)
    await plane.clock.advance(seconds=60)
    moments = iter([10.0, 10.02, 20.0, 20.5])
    monkeypatch.setattr(pruner_module, "_now", lambda: next(moments))
    pruner = Pruner(plane.store)

    assert [await pruner.once(), await pruner.once()] == [pytest.approx(0.02), LONGEST_REST_BETWEEN_BATCHES_SECONDS]


async def test_after_many_full_batches_it_deletes_more_at_once_without_a_rest(
    plane: TestPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise jobs end faster than they are deleted, for as long as the work lasts."""
    monkeypatch.setattr(pruning, "BATCH", 1)
    monkeypatch.setattr(pruner_module, "BATCH", 1)
    monkeypatch.setattr(pruner_module, "PATIENT_BATCHES", 2)
    store = plane.store
    monkeypatch.setattr(store.retention, "most_at_once", 3)

    @plane.agent("greet")
    async def greet(ctx: Context) -> None: ...

    for _ in range(6):
        await greet.submit()
    await plane.work()
    await RetentionService(plane).add(60)
    await plane.clock.advance(seconds=60)
    pruner, left = Pruner(store), []

    rests = []
    for _ in range(4):
        rests.append(await pruner.once())
        left.append(len(await plane.jobs.list()))

    assert left == [5, 4, 1, 0]
    assert rests[0] > 0
    assert rests[1:3] == [0.0, 0.0]
