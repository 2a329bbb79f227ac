"""ENGINE_RUN: a workflow by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cortex_plane import Context, JobFailed, JobStatus
from cortex_plane.integrations.built_in import Workflows, engine_agent
from cortex_plane.testing import TestPlane
from tests.unchecked import submit_unchecked

pytestmark = pytest.mark.anyio


async def onboard(ctx: Context, user: str = "nobody") -> dict[str, str]:
    return {"welcome": user, "by": ctx.agent}


async def broken(ctx: Context) -> None:
    raise OSError("the network is away")


ENGINE = Workflows({"onboard": onboard, "broken": broken})


async def test_a_workflow_gets_its_input_and_gives_its_output(plane: TestPlane) -> None:
    engine_agent(plane, ENGINE)
    with_input = await plane.submit("ENGINE_RUN", {"workflow": "onboard", "input": {"user": "ada"}})
    without = await plane.submit("ENGINE_RUN", {"workflow": "onboard"})
    await plane.work()

    assert await with_input.result() == {"welcome": "ada", "by": "ENGINE_RUN"}
    assert await without.result() == {"welcome": "nobody", "by": "ENGINE_RUN"}


async def test_any_engine_will_do(plane: TestPlane) -> None:
    class Echo:
        async def run(self, workflow: str, input: Mapping[str, Any], ctx: Context) -> Any:  # noqa: A002
            return [workflow, dict(input), ctx.job_id]

    engine_agent(plane, Echo(), name="flows")
    job = await plane.submit("flows", {"workflow": "x", "input": {"a": 1}})
    await plane.work()

    assert await job.result() == ["x", {"a": 1}, job.id]


async def test_an_unknown_workflow_fails_at_once_and_names_what_there_is(plane: TestPlane) -> None:
    engine_agent(plane, ENGINE)
    job = await plane.submit("ENGINE_RUN", {"workflow": "onbord"})
    await plane.work()

    after = await job.job()
    assert (after.status, after.retry_count) == (JobStatus.FAILED, 0)
    assert after.error_message == 'There is no workflow "onbord". Did you mean "onboard"? Known workflows: broken, onboard.'


async def test_a_workflow_that_fails_is_tried_again(plane: TestPlane) -> None:
    engine_agent(plane, ENGINE)
    job = await plane.submit("ENGINE_RUN", {"workflow": "broken"})
    await plane.work()

    assert await job.status() is JobStatus.RETRY


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({}, "workflow"),
        ({"workflow": ""}, "workflow must be the name"),
        ({"workflow": 5}, "workflow must be text"),
        ({"workflow": "onboard", "input": [1]}, "payload.input"),
        ({"workflow": "onboard", "inputs": {}}, "inputs"),
    ],
)
async def test_a_job_that_asks_for_no_workflow_fails_at_once(plane: TestPlane, payload: dict[str, Any], message: str) -> None:
    engine_agent(plane, ENGINE)
    job = await submit_unchecked(plane, "ENGINE_RUN", payload)
    await plane.work()

    with pytest.raises(JobFailed, match=message):
        await job.result()
