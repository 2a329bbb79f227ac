"""A group is submitted once: under a key, and from a handler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_plane import Context, JobStatus, Submission
from cortex_plane.groups.model import GroupKeyReused
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


def count_agents(plane: TestPlane) -> Any:
    @plane.agent("member")
    async def member(ctx: Context, n: int = 0, group: dict[str, Any] | None = None) -> int:
        return n

    return member


async def members_of(plane: TestPlane) -> int:
    return len([one for one in await plane.jobs.list(limit=500) if one.job_type == "member"])


async def test_the_same_key_gives_back_the_group_that_is_there(plane: TestPlane) -> None:
    member = count_agents(plane)
    asked = [member.submission(n=n) for n in range(3)]

    first = await plane.groups.submit(asked, key="night", created_by="ada")
    await plane.work()
    again = await plane.groups.submit(asked, key="night", created_by="grace")

    assert again.id == first.id
    assert [job.id for job in again.jobs] == [job.id for job in first.jobs]
    assert await members_of(plane) == 3


@pytest.mark.parametrize(
    "other",
    [
        {"members": [Submission("member", {"n": 1})]},
        {"members": [Submission("member", {"n": 0}, priority=1)]},
        {"mode": "sequential"},
        {"on_failure": "continue"},
        {"callback": Submission("member")},
        {"name": "other"},
    ],
)
async def test_another_group_under_the_same_key_is_refused(plane: TestPlane, other: dict[str, Any]) -> None:
    count_agents(plane)
    usual: dict[str, Any] = {"members": [Submission("member", {"n": 0})]}
    first = await plane.groups.submit(**usual, key="night")

    with pytest.raises(GroupKeyReused, match=first.id):
        await plane.groups.submit(**{**usual, **other}, key="night")
    assert await members_of(plane) == 1


async def test_a_key_belongs_to_its_tenant(plane: TestPlane) -> None:
    count_agents(plane)
    await plane.tenants.add("acme")
    groups = [await plane.groups.submit([Submission("member", tenant=tenant)], key="night") for tenant in ("default", "acme")]

    assert groups[0].id != groups[1].id


async def test_of_simultaneous_submissions_one_makes_the_group(plane: TestPlane) -> None:
    member = count_agents(plane)
    asked = [member.submission(n=n) for n in range(20)]
    handles = await asyncio.gather(*(plane.groups.submit(asked, key="night") for _ in range(6)))

    assert len({handle.id for handle in handles}) == 1
    assert len({tuple(job.id for job in handle.jobs) for handle in handles}) == 1
    assert await members_of(plane) == 20


async def test_a_kill_between_submitting_and_recording_makes_no_second_group(plane: TestPlane) -> None:
    member = count_agents(plane)
    found: list[str] = []

    @plane.agent("night")
    async def night(ctx: Context) -> str:
        group = await ctx.group("all", [member.submission(n=n) for n in range(5)])
        found.append(group.id)
        return group.id

    job = await plane.submit("night", created_by="ada")
    deaths: list[str] = []

    def die(moment: str, name: str) -> None:
        if (moment, name) == ("before_save", "all") and len(deaths) < 2:
            deaths.append(name)
            for worker in plane._workers:
                worker.die()
            raise KeyboardInterrupt

    plane.fault = die
    for _ in range(3):
        await plane.work()

    assert len(deaths) == 2
    assert await job.status() is JobStatus.COMPLETED
    assert await members_of(plane) == 5
    [group] = await plane.groups.list()
    assert (group.id, group.created_by) == (await job.result(timeout=5), "ada")
    assert found == [group.id]


async def test_a_resumed_job_has_the_group_that_was_submitted(plane: TestPlane) -> None:
    member = count_agents(plane)
    broken = [True]

    async def fail() -> None:
        if broken:
            raise ValueError("no")

    @plane.agent("night", max_retries=0)
    async def night(ctx: Context) -> list[str]:
        group = await ctx.group("all", [member.submission(n=n) for n in range(2)])
        await ctx.step("then", fail)
        return [group.id, *group.jobs]

    job = await night.submit()
    await plane.work()
    broken.clear()
    resumed = await job.resume()
    await plane.work()

    [group] = await plane.groups.list()
    assert (await resumed.result(timeout=5))[0] == group.id
    assert await members_of(plane) == 2


async def test_two_groups_of_one_name_are_two(plane: TestPlane) -> None:
    member = count_agents(plane)

    @plane.agent("night")
    async def night(ctx: Context) -> None:
        for _ in range(2):
            await ctx.group("all", [member.submission()])

    await night.submit()
    await plane.work()

    assert await members_of(plane) == 2
