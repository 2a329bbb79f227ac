"""Trouble that lasts is one line in the log when it begins, one when it changes, and one when it is over."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from cortex_plane import Context, Plane
from cortex_plane.errors import StorageFull, Unavailable
from cortex_plane.worker.loops import Trouble
from tests.runtime.faults import FaultyStore, fails
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, worker_on

pytestmark = pytest.mark.anyio


def test_the_same_error_again_is_no_news() -> None:
    trouble = Trouble("it_failed", "it_works_again", part="test")

    with structlog.testing.capture_logs() as lines:
        trouble.over()
        for error in (Unavailable("away"), Unavailable("away"), StorageFull("cortex.db")):
            trouble.tell(error)
        trouble.over()
        trouble.over()

    assert [line["event"] for line in lines] == ["it_failed", "it_failed", "it_works_again"]
    assert {line["part"] for line in lines} == {"test"}


async def test_a_disk_that_stays_full_is_one_line_for_each_part_of_a_worker(live_plane: Plane) -> None:
    @live_plane.agent("talk")
    async def talk(ctx: Context) -> str:
        ctx.log.info("still here")
        return "said"

    store: Any = FaultyStore(live_plane.store)
    job = await talk.submit()
    with structlog.testing.capture_logs() as lines:
        store.around("queue", "finish", fails(4, StorageFull("/data/cortex.db")))
        store.around("events", "add", fails(4, StorageFull("/data/cortex.db")))
        async with worker_on(live_plane, store):
            assert await job.result(timeout=PATIENCE_SECONDS) == "said"

            async def over() -> bool:
                return any(line["event"] == "loop_recovered" for line in lines)

            await eventually(over)

    told = [line["event"] for line in lines if line["event"].startswith(("outbox", "loop"))]
    assert sorted(told) == ["loop_failed", "loop_recovered", "outbox_goes_on", "outbox_waits"]
