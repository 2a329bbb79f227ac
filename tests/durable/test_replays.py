"""Replays: code against a record. Nothing is done, nothing is written, and where the two part is said by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cortex_plane import Applied, Context, InvalidInput, StepFailed
from cortex_plane.testing import TestPlane
from tests.durable.test_versions import Calls
from tests.end_to_end.inspection import query

pytestmark = pytest.mark.anyio

Handler = Callable[[Context], Awaitable[Any]]


class Scene:
    """One agent whose code is replaced, and what its steps have done."""

    def __init__(self, plane: TestPlane) -> None:
        self.plane, self.calls = plane, Calls()

    def deploy(self, handler: Handler) -> None:
        self.plane.agents.clear()
        self.plane.agent("agent", max_retries=0)(handler)

    async def ran(self, handler: Handler) -> str:
        self.deploy(handler)
        job = await self.plane.submit("agent")
        await self.plane.work()
        return str(job.id)

    async def replayed(self, job_id: str, handler: Handler) -> tuple[str, str]:
        self.deploy(handler)
        self.calls.clear()
        found = await self.plane.checkpoints.replay(job_id)
        assert self.calls == []
        return found.verdict, found.message

    def steps(self, *names: str, output: Any = None) -> Handler:
        async def handler(ctx: Context) -> Any:
            for name in names:
                await ctx.step(name, self.calls.step(name))
            return output

        return handler


@pytest.fixture
def scene(plane: TestPlane) -> Scene:
    return Scene(plane)


async def test_the_same_code_comes_to_the_same_end(scene: Scene) -> None:
    job_id = await scene.ran(scene.steps("a", "b", output=[1, 2.0]))

    verdict, _ = await scene.replayed(job_id, scene.steps("a", "b", output=(1, 2)))

    assert verdict == "same"


@pytest.mark.parametrize(
    ("names", "output", "said"),
    [
        (("a", "c"), 1, 'Here the code asks for "c", which is not recorded; recorded and not asked for: b#1.'),
        (("a",), 1, "The code ends without asking for what is recorded: b#1."),
        (("a", "new", "b"), 1, 'Here the code asks for "new", which is not recorded; recorded and not asked for: b#1.'),
        (("a", "b", "c"), 1, 'the job completed there; now the code asks for "c", which is not recorded.'),
        (("a", "b"), 2, "returns something else than the job did."),
        (("a", "b"), None, "returns something else than the job did."),
        (("a", "b"), {1}, "The job completed; now the code raised NotJson"),
    ],
    ids=["renamed", "vanished", "new in the middle", "new at the end", "other output", "no output", "not JSON"],
)
async def test_other_code_is_told_where_it_parts(scene: Scene, names: tuple[str, ...], output: Any, said: str) -> None:
    job_id = await scene.ran(scene.steps("a", "b", output=1))

    verdict, message = await scene.replayed(job_id, scene.steps(*names, output=output))

    assert verdict == "different"
    assert said in message


async def test_an_output_where_there_was_none_is_different(scene: Scene) -> None:
    job_id = await scene.ran(scene.steps("a"))

    assert (await scene.replayed(job_id, scene.steps("a", output=1)))[0] == "different"


async def test_other_arguments_are_different(scene: Scene) -> None:
    def echoing(value: int) -> Handler:
        async def echo(value: int) -> int:
            scene.calls.append("echo")
            return 0

        async def handler(ctx: Context) -> int:
            return await ctx.step("echo", echo, value)

        return handler

    job_id = await scene.ran(echoing(1))

    assert (await scene.replayed(job_id, echoing(1)))[0] == "same"
    verdict, message = await scene.replayed(job_id, echoing(2))
    assert verdict == "different"
    assert 'Step "echo" was recorded with different arguments' in message


async def test_a_job_that_was_killed_in_the_middle_is_ongoing(scene: Scene) -> None:
    scene.plane.crash_after("a")
    job_id = await scene.ran(scene.steps("a", "b"))

    verdict, message = await scene.replayed(job_id, scene.steps("a", "b"))

    assert verdict == "ongoing"
    assert message == 'Everything that is recorded was asked for. Now the code asks for "b", which is not recorded.'
    assert (await scene.replayed(job_id, scene.steps("a")))[0] == "ongoing"
    assert (await scene.replayed(job_id, scene.steps("b", "a")))[0] == "different"


def sleeping(scene: Scene, *names: str) -> Handler:
    async def handler(ctx: Context) -> None:
        for name in names:
            await ctx.step(name, scene.calls.step(name))
        await ctx.sleep(3600)

    return handler


async def test_a_job_that_sleeps_is_ongoing_if_everything_before_was_asked_for(scene: Scene) -> None:
    job_id = await scene.ran(sleeping(scene, "a", "b"))

    assert await scene.replayed(job_id, sleeping(scene, "a", "b")) == (
        "ongoing",
        "Everything that is recorded was asked for. Now the code waits.",
    )
    verdict, message = await scene.replayed(job_id, sleeping(scene, "a"))
    assert (verdict, message) == ("different", "Here the code waits; recorded and not asked for: b#1.")


async def test_a_job_that_waits_for_its_child_is_ongoing(scene: Scene) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.call("child")

    scene.deploy(handler)

    @scene.plane.agent("child", queue="nobody")
    async def child(ctx: Context) -> None: ...

    job = await scene.plane.submit("agent")
    await scene.plane.work(queues=["default"])
    children = len(await scene.plane.jobs.list())

    assert await scene.replayed(job.id, handler) == (
        "ongoing",
        "Everything that is recorded was asked for. Now the code waits.",
    )
    assert len(await scene.plane.jobs.list()) == children == 2


async def test_an_uncertain_tool_is_neither_called_nor_asked_about(scene: Scene) -> None:
    asked: list[str] = []

    async def verify(invocation_id: str) -> Applied:
        asked.append(invocation_id)
        return Applied()

    async def handler(ctx: Context) -> None:
        await ctx.tool("pay", verify=verify)(scene.calls.step("pay"))

    scene.plane.crash_in("pay")
    job_id = await scene.ran(handler)

    assert (await scene.replayed(job_id, handler))[0] == "ongoing"
    assert asked == []


async def test_what_happened_inside_a_tool_or_a_failed_step_is_answered_by_them(scene: Scene) -> None:
    async def handler(ctx: Context) -> str:
        async def deploy() -> None:
            await ctx.step("inside", scene.calls.step("inside"))

        async def fail() -> None:
            await ctx.step("inside", scene.calls.step("inside"))
            raise ValueError("no")

        await ctx.tool("deploy", deploy)
        try:
            await ctx.step("fail", fail)
        except StepFailed:
            await ctx.step("instead", scene.calls.step("instead"))
        return "done"

    job_id = await scene.ran(handler)

    assert await scene.replayed(job_id, handler) == (
        "same",
        "The code asked for the same steps, and came to the same end.",
    )


def failing(scene: Scene, error: Exception | None) -> Handler:
    async def handler(ctx: Context) -> None:
        await ctx.step("a", scene.calls.step("a"))
        if error is not None:
            raise error

    return handler


@pytest.mark.parametrize(
    ("error", "verdict"), [(ValueError("again"), "same"), (KeyError("other"), "different"), (None, "different")]
)
async def test_a_job_that_failed_is_the_same_if_the_code_fails_so_too(
    scene: Scene, error: Exception | None, verdict: str
) -> None:
    job_id = await scene.ran(failing(scene, ValueError("first")))

    assert (await scene.replayed(job_id, failing(scene, error)))[0] == verdict


async def test_a_replay_writes_nothing(scene: Scene, database_url: str) -> None:
    async def handler(ctx: Context) -> None:
        ctx.log.info("a line")
        ctx.progress(1, 2)
        await ctx.artifact(b"bytes", "a.bin")
        await ctx.step("a", scene.calls.step("a"))
        ctx.cost(5)
        await ctx.tool("b", scene.calls.step("b"))

    scene.plane.crash_after("a")
    job_id = await scene.ran(handler)
    tables = ("job", "job_history", "job_run", "job_event", "job_blob", "queue_entry", "audit_log")
    before = [await query(database_url, f"select * from cortex.{table}") for table in tables]

    await scene.replayed(job_id, handler)
    await scene.plane.checkpoints.replay(job_id[:13])

    assert [await query(database_url, f"select * from cortex.{table}") for table in tables] == before


async def test_a_job_without_a_record_or_without_code_cannot_be_replayed(scene: Scene) -> None:
    job_id = await scene.ran(scene.steps())

    with pytest.raises(InvalidInput, match="has no checkpoint"):
        await scene.plane.checkpoints.replay(job_id)
    scene.plane.agents.clear()
    with pytest.raises(InvalidInput, match="no async agent"):
        await scene.plane.checkpoints.replay(job_id)
