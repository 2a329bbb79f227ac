"""A worker that lives mends jobs that are RUNNING though nobody runs them: no command is needed."""

from __future__ import annotations

import pytest

from cortex_plane import Context, Plane
from cortex_plane.ids import new_id
from cortex_plane.testing import ManualClock
from cortex_plane.worker import reconciler
from tests.contract.support import raw_client
from tests.contract.test_repair import triggers_off
from tests.runtime.helpers import PATIENCE_SECONDS, working

pytestmark = pytest.mark.anyio


async def test_a_worker_mends_jobs_that_run_nowhere(
    live_plane: Plane, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "JOBS_EVERY_SECONDS", 0.2)

    @live_plane.agent("work")
    async def work(ctx: Context) -> str:
        return "done"

    by_hand, damaged = await work.submit(), await work.submit()
    started = "update cortex.job set status = 'RUNNING', run_id = '{}', updated_at = {} where id = '{}'"
    async with raw_client(database_url, ManualClock()) as raw:
        now = raw.now if raw.kind == "postgres" else "updated_at + 1"
        for job in (by_hand, damaged):
            await raw(started.format(new_id(), now, job.id))
        async with triggers_off(raw):
            await raw(f"delete from cortex.job_run where job_id = '{damaged.id}'")

    async with working(live_plane):
        assert await by_hand.result(timeout=PATIENCE_SECONDS) == "done"
        assert await damaged.result(timeout=PATIENCE_SECONDS) == "done"
