"""Hundreds of jobs wait for people; then everything is started anew, and all of them can still be decided."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from cortex_plane import JobStatus, Submission
from tests.doors.house import CHATS, DOORS, House, Try, open_house

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

WAITING = 300


async def test_what_waits_survives_a_restart_of_everything_and_can_be_decided_at_every_door(database_url: str) -> None:
    async with open_house(database_url) as house:
        alice = await house.person("alice", "approver")
        gate = {"approvers": ["alice"]}
        await house.plane.submit_many([Submission("release-bot", {"gate": gate}) for _ in range(WAITING)])
        await house.plane.work()
        requests = await house.plane.approvals.list(waiting_for="alice", limit=1000)
        assert len(requests) == WAITING
        kept: list[tuple[str, Try]] = []
        for number, request in enumerate(requests):
            door = list(DOORS)[number % len(DOORS)]
            one = await house.trying(request, alice, channel=door if door in CHATS else "telegram")
            kept.append((door, replace(one, decision="denied" if number % 10 == 0 else "approved")))

    async with open_house(database_url) as restarted:
        answers = await asyncio.gather(*(DOORS[door](restarted, one) for door, one in kept))
        await restarted.plane.work()

        assert Counter(answers) == {"decided": WAITING}
        assert await statuses(restarted) == {JobStatus.COMPLETED: WAITING * 9 // 10, JobStatus.FAILED: WAITING // 10}
        assert Counter(restarted.effects).most_common(1)[0][1] == 1


async def statuses(house: House) -> Counter[JobStatus]:
    return Counter([job.status for job in await house.plane.jobs.list(agent="release-bot", limit=WAITING * 2)])
