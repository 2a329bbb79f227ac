"""What a worker does with good jobs and bad ones."""

from __future__ import annotations

import pytest

from cortex_plane import Context, JobFailed, JobStatus
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def test_a_job_is_run_once_and_its_result_is_kept(plane: TestPlane) -> None:
    @plane.agent("double")
    async def double(ctx: Context, number: int) -> int:
        return number * 2

    job = await double.submit(number=21)
    await plane.work()

    assert await job.result() == 42
    assert [entry.new_status for entry in await job.history()] == [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.COMPLETED]


async def test_a_failing_job_is_retried_after_its_backoff(plane: TestPlane) -> None:
    @plane.agent("flaky", max_retries=1)
    async def flaky(ctx: Context) -> None:
        raise ValueError("not today")

    job = await flaky.submit()
    await plane.work()
    assert await job.status() is JobStatus.RETRY

    await plane.clock.advance(minutes=1)
    await plane.work()

    with pytest.raises(JobFailed, match="not today"):
        await job.result()
