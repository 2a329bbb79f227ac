"""Code, prompts and data that change while jobs are under way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import CheckpointCorrupted, Context, JobFailed, Plane
from cortex_plane.durable.load import _renamed, checked_blob
from cortex_plane.durable.schema import resealed
from cortex_plane.testing import TestPlane
from tests.durable.blobs import a_blob, stored

pytestmark = pytest.mark.anyio


def redeployed(plane: TestPlane, register: Callable[[Plane], Any]) -> None:
    """The same plane with other code, as after a deployment."""
    plane.agents.clear()
    register(plane)


async def begun(plane: TestPlane, register: Callable[[Plane], Any], crash_after: str = "first") -> Any:
    agent = register(plane)
    job = await agent.submit()
    plane.crash_after(crash_after)
    await plane.work()
    assert plane.crashes == 1
    return plane.job(job.id)


class Calls(list[str]):
    def step(self, name: str) -> Callable[[], Any]:
        async def work() -> str:
            self.append(name)
            return name

        return work


async def test_a_new_step_in_the_middle_runs_and_what_was_recorded_later_is_still_answered(plane: TestPlane) -> None:
    calls = Calls()

    def old(plane: Plane) -> Any:
        @plane.agent("agent")
        async def agent(ctx: Context) -> None:
            await ctx.step("first", calls.step("first"))
            await ctx.step("last", calls.step("last"))

        return agent

    def new(plane: Plane) -> Any:
        @plane.agent("agent")
        async def agent(ctx: Context) -> list[str]:
            return [await ctx.step(name, calls.step(name)) for name in ("first", "middle", "last")]

        return agent

    job = await begun(plane, old, "last")
    redeployed(plane, new)
    await plane.work()

    assert await job.result(timeout=5) == ["first", "middle", "last"]
    assert calls == ["first", "last", "middle"]


async def test_a_step_that_vanished_is_left_alone(plane: TestPlane) -> None:
    calls = Calls()

    def old(plane: Plane) -> Any:
        @plane.agent("agent")
        async def agent(ctx: Context) -> None:
            await ctx.step("first", calls.step("first"))
            await ctx.step("gone", calls.step("gone"))

        return agent

    def new(plane: Plane) -> Any:
        @plane.agent("agent")
        async def agent(ctx: Context) -> str:
            return str(await ctx.step("last", calls.step("last")))

        return agent

    job = await begun(plane, old)
    redeployed(plane, new)
    await plane.work()

    assert await job.result(timeout=5) == "last"


async def test_a_renamed_tool_that_the_agent_names_is_answered(plane: TestPlane) -> None:
    calls = Calls()

    def old(plane: Plane) -> Any:
        @plane.agent("agent")
        async def agent(ctx: Context) -> None:
            await ctx.tool("pay", calls.step("pay"))

        return agent

    def new(plane: Plane) -> Any:
        @plane.agent("agent", renamed_steps={"pay": "transfer"})
        async def agent(ctx: Context) -> str:
            return str(await ctx.tool("transfer", calls.step("transfer")))

        return agent

    job = await begun(plane, old, "pay")
    redeployed(plane, new)
    await plane.work()

    assert await job.result(timeout=5) == "pay"
    assert calls == ["pay"]


async def test_a_step_that_became_a_tool_is_refused_by_name(plane: TestPlane) -> None:
    calls = Calls()

    def old(plane: Plane) -> Any:
        @plane.agent("agent", on_code_change="fail")
        async def agent(ctx: Context) -> None:
            await ctx.step("pay", calls.step("pay"))

        return agent

    def new(plane: Plane) -> Any:
        @plane.agent("agent", on_code_change="fail")
        async def agent(ctx: Context) -> None:
            await ctx.tool("pay", calls.step("pay"))

        return agent

    job = await begun(plane, old, "pay")
    redeployed(plane, new)
    await plane.work()

    with pytest.raises(JobFailed, match='"pay" is recorded as a step, and the code asks for a tool'):
        await job.result(timeout=5)


@pytest.mark.parametrize(
    ("policy", "outcome", "expected"),
    [("continue", "done", ["first", "last"]), ("restart", "done", ["first", "first", "last"]), ("fail", "refused", ["first"])],
)
async def test_a_changed_system_prompt_is_dealt_with_as_the_agent_says(
    plane: TestPlane, policy: Any, outcome: str, expected: list[str]
) -> None:
    calls = Calls()

    def with_prompt(prompt: str) -> Callable[[Plane], Any]:
        def register(plane: Plane) -> Any:
            @plane.agent("agent", system_prompt=prompt, on_prompt_change=policy)
            async def agent(ctx: Context) -> str:
                await ctx.step("first", calls.step("first"))
                await ctx.step("last", calls.step("last"))
                return "done"

            return agent

        return register

    job = await begun(plane, with_prompt("Be kind."))
    redeployed(plane, with_prompt("Be brief."))
    await plane.work()

    if outcome == "refused":
        with pytest.raises(JobFailed, match="system prompt"):
            await job.result(timeout=5)
    else:
        assert await job.result(timeout=5) == "done"
    assert calls == expected


async def test_an_agents_own_data_is_migrated_step_by_step(plane: TestPlane) -> None:
    def old(plane: Plane) -> Any:
        @plane.agent("agent")
        async def agent(ctx: Context) -> None:
            ctx.memory.data["name"] = "Ada Lovelace"
            await ctx.step("first", _nothing)
            ctx.memory.data["large"] = "x" * 3000
            await ctx.step("second", _nothing)

        return agent

    def new(plane: Plane) -> Any:
        @plane.agent("agent")
        async def agent(ctx: Context) -> Any:
            await ctx.step("first", _nothing)
            seen = dict(ctx.memory.data)
            await ctx.step("second", _nothing)
            return [seen, sorted(ctx.memory.data)]

        @agent.state_migration(1)
        def split(data: dict[str, Any]) -> dict[str, Any]:
            first, _, last = data.pop("name").partition(" ")
            return {**data, "first": first, "last": last}

        @agent.state_migration(2)
        def shout(data: dict[str, Any]) -> dict[str, Any]:
            return {**data, "last": data["last"].upper()}

        return agent

    job = await begun(plane, old, "second")
    redeployed(plane, new)
    await plane.work()

    assert await job.result(timeout=5) == [{"first": "Ada", "last": "LOVELACE"}, ["first", "large", "last"]]


async def test_data_of_a_newer_version_than_the_code_is_refused(plane: TestPlane) -> None:
    def newer(plane: Plane) -> Any:
        @plane.agent("agent", on_code_change="fail")
        async def agent(ctx: Context) -> None:
            await ctx.step("first", _nothing)
            await ctx.step("second", _nothing)

        @agent.state_migration(1)
        def nothing(data: dict[str, Any]) -> dict[str, Any]:
            return data

        return agent

    def older(plane: Plane) -> Any:
        @plane.agent("agent", on_code_change="fail")
        async def agent(ctx: Context) -> None:
            await ctx.step("first", _nothing)

        return agent

    job = await begun(plane, newer)
    redeployed(plane, older)
    await plane.work()

    with pytest.raises(JobFailed, match="The agent's data is of version 2; this code knows versions up to 1"):
        await job.result(timeout=5)


def test_checkpoints_of_older_platforms_are_migrated_in_sequence() -> None:
    def to_two(blob: dict[str, Any]) -> dict[str, Any]:
        return {**blob, "step_id": blob["step_id"] + " two"}

    def to_three(blob: dict[str, Any]) -> dict[str, Any]:
        return {**blob, "step_id": blob["step_id"] + " three"}

    found = checked_blob(stored(), {1: to_two, 2: to_three}, current=3)

    assert (found["step_id"], found["schema_version"]) == ("deploy two three", 3)


def test_a_gap_between_versions_is_refused() -> None:
    with pytest.raises(CheckpointCorrupted, match="No migration from checkpoint schema version 1 to 2"):
        checked_blob(stored(), {2: lambda blob: blob}, current=3)


async def test_a_checkpoint_that_grows_too_large_stops_the_run_and_names_the_step(database_url: str) -> None:
    from cortex_plane.testing import throwaway_plane

    async with throwaway_plane(database_url, checkpoint_limit_bytes=20_000) as plane:

        @plane.agent("hoarder")
        async def hoarder(ctx: Context) -> None:
            for number in range(100):
                ctx.memory.add_fact("x" * 900)
                await ctx.step(f"step-{number}", _nothing)

        job = await hoarder.submit()
        await plane.work()

        with pytest.raises(JobFailed, match=r'The checkpoint after step "step-\d+" is .* bytes; the limit is 20,000'):
            await job.result(timeout=5)


def test_a_blob_of_nobody_in_particular_is_a_blob() -> None:
    assert json.loads(resealed(a_blob())) == a_blob()


async def _nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("pay#1", "transfer#1"),
        ("gather#1[0]/pay#2", "gather#1[0]/transfer#2"),
        ("turn#3/pay#1", "turn#3/transfer#1"),
        ("pay#1/check#2", "transfer#1/check#2"),
        ("to pay#1", "to pay#1"),
        ("a/pay#1", "a/pay#1"),
        ("turn#1/a/pay#1", "turn#1/a/pay#1"),
    ],
)
def test_only_whole_names_are_renamed(key: str, expected: str) -> None:
    assert _renamed(key, {"pay": "transfer"}) == expected
