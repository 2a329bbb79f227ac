"""A request opens with its waiting job, is decided once, and moves the job in the same transaction."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from cortex_plane.approvals import expiry
from cortex_plane.approvals.deadlines import Deadlines
from cortex_plane.approvals.decisions import AlreadyDecided, Decided, Expired, NotAllowed, Recorded, Unknown, Withdrawn
from cortex_plane.approvals.model import ApprovalId, Approvers, NewApproval
from cortex_plane.errors import InvalidInput
from cortex_plane.ids import new_id
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus, RunStatus
from cortex_plane.people.model import User, UserId
from tests.contract.approval_scene import DETAILS, Desk, changed, token, waits
from tests.contract.support import Raw, RawSqlite, Scene, snapshot

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ann(desk: Desk) -> User:
    return await desk.user("ann", display_name="Ann Example")


# -- opening -------------------------------------------------------------------------------------


async def test_a_job_that_asks_waits_without_a_run(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann)

    job, stored = await scene.job(request.job_id), await desk.stored(request)
    [run] = await scene.store.jobs.runs(request.job_id)
    last = (await scene.store.jobs.history(request.job_id))[-1]
    assert (job.status, job.run_id, job.worker_id) == (JobStatus.WAITING_FOR_APPROVAL, None, None)
    assert run.status is RunStatus.WAITING
    assert (last.cause, last.actor, last.metadata) == ("ask", "worker:test", {"approval_request_id": request.id})
    assert stored.is_open
    assert stored.is_as_shown
    assert (stored.action_summary, stored.action_details, stored.digest) == (request.action_summary, DETAILS, request.digest)
    assert stored.expires_at - stored.created_at == timedelta(days=1)
    assert stored.approvers == Approvers((ann.id,))
    assert await desk.audited(request) == ["APPROVAL_REQUESTED"]


async def test_the_row_of_the_job_names_its_request(desk: Desk, raw: Raw, ann: User) -> None:
    request = await desk.asked(ann)

    [(token_hash, same)] = await raw(
        "select j.approval_token, j.approval_expires_at = r.expires_at "
        f"from cortex.job j join cortex.approval_request r on r.job_id = j.id where j.id = '{request.job_id}'"
    )
    assert token_hash == request.token_hash
    assert same


async def test_a_run_that_was_superseded_opens_nothing(scene: Scene, desk: Desk, ann: User) -> None:
    claimed = await scene.running()
    request = await desk.request(claimed, approvers=Approvers((ann.id,)))
    await scene.finish(claimed, Done())

    assert not await desk.open(request)
    assert await desk.approvals.get(request.id) is None
    assert await scene.status(claimed.job_id) is JobStatus.COMPLETED
    assert await desk.audited(request) == []


async def test_opening_the_same_request_again_changes_nothing(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann)
    revision = (await scene.job(request.job_id)).revision

    assert await desk.open(request)
    assert (await scene.job(request.job_id)).revision == revision
    assert await desk.audited(request) == ["APPROVAL_REQUESTED"]


async def test_a_request_may_bring_the_checkpoint_and_the_cost_of_its_job(scene: Scene, desk: Desk, ann: User) -> None:
    claimed = await scene.running()
    request = await desk.request(claimed, approvers=Approvers((ann.id,)))
    checkpoint_id = new_id()
    transition = waits(request, checkpoint='{"step": 1}', checkpoint_id=checkpoint_id, cost_cents=7)

    assert await desk.approvals.open(transition, request, "worker:test")
    job, saved = await scene.job(claimed.job_id), await scene.store.checkpoints.load(claimed.job_id)
    assert (job.cost_cents, job.checkpoint_id) == (7, checkpoint_id)
    assert saved is not None


async def test_what_was_added_to_a_checkpoint_stays_unless_the_request_brings_another(
    scene: Scene, desk: Desk, ann: User
) -> None:
    for brings in ({}, {"checkpoint": '{"step": 3}', "checkpoint_id": new_id()}):
        claimed = await scene.running()
        first = snapshot(claimed, '{"step": 1}')
        await scene.store.checkpoints.save([first])
        await scene.store.checkpoints.save([snapshot(claimed, '{"step": 2}', first)])
        request = await desk.request(claimed, approvers=Approvers((ann.id,)))

        assert await desk.approvals.open(waits(request, **brings), request, "worker:test")
        saved = await scene.store.checkpoints.load(claimed.job_id)
        assert saved is not None
        assert json.loads(saved.document) == {"step": 3 if brings else 2}


async def test_a_job_may_ask_more_than_once(scene: Scene, desk: Desk, ann: User) -> None:
    first = await desk.asked(ann)
    await desk.decide(first, ann)
    [again] = await scene.claim(await scene.worker())
    second = await desk.request(again, approvers=Approvers((ann.id,)))

    assert await desk.open(second)
    assert isinstance(await desk.decide(first, ann, "denied"), AlreadyDecided)
    assert isinstance(await desk.decide(second, ann), Decided)
    assert [request.id for request in await desk.approvals.list(job_id=first.job_id, open_only=False)] == [second.id, first.id]


# -- deciding ------------------------------------------------------------------------------------


async def test_an_approval_lets_the_job_go_on(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann)

    answer = await desk.decide(request, ann, reason="looks good")

    job, stored = await scene.job(request.job_id), await desk.stored(request)
    assert answer == Decided(request.id, request.job_id, "approved", "approved", "Ann Example", scene.now)
    assert (job.status, job.worker_id, job.attempt) == (JobStatus.RUNNING, None, 2)
    assert (stored.decision, stored.outcome, stored.decided_by) == ("approved", "approved", ann.id)
    assert (stored.decided_by_name, stored.reason, stored.votes) == ("Ann Example", "looks good", 1)
    assert stored.used_at == stored.closed_at == scene.now
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_APPROVED"]


async def test_the_history_of_a_decision_names_request_and_person_and_no_token(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann)
    token = await desk.send_token(request, ann)
    await desk.decide(request, ann, "denied", reason="not today", token_hash=token.hash)

    history = await scene.store.jobs.history(request.job_id)
    assert (history[-1].cause, history[-1].actor) == ("deny", "ann")
    assert history[-1].metadata["approval_request_id"] == request.id
    assert history[-1].metadata["reason"] == "not today"
    for secret in (token.hash, token.plaintext, request.token_hash):
        assert secret not in str(history)


async def test_a_denial_fails_the_job_and_says_by_whom_and_why(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann)

    answer = await desk.decide(request, ann, "denied", reason="not on a Friday")

    job = await scene.job(request.job_id)
    assert isinstance(answer, Decided)
    assert (job.status, job.error_message) == (JobStatus.FAILED, "Approval denied by Ann Example: not on a Friday")
    assert job.error["type"] == "ApprovalDenied"
    assert (await desk.stored(request)).decision == "denied"
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_DENIED"]
    assert await scene.claim(await scene.worker()) == []


async def test_a_denial_that_is_to_be_raised_lets_the_job_go_on(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann, on_denial="raise")

    answer = await desk.decide(request, ann, "denied")

    assert isinstance(answer, Decided)
    assert answer.outcome == "denied"
    assert await scene.status(request.job_id) is JobStatus.RUNNING
    assert len(await scene.claim(await scene.worker())) == 1


async def test_a_second_decision_is_told_who_was_first(desk: Desk, ann: User) -> None:
    ben = await desk.user("ben")
    request = await desk.asked(ann, ben)
    first = await desk.decide(request, ann)

    second = await desk.decide(request, ben, "denied")

    assert isinstance(first, Decided)
    assert second == AlreadyDecided("approved", "Ann Example", first.at)
    assert (await desk.stored(request)).decision == "approved"
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_APPROVED"]


async def test_a_decision_that_is_repeated_after_a_lost_answer_has_the_same_answer(desk: Desk, ann: User) -> None:
    ben = await desk.user("ben")
    request = await desk.asked(ann, ben)
    first = await desk.decide(request, ann, reason="looks good")

    assert await desk.decide(request, ann, reason="looks good") == first
    assert isinstance(await desk.decide(request, ann, reason="another reason"), AlreadyDecided)
    assert isinstance(await desk.decide(request, ben, reason="looks good"), AlreadyDecided)
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_APPROVED"]


async def test_what_is_unknown_is_unknown(desk: Desk, ann: User) -> None:
    request = await desk.asked(ann)

    assert await desk.approvals.decide(ApprovalId(new_id()), ann.id, "approved", door="test") == Unknown()
    assert await desk.approvals.decide(request.id, UserId(new_id()), "approved", door="test") == Unknown()


async def test_a_decision_after_the_job_was_cancelled_is_told_so(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann)
    await scene.store.jobs.cancel(request.job_id, "ops", "no longer needed")

    assert await desk.decide(request, ann) == Withdrawn(scene.now)
    stored = await desk.stored(request)
    assert (stored.decision, stored.outcome, stored.used_at) == (None, "cancelled", None)
    assert await scene.status(request.job_id) is JobStatus.CANCELLED
    assert await desk.approvals.list() == []


async def test_edits_are_kept_apart_from_what_was_shown(desk: Desk, ann: User) -> None:
    request = await desk.asked(ann, editable=["replicas"])

    await desk.decide(request, ann, edits={**DETAILS, "replicas": 1})

    stored = await desk.stored(request)
    assert stored.action_details == DETAILS
    assert stored.edited_details == stored.details == {**DETAILS, "replicas": 1}
    assert stored.is_as_shown


async def test_edits_that_are_not_allowed_change_nothing(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann, editable=["replicas"])

    with pytest.raises(InvalidInput) as refused:
        await desk.decide(request, ann, edits={**DETAILS, "image": "evil:1"})

    assert refused.value.field == "details.image"
    assert (await desk.stored(request)).is_open
    assert await desk.approvals.votes(request.id) == []
    assert await scene.status(request.job_id) is JobStatus.WAITING_FOR_APPROVAL


# -- quorum --------------------------------------------------------------------------------------


async def test_a_quorum_closes_with_the_last_vote_that_was_missing(scene: Scene, desk: Desk, ann: User) -> None:
    ben, cem = await desk.user("ben"), await desk.user("cem")
    request = await desk.asked(ann, ben, cem, quorum=2)

    assert await desk.decide(request, ann) == Recorded(1, 2)
    assert await scene.status(request.job_id) is JobStatus.WAITING_FOR_APPROVAL
    assert isinstance(await desk.decide(request, cem, reason="fine"), Decided)
    assert isinstance(await desk.decide(request, ben), AlreadyDecided)
    assert [(vote.by, vote.decision) for vote in await desk.approvals.votes(request.id)] == [
        ("Ann Example", "approved"),
        ("cem", "approved"),
    ]
    assert (await desk.stored(request)).decided_by == cem.id
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_APPROVED"]


async def test_one_person_counts_once_in_a_quorum(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann, await desk.user("ben"), quorum=2)

    assert [await desk.decide(request, ann) for _ in range(3)] == [Recorded(1, 2)] * 3
    assert await scene.status(request.job_id) is JobStatus.WAITING_FOR_APPROVAL


async def test_the_first_denial_closes_a_quorum(scene: Scene, desk: Desk, ann: User) -> None:
    ben, cem = await desk.user("ben"), await desk.user("cem")
    request = await desk.asked(ann, ben, cem, quorum=3)
    await desk.decide(request, ann)

    assert isinstance(await desk.decide(request, ben, "denied", reason="no"), Decided)
    assert await scene.status(request.job_id) is JobStatus.FAILED
    assert isinstance(await desk.decide(request, cem), AlreadyDecided)


async def test_a_vote_stays_as_it_was_given(scene: Scene, desk: Desk, ann: User) -> None:
    request = await desk.asked(ann, await desk.user("ben"), quorum=2)
    await desk.decide(request, ann)

    assert isinstance(await desk.decide(request, ann, "denied"), NotAllowed)
    assert await scene.status(request.job_id) is JobStatus.WAITING_FOR_APPROVAL


# -- expiry --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "outcome", "status", "message"),
    [
        ({}, "failed", JobStatus.FAILED, "Approval timed out after 24 hours."),
        ({"ttl_seconds": 5400}, "failed", JobStatus.FAILED, "Approval timed out after 90 minutes."),
        ({"on_expiry": "deny"}, "denied", JobStatus.FAILED, "Approval denied: no decision within 24 hours."),
        ({"on_expiry": "deny", "on_denial": "raise"}, "denied", JobStatus.RUNNING, None),
        ({"on_expiry": "approve"}, "approved", JobStatus.RUNNING, None),
        ({"on_expiry": "default", "default": {"replicas": 0}}, "defaulted", JobStatus.RUNNING, None),
    ],
)
async def test_a_request_that_expires_has_the_outcome_that_it_asked_for(
    scene: Scene, desk: Desk, ann: User, fields: dict[str, Any], outcome: str, status: JobStatus, message: str | None
) -> None:
    request = await desk.asked(ann, **fields)
    await scene.clock.advance(days=1)

    assert await desk.approvals.expire(10) == 1
    stored, job = await desk.stored(request), await scene.job(request.job_id)
    assert (stored.decision, stored.outcome, stored.decided_by) == ("expired", outcome, None)
    assert stored.default == fields.get("default")
    assert (job.status, job.error_message) == (status, message)
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_EXPIRED"]
    assert await desk.approvals.expire(10) == 0
    assert len(await scene.claim(await scene.worker())) == (status is JobStatus.RUNNING)
    history = await scene.store.jobs.history(request.job_id)
    assert any(entry.cause == "expire" and entry.metadata["approval_request_id"] == request.id for entry in history)


async def test_a_decision_counts_up_to_the_last_microsecond(scene: Scene, desk: Desk, ann: User) -> None:
    in_time, too_late = await desk.asked(ann), await desk.asked(ann)
    await scene.clock.advance(seconds=86_399, microseconds=999_999)

    assert await desk.approvals.expire(10) == 0
    assert isinstance(await desk.decide(in_time, ann), Decided)
    await scene.clock.advance(microseconds=1)
    assert await desk.decide(too_late, ann) == Expired(scene.now)
    assert await scene.status(too_late.job_id) is JobStatus.WAITING_FOR_APPROVAL
    assert await desk.approvals.expire(10) == 1
    assert await desk.decide(too_late, ann) == Expired(scene.now)
    assert await scene.status(too_late.job_id) is JobStatus.FAILED


async def test_only_as_many_expire_as_are_asked_for(scene: Scene, desk: Desk, ann: User) -> None:
    for _ in range(3):
        await desk.asked(ann)
    await scene.clock.advance(days=2)

    assert [await desk.approvals.expire(2) for _ in range(3)] == [2, 1, 0]


async def test_the_next_thing_to_do_is_known(scene: Scene, desk: Desk, ann: User) -> None:
    assert await desk.approvals.next_due_in() is None
    await desk.asked(ann)
    assert await desk.approvals.next_due_in() == 86_400
    await desk.asked(ann, remind_after_seconds=600)
    assert await desk.approvals.next_due_in() == 600
    await desk.asked(ann, escalate_after_seconds=60, escalate_to=Approvers((ann.id,)))
    assert await desk.approvals.next_due_in() == 60
    await scene.clock.advance(minutes=2)
    assert await desk.approvals.next_due_in() == -60


# -- deleting ------------------------------------------------------------------------------------


async def test_everything_goes_with_the_job(scene: Scene, desk: Desk, raw: Raw, ann: User) -> None:
    request = await desk.asked(ann)
    await desk.send_token(request, ann)
    await desk.decide(request, ann, "denied")

    await raw(f"delete from cortex.job where id = '{request.job_id}'")

    for table in ("approval_request", "approval_vote", "approval_token", "approval_approver", "approval_notice"):
        assert await raw(f"select count(*) from cortex.{table}") == [(0,)]
    assert "APPROVAL_DENIED" in await desk.audited(request)


# -- asking again --------------------------------------------------------------------------------


async def test_a_request_names_the_one_it_supersedes(scene: Scene, desk: Desk, ann: User) -> None:
    first = await desk.asked(ann)
    assert isinstance(await desk.decide(first, ann), Decided)
    again = await _asked_again(scene, desk, first, ann)

    stored, earlier = await desk.stored(again), await desk.stored(first)

    assert stored.supersedes is not None
    assert stored.is_open
    assert stored.is_as_shown
    assert (stored.supersedes.id, stored.supersedes.job_id) == (first.id, first.job_id)
    assert (stored.supersedes.summary, stored.supersedes.outcome) == (first.action_summary, "approved")
    assert (stored.supersedes.decided_by, stored.supersedes.closed_at) == ("Ann Example", earlier.closed_at)
    assert (earlier.outcome, earlier.decision) == ("approved", "approved")


async def test_an_open_request_that_is_asked_again_is_closed_and_decides_nothing(
    scene: Scene, desk: Desk, ann: User, raw: Raw
) -> None:
    """Planted: today a job leaves each request behind closed."""
    await desk.with_notifier()
    first = await desk.asked(ann, quorum=1)
    token = await desk.send_token(first, ann)
    if raw.kind == "sqlite":
        await raw("drop trigger job_left_approval")
    else:
        await raw("alter table cortex.job disable trigger job_left_approval")
    assert isinstance(await desk.decide(first, await desk.user("bob", "approver"), "denied"), NotAllowed)
    assert isinstance(await desk.decide(first, ann), Decided)
    assert (await desk.stored(first)).is_open

    again = await _asked_again(scene, desk, first, ann)

    closed = await desk.stored(first)
    assert (closed.outcome, closed.decision, closed.remind_at) == ("superseded", None, None)
    late = await desk.decide(first, ann, "denied", token_hash=token.hash)
    assert isinstance(late, Withdrawn)
    assert late.superseded
    assert [one.id for one in await desk.approvals.list(waiting_for=ann.id)] == [again.id]
    assert await desk.told(first) == [("ask", ann.id), ("settle", ann.id)]
    assert await desk.told(again) == [("ask", ann.id)]


async def test_a_request_of_another_job_is_not_closed_by_one_that_names_it(scene: Scene, desk: Desk, ann: User) -> None:
    other = await desk.asked(ann)

    again = await desk.asked(ann, supersedes=other.id)

    assert (await desk.stored(other)).is_open
    superseded = (await desk.stored(again)).supersedes
    assert superseded is not None
    assert superseded.id == other.id


async def _asked_again(scene: Scene, desk: Desk, first: NewApproval, user: User) -> NewApproval:
    job = await scene.job(first.job_id)
    assert job.run_id is not None
    fields = {"id": ApprovalId(new_id()), "run_id": job.run_id, "token_hash": token().hash, "supersedes": first.id}
    again = changed(first, action_summary="Ship 1.4.0", approvers=Approvers((user.id,)), **fields)
    assert await desk.open(again)
    return again


REFUSE_ON_POSTGRES = """
create function cortex.refuse_it() returns trigger language plpgsql as $$ begin raise exception 'nobody thought of this'; end $$;
create trigger refuse_it before update on cortex.approval_request for each row when (old.id <> '{id}')
  execute function cortex.refuse_it();
"""
REFUSE_ON_SQLITE = """
create trigger refuse_it before update on approval_request when old.id <> '{id}' begin select raise(abort, 'nobody'); end
"""


@pytest.mark.parametrize("purpose", ["expire", "remind"])
async def test_more_requests_than_a_batch_that_the_database_refuses_to_change_stop_no_other(desk: Desk, purpose: str) -> None:
    await desk.with_notifier()
    ann = await desk.user("ann", "approver")
    terms = {"ttl_seconds": 60} if purpose == "expire" else {"remind_after_seconds": 60.0}
    broken = [await desk.asked(ann, **terms) for _ in range(expiry.BATCH + 5)]
    await desk.scene.clock.advance(seconds=0.001)
    first, second = broken[0], await desk.asked(ann, **terms)
    await desk.scene.clock.advance(seconds=61)
    connection: Any = desk.raw.connection  # type: ignore[attr-defined]
    if isinstance(desk.raw, RawSqlite):
        connection.execute(REFUSE_ON_SQLITE.format(id=second.id))
    else:
        await connection.execute(REFUSE_ON_POSTGRES.format(id=second.id))

    await Deadlines(desk.store).act()

    assert (await desk.stored(first)).is_open
    after = await desk.stored(second)
    assert not after.is_open if purpose == "expire" else after.reminders == 1
