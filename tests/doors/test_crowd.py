"""Sixty-four decisions at the same moment, some for and some against, through all doors: one of them wins.

`make chaos-approvals` does it a thousand times.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from dataclasses import replace

import pytest

from cortex_plane import JobStatus
from cortex_plane.approvals.model import ApprovalRequest
from tests.doors.house import BULK, CHATS, DOORS, House, Person, Try

ROUNDS = int(os.environ.get("APPROVAL_ROUNDS", "3"))
CROWD = 64

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60 + 10 * ROUNDS)]


async def tries(house: House, people: list[Person], request: ApprovalRequest) -> list[tuple[str, Try]]:
    """Every door in turn, with somebody else each time, who has the message that they got there."""
    tokens = {
        (person.name, channel): await house.trying(request, person, channel=channel) for person in people for channel in CHATS
    }
    doors = list(DOORS)
    knocks = [(doors[turn % len(doors)], people[(turn + turn // len(doors)) % len(people)]) for turn in range(CROWD)]
    assert {door for door, _ in knocks} == set(DOORS)
    found = [(door, tokens[person.name, door if door in CHATS else "telegram"]) for door, person in knocks]
    random.shuffle(found)
    return [(door, replace(one, decision=random.choice(["approved", "denied"]))) for door, one in found]


async def test_of_sixty_four_decisions_at_once_exactly_one_wins(house: House) -> None:
    people = [await house.person(f"person{number}", "approver") for number in range(8)]
    for number in range(ROUNDS):
        job, request = await house.asked(*people)
        knocks = await tries(house, people, request)

        answers = await asyncio.gather(*(DOORS[door](house, one) for door, one in knocks))

        won = [knock for knock, answer in zip(knocks, answers, strict=True) if answer == "decided"]
        door, winner = won[0]
        assert Counter(answers) == {"decided": len(won), "already": CROWD - len(won)}, number
        assert {(one.person.name, one.decision) for _, one in won} == {(winner.person.name, winner.decision)}
        closed = await house.plane.approvals.get(request.id)
        assert (closed.decision, closed.decided_by) == (winner.decision, winner.person.user.id), door
        assert await house.audited(request.id) == [f"APPROVAL_{winner.decision.upper()}"]
        await assert_one_run_resumes(house, job.id, winner)


async def assert_one_run_resumes(house: House, job_id: str, winner: Try) -> None:
    await house.plane.work()
    job, runs = await house.plane.jobs.get(job_id), await house.plane.jobs.runs(job_id)
    if winner.decision == "approved":
        assert (job.status, job.output) == (JobStatus.COMPLETED, "approved")
        assert len(runs) == 2
        assert house.effects.count(job_id) == 1
    else:
        assert job.status is JobStatus.FAILED
        assert len(runs) == 1
        assert job_id not in house.effects


async def test_of_a_quorum_each_vote_counts_once_however_many_come_at_once(house: House) -> None:
    people = [await house.person(f"person{number}", "approver") for number in range(8)]
    for _ in range(ROUNDS):
        job, request = await house.asked(*people, quorum=8)
        knocks = [(door, replace(one, decision="approved")) for door, one in await tries(house, people, request)]
        knocks = [knock for knock in knocks if knock[0] not in BULK]

        answers = Counter(await asyncio.gather(*(DOORS[door](house, one) for door, one in knocks)))

        assert answers["decided"] >= 1
        assert set(answers) <= {"decided", "recorded", "already"}
        assert len(await house.store.approvals.votes(request.id)) == 8
        await house.plane.work()
        assert (await house.plane.jobs.get(job.id)).output == "approved"
        assert house.effects.count(job.id) == 1
