"""Decisions, cancels and claims that meet: each order is forced with explicit transactions on real connections."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.approvals.decisions import AlreadyDecided, Answer, Decided, NotAllowed, Recorded, Withdrawn
from cortex_plane.approvals.model import NewApproval, Verdict
from cortex_plane.audit.model import AuditEntry
from cortex_plane.jobs.states import JobStatus
from cortex_plane.people.model import LinkedChannel, User
from cortex_plane.people.store import PeopleStore
from tests.contract.approval_scene import Desk, token
from tests.contract.sessions import Four, Session
from tests.contract.support import Raw, Scene, into

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def ann(desk: Desk) -> User:
    return await desk.user("ann")


@pytest.fixture
async def ben(desk: Desk) -> User:
    return await desk.user("ben")


async def decide(session: Session, request: NewApproval, user: User, decision: Verdict = "approved") -> Answer:
    return await session.approvals.decide(request.id, user.id, decision, door="test")


async def revoke(session: Session, user: User, link: LinkedChannel, how: str) -> bool:
    people = PeopleStore(session)  # type: ignore[arg-type]
    entry = AuditEntry("REVOKED", "user", user.id)
    return await (people.unlink_channel(link.id, entry) if how == "unlinked" else people.disable_user(user.id, entry))


async def entries(raw: Raw) -> int:
    [(count,)] = await raw("select count(*) from cortex.queue_entry")
    return int(count)


async def test_two_votes_at_once_reach_a_quorum_of_two(scene: Scene, desk: Desk, four: Four, ann: User, ben: User) -> None:
    first, second, *_ = four
    request = await desk.asked(ann, ben, quorum=2)
    await first.begin()
    assert await decide(first, request, ann) == Recorded(1, 2)
    late = asyncio.create_task(decide(second, request, ben))
    await second.waits(late)
    await first.commit()

    assert isinstance(await late, Decided)
    assert await scene.status(request.job_id) is JobStatus.RUNNING


async def test_a_denial_that_waited_for_an_approval_comes_too_late(
    scene: Scene, desk: Desk, four: Four, ann: User, ben: User
) -> None:
    first, second, *_ = four
    request = await desk.asked(ann, ben)
    await first.begin()
    assert isinstance(await decide(first, request, ann), Decided)
    late = asyncio.create_task(decide(second, request, ben, "denied"))
    await second.waits(late)
    await first.commit()

    answer = await late
    assert isinstance(answer, AlreadyDecided)
    assert (answer.decision, answer.by) == ("approved", "ann")
    assert len(await desk.approvals.votes(request.id)) == 1


async def test_a_decision_that_was_rolled_back_leaves_it_to_the_next(
    scene: Scene, desk: Desk, four: Four, ann: User, ben: User
) -> None:
    first, second, *_ = four
    request = await desk.asked(ann, ben)
    await first.begin()
    await decide(first, request, ann)
    late = asyncio.create_task(decide(second, request, ben, "denied"))
    await second.waits(late)
    await first.rollback()

    assert isinstance(await late, Decided)
    assert await scene.status(request.job_id) is JobStatus.FAILED
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_DENIED"]


async def test_a_cancel_that_waited_for_an_approval_takes_the_job_out_of_the_queue(
    scene: Scene, desk: Desk, four: Four, raw: Raw, ann: User
) -> None:
    first, second, *_ = four
    request = await desk.asked(ann)
    await first.begin()
    await decide(first, request, ann)
    late = asyncio.create_task(second.cancel(request.job_id))
    await second.waits(late)
    await first.commit()

    assert await late
    assert await scene.status(request.job_id) is JobStatus.CANCELLED
    assert await entries(raw) == 0
    assert (await desk.stored(request)).outcome == "approved"


async def test_a_decision_that_waited_for_a_cancel_is_told_so(scene: Scene, desk: Desk, four: Four, ann: User) -> None:
    first, second, *_ = four
    request = await desk.asked(ann)
    await first.begin()
    await first.cancel(request.job_id)
    late = asyncio.create_task(decide(second, request, ann))
    await second.waits(late)
    await first.commit()

    assert isinstance(await late, Withdrawn)
    assert await desk.approvals.votes(request.id) == []


async def test_a_decision_that_waits_for_the_job_does_not_hold_the_request(desk: Desk, four: Four, ann: User) -> None:
    """Whoever cancels holds the job and then closes the request: the other way round would be a deadlock."""
    canceller, decider, onlooker, _ = four
    request = await desk.asked(ann)
    await canceller.begin()
    await canceller.connection.execute(f"select 1 from cortex.job where id = '{request.job_id}' for update")
    late = asyncio.create_task(decide(decider, request, ann))
    await decider.waits(late)

    await onlooker.connection.execute(f"select 1 from cortex.approval_request where id = '{request.id}' for update nowait")
    await canceller.commit()
    assert isinstance(await late, Decided)


async def test_a_cancel_that_waited_for_the_takeover_ends_the_run(
    scene: Scene, desk: Desk, four: Four, raw: Raw, ann: User
) -> None:
    first, second, *_ = four
    request = await desk.asked(ann)
    await desk.decide(request, ann)
    worker = await scene.worker()
    await first.begin()
    assert len(await first.claim(worker)) == 1
    late = asyncio.create_task(second.cancel(request.job_id))
    await second.waits(late)
    await first.commit()

    assert await late
    assert await scene.status(request.job_id) is JobStatus.CANCELLED
    assert await entries(raw) == 0


async def test_a_job_that_ends_while_a_claim_holds_its_entry_waits_for_nobody_and_leaves_nothing(
    scene: Scene, desk: Desk, four: Four, raw: Raw, ann: User
) -> None:
    """Whoever ended the job holds it, and the claim waits for the job: to wait for the entry would be a deadlock."""
    claimer, _, *_ = four
    request = await desk.asked(ann, job={"serial_key": "shop"})
    await desk.decide(request, ann)
    other = await scene.submit(serial_key="shop")
    worker = await scene.worker()
    await claimer.begin()
    await claimer.connection.execute(f"select 1 from cortex.queue_entry where job_id = '{request.job_id}' for update")

    await asyncio.wait_for(raw(f"update cortex.job set {into(JobStatus.CANCELLED, raw)} where id = '{request.job_id}'"), 10)
    assert await entries(raw) == 2
    assert await claimer.claim(worker) == []
    await claimer.commit()

    assert await entries(raw) == 1
    assert [one.job_id for one in await scene.claim(worker)] == [other]


async def test_a_token_that_is_made_while_the_request_closes_is_refused(desk: Desk, four: Four, ann: User) -> None:
    first, second, *_ = four
    request = await desk.asked(ann)
    await desk.link(ann, "slack", "U1")
    await first.begin()
    await decide(first, request, ann)
    late = asyncio.create_task(second.approvals.put_token(request.id, ann.id, "slack", "U1", token().hash))
    await second.waits(late)
    await first.commit()

    assert not await late


@pytest.mark.parametrize("how", ["unlinked", "disabled"])
async def test_a_token_that_is_made_while_its_receiver_is_revoked_is_refused(desk: Desk, four: Four, ann: User, how: str) -> None:
    first, second, *_ = four
    request, link, made = await desk.asked(ann), await desk.link(ann, "slack", "U1"), token()
    await first.begin()
    assert await revoke(first, ann, link, how)
    late = asyncio.create_task(second.approvals.put_token(request.id, ann.id, "slack", "U1", made.hash))
    await second.waits(late)
    await first.commit()

    assert not await late
    assert await desk.approvals.by_token(made.hash) is None


@pytest.mark.parametrize("how", ["unlinked", "disabled"])
async def test_revoking_waits_for_a_token_that_is_being_made_and_voids_it(desk: Desk, four: Four, ann: User, how: str) -> None:
    first, second, *_ = four
    request, link, made = await desk.asked(ann), await desk.link(ann, "slack", "U1"), token()
    await first.begin()
    assert await first.approvals.put_token(request.id, ann.id, "slack", "U1", made.hash)
    late = asyncio.create_task(revoke(second, ann, link, how))
    await second.waits(late)
    await first.commit()

    assert await late
    assert await desk.approvals.by_token(made.hash) is None


async def test_a_decision_that_waited_for_a_disabling_is_refused(scene: Scene, desk: Desk, four: Four, ann: User) -> None:
    first, second, *_ = four
    request, link = await desk.asked(ann), await desk.link(ann, "slack", "U1")
    await first.begin()
    assert await revoke(first, ann, link, "disabled")
    late = asyncio.create_task(decide(second, request, ann))
    await second.waits(late)
    await first.commit()

    assert isinstance(await late, NotAllowed)
    assert await scene.status(request.job_id) is JobStatus.WAITING_FOR_APPROVAL


async def test_two_sweepers_end_a_request_once(scene: Scene, desk: Desk, four: Four, ann: User) -> None:
    first, second, *_ = four
    request = await desk.asked(ann)
    await scene.clock.advance(days=1)
    await first.begin()
    assert await first.approvals.expire(10) == 1
    meanwhile = await second.approvals.expire(10)
    await first.commit()

    assert (meanwhile, await second.approvals.expire(10)) == (0, 0)
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_EXPIRED"]
