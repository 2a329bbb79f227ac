"""The pruner goes on where it was, rests a little between batches and long between passes."""

from __future__ import annotations

import pytest

from cortex_plane import Context
from cortex_plane.operations import prune_jobs as pruning
from cortex_plane.retention import Retention
from cortex_plane.runtime.pruner import REST_BETWEEN_BATCHES_SECONDS, REST_BETWEEN_PASSES_SECONDS, Pruner
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def test_a_pass_is_made_of_batches(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BATCH", 2)
    monkeypatch.setattr(pruning, "LOOKED_AT", 2)

    @plane.agent("greet")
    async def greet(ctx: Context) -> None: ...

    for _ in range(5):
        await greet.submit()
    await plane.work()
    await Retention(plane).add(60)
    await plane.clock.advance(seconds=60)
    pruner = Pruner(await plane.store)

    rests = [await pruner.once() for _ in range(4)]

    little, long = REST_BETWEEN_BATCHES_SECONDS, REST_BETWEEN_PASSES_SECONDS
    assert rests == [little, little, long, long]
    assert await plane.list() == []


async def test_without_rules_it_rests(plane: TestPlane) -> None:
    assert await Pruner(await plane.store).once() == REST_BETWEEN_PASSES_SECONDS


async def test_a_pass_can_be_asked_for(plane: TestPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BATCH", 2)

    @plane.agent("greet")
    async def greet(ctx: Context) -> None: ...

    for _ in range(5):
        await greet.submit()
    waiting = await greet.options(delay=3600).submit()
    await plane.work()
    await Retention(plane).add(0, agent="greet")

    assert await Retention(plane).run() == 5
    assert [job.id for job in await plane.list()] == [waiting.id]
