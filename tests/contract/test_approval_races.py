"""Any number of decisions at once: exactly one wins, one run opens, one entry is in the audit, and everybody hears the truth."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from cortex_plane.approvals.decisions import AlreadyDecided, Answer, Decided, Expired, Recorded, Withdrawn
from cortex_plane.approvals.model import NewApproval, Verdict
from cortex_plane.jobs.model import Claimed
from cortex_plane.jobs.states import JobStatus, RunStatus
from cortex_plane.people.model import User
from tests.contract.approval_scene import Desk
from tests.contract.support import Scene

CROWD = 64
# On each store. APPROVAL_ROUNDS=500 makes a thousand over both.
ROUNDS = int(os.environ.get("APPROVAL_ROUNDS", "20"))

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60 + 2 * ROUNDS)]


@pytest.fixture
async def crowd(desk: Desk) -> list[User]:
    return [await desk.user(f"user-{number}", "approver") for number in range(CROWD)]


async def decide_at_once(desk: Desk, request: NewApproval, crowd: list[User], verdicts: list[Verdict]) -> list[Answer]:
    votes = zip(crowd, verdicts, strict=True)
    return await asyncio.gather(*(desk.decide(request, user, verdict) for user, verdict in votes))


async def test_of_a_crowd_that_approves_and_denies_one_decides(scene: Scene, desk: Desk, crowd: list[User]) -> None:
    chance = random.Random(7)
    for _ in range(ROUNDS):
        request = await desk.asked()
        verdicts: list[Verdict] = [chance.choice(("approved", "denied")) for _ in crowd]

        answers = await decide_at_once(desk, request, crowd, verdicts)

        await assert_one_decided(scene, desk, request, answers, verdicts)
        await end_what_goes_on(scene, request)


async def assert_one_decided(
    scene: Scene, desk: Desk, request: NewApproval, answers: list[Answer], verdicts: list[Verdict]
) -> None:
    [winner] = [answer for answer in answers if isinstance(answer, Decided)]
    assert [answer for answer in answers if answer is not winner] == [
        AlreadyDecided(winner.decision, winner.by, winner.at) for _ in range(len(answers) - 1)
    ]
    assert winner.decision == verdicts[answers.index(winner)]
    stored, job = await desk.stored(request), await scene.job(request.job_id)
    assert (stored.decision, stored.decided_by_name) == (winner.decision, winner.by)
    assert len(await desk.approvals.votes(request.id)) == 1
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", f"APPROVAL_{winner.decision.upper()}"]
    runs = [run.status for run in await scene.store.jobs.runs(request.job_id)]
    approved = winner.decision == "approved"
    assert job.status is (JobStatus.RUNNING if approved else JobStatus.FAILED)
    assert runs == [RunStatus.WAITING, RunStatus.RUNNING] if approved else [RunStatus.WAITING]
    assert len(await scene.store.jobs.history(request.job_id)) == 4


async def end_what_goes_on(scene: Scene, request: NewApproval) -> list[Claimed]:
    """The next round finds an empty queue. It is taken over once."""
    await scene.store.jobs.cancel(request.job_id, None, None)
    return await scene.claim(await scene.worker(), 1)


async def test_of_a_crowd_exactly_a_quorum_closes(scene: Scene, desk: Desk, crowd: list[User]) -> None:
    for quorum in (2, 2, 3, 17, CROWD):
        request = await desk.asked(quorum=quorum)

        answers = await decide_at_once(desk, request, crowd, ["approved"] * CROWD)

        recorded = sorted(answer.votes for answer in answers if isinstance(answer, Recorded))
        assert recorded == list(range(1, quorum))
        assert sum(isinstance(answer, Decided) for answer in answers) == 1
        assert sum(isinstance(answer, AlreadyDecided) for answer in answers) == CROWD - quorum
        assert (await desk.stored(request)).votes == len(await desk.approvals.votes(request.id)) == quorum
        await end_what_goes_on(scene, request)


async def test_a_decision_and_a_cancel_at_once_agree(scene: Scene, desk: Desk) -> None:
    ann = await desk.user("ann")
    for _ in range(20):
        request = await desk.asked(ann)

        answer, cancelled = await asyncio.gather(desk.decide(request, ann), scene.store.jobs.cancel(request.job_id, None, None))

        assert cancelled
        assert await scene.status(request.job_id) is JobStatus.CANCELLED
        assert isinstance(answer, Decided | Withdrawn)
        assert (await desk.stored(request)).outcome == ("approved" if isinstance(answer, Decided) else "cancelled")
        assert await scene.claim(await scene.worker(), 1) == []


async def test_a_decision_and_an_expiry_at_once_agree(scene: Scene, desk: Desk) -> None:
    """Time is over for both, so the decision never wins; of many sweepers one ends it."""
    ann = await desk.user("ann")
    request = await desk.asked(ann)
    await scene.clock.advance(days=1)

    sweepers = asyncio.gather(*(desk.approvals.expire(10) for _ in range(8)))
    answer, ended = await asyncio.gather(desk.decide(request, ann), sweepers)

    assert isinstance(answer, Expired)
    assert sum(ended) == 1
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_EXPIRED"]


async def test_an_approved_job_is_taken_over_once_or_cancelled(scene: Scene, desk: Desk) -> None:
    ann = await desk.user("ann")
    for _ in range(20):
        request = await desk.asked(ann)
        await desk.decide(request, ann)
        workers = [await scene.worker() for _ in range(4)]

        claiming = asyncio.gather(*(scene.claim(worker, 1) for worker in workers))
        claims, cancelled = await asyncio.gather(claiming, scene.store.jobs.cancel(request.job_id, None, None))

        assert cancelled
        assert sum(map(len, claims)) <= 1
        assert await scene.status(request.job_id) is JobStatus.CANCELLED
        assert await scene.claim(workers[0], 1) == []
        assert await scene.store.queue.depths() == {}
