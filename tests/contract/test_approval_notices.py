"""Who is told of a request, when, and by what token; the jobs that tell them are made in the same transaction."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.approvals.model import ApprovalId, Approvers, Notification
from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import INTERNAL_QUEUE
from cortex_plane.jobs.states import JobStatus
from cortex_plane.people.model import Session, SessionId, User
from tests.contract.approval_scene import NOTIFIER, Desk, token
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def notifier(desk: Desk) -> None:
    await desk.with_notifier()


@pytest.fixture
async def people(desk: Desk) -> tuple[User, User, User]:
    return await desk.user("ann"), await desk.user("ben"), await desk.user("cem")


def sorted_ids(*users: User) -> list[str]:
    return sorted(user.id for user in users)


async def told(desk: Desk, request: Any, purpose: str) -> list[str]:
    return sorted(user for why, user in await desk.told(request) if why == purpose)


async def test_everybody_who_is_named_is_asked_once(desk: Desk, people: tuple[User, User, User]) -> None:
    ann, ben, cem = people
    ops = await desk.group("ops", ben, cem)
    request = await desk.asked(approvers=Approvers((ann.id, ben.id), (ops,)))

    assert await told(desk, request, "ask") == sorted_ids(ann, ben, cem)


async def test_where_nobody_is_named_the_approvers_of_the_tenant_are_asked(scene: Scene, desk: Desk) -> None:
    there = await scene.tenant("there")
    await desk.user("admin", "admin")
    everywhere = await desk.user("boss", "approver")
    both = await desk.user("both", "approver", "admin", tenant_id=there)
    await desk.user("viewer", "viewer", tenant_id=there)
    await desk.user("here", "approver", tenant_id=(await desk.asked()).tenant_id)
    request = await desk.asked(job={"tenant_id": there})

    assert await told(desk, request, "ask") == sorted_ids(everywhere, both)


async def test_the_user_of_the_session_is_asked(desk: Desk, people: tuple[User, User, User]) -> None:
    ann, *_ = people
    await desk.user("boss", "approver")
    session = Session(SessionId(new_id()), ann.id)
    await desk.store.people.add_session(session)
    request = await desk.asked(job={"session_id": session.id})

    assert await told(desk, request, "ask") == [ann.id]


async def test_nobody_is_asked_who_could_not_decide(desk: Desk, people: tuple[User, User, User]) -> None:
    ann, ben, cem = people
    await desk.store.people.disable_user(ben.id, AuditEntry("USER_DISABLED", "user", ben.id))
    request = await desk.asked(ann, ben, cem, job={"created_by": "ann"}, no_self_approval=True)

    assert await told(desk, request, "ask") == [cem.id]


async def test_the_jobs_are_the_planes_own_and_hold_no_secret(
    scene: Scene, desk: Desk, raw: Raw, people: tuple[User, User, User]
) -> None:
    ann, *_ = people
    request = await desk.asked(ann)

    [(job_id,)] = await raw(f"select id from cortex.job where job_type = {NOTIFIER}")
    job = await scene.job(job_id)
    assert (job.queue, job.status, job.tenant_id, job.max_retries) == (INTERNAL_QUEUE, JobStatus.PENDING, request.tenant_id, 3)
    assert job.payload == {"approval_request_id": request.id, "user_account_id": ann.id, "purpose": "ask"}


async def test_nothing_is_told_when_the_run_was_superseded(scene: Scene, desk: Desk, people: tuple[User, User, User]) -> None:
    ann, *_ = people
    claimed = await scene.running()
    request = await desk.request(claimed, approvers=Approvers((ann.id,)))
    await scene.store.jobs.cancel(claimed.job_id, None, None)

    assert not await desk.open(request)
    assert await desk.told(request) == []


# -- reminders and escalation --------------------------------------------------------------------


async def test_those_who_have_not_voted_are_reminded_again_and_again(
    scene: Scene, desk: Desk, people: tuple[User, User, User]
) -> None:
    ann, ben, _ = people
    request = await desk.asked(ann, ben, quorum=2, remind_after_seconds=3600, ttl_seconds=9000)
    await desk.decide(request, ann)
    assert await desk.approvals.due(10) == []
    assert not await desk.approvals.remind(request.id)

    for reminders in (1, 2):
        await scene.clock.advance(hours=1)
        assert await desk.approvals.due(10) == [(request.id, "remind")]
        assert await desk.approvals.remind(request.id)
        assert not await desk.approvals.remind(request.id)
        assert await told(desk, request, "remind") == [ben.id] * reminders
    stored = await desk.stored(request)
    assert (stored.reminders, stored.remind_at) == (2, None)  # The third would come after the end.


async def test_somebody_can_ask_for_a_reminder_at_any_time(desk: Desk, people: tuple[User, User, User]) -> None:
    ann, *_ = people
    request = await desk.asked(ann)
    entry = AuditEntry("APPROVAL_REMINDED", "approval", request.id, "ben")

    assert await desk.approvals.remind(request.id, entry)
    assert await told(desk, request, "remind") == [ann.id]
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_REMINDED"]
    await desk.decide(request, ann)
    assert not await desk.approvals.remind(request.id, entry)
    assert (await desk.audited(request)).count("APPROVAL_REMINDED") == 1


async def test_an_escalation_asks_others_once(scene: Scene, desk: Desk, people: tuple[User, User, User]) -> None:
    ann, ben, cem = people
    chiefs = await desk.group("chiefs", cem)
    request = await desk.asked(ann, escalate_after_seconds=60, escalate_to=Approvers((ben.id,), (chiefs,)))
    assert not await desk.approvals.escalate(request.id)
    await scene.clock.advance(seconds=60)

    assert await desk.approvals.due(10) == [(request.id, "escalate")]
    assert await desk.approvals.escalate(request.id)
    assert not await desk.approvals.escalate(request.id)
    assert await desk.approvals.due(10) == []
    assert await told(desk, request, "escalate") == sorted_ids(ben, cem)
    assert await told(desk, request, "ask") == [ann.id]
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_ESCALATED"]
    assert (await desk.stored(request)).escalated_at == scene.now


async def test_nothing_is_due_once_the_request_is_closed_or_out_of_time(
    scene: Scene, desk: Desk, people: tuple[User, User, User]
) -> None:
    ann, ben, _ = people
    fields: dict[str, Any] = {
        "remind_after_seconds": 60,
        "escalate_after_seconds": 60,
        "escalate_to": Approvers((ben.id,)),
        "ttl_seconds": 120,
    }
    decided, cancelled, expired = [await desk.asked(ann, **fields) for _ in range(3)]
    await desk.decide(decided, ann)
    await scene.store.jobs.cancel(cancelled.job_id, None, None)
    await scene.clock.advance(seconds=60)
    assert {request_id for request_id, _ in await desk.approvals.due(10)} == {expired.id}
    await scene.clock.advance(seconds=60)

    assert await desk.approvals.due(10) == []
    for request in (decided, cancelled, expired):
        assert not await desk.approvals.remind(request.id)
        assert not await desk.approvals.escalate(request.id)


# -- afterwards ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["approved", "denied", "cancelled", "expired"])
async def test_whoever_got_a_token_is_told_how_it_ended(
    scene: Scene, desk: Desk, people: tuple[User, User, User], how: str
) -> None:
    ann, ben, _ = people
    request = await desk.asked(ann, ben)
    await desk.send_token(request, ann, "1")
    await desk.send_token(request, ann, "2")
    match how:
        case "cancelled":
            await scene.store.jobs.cancel(request.job_id, None, None)
        case "expired":
            await scene.clock.advance(days=1)
            await desk.approvals.expire(10)
        case _:
            await desk.decide(request, ben, "approved" if how == "approved" else "denied")

    assert await told(desk, request, "settle") == [ann.id]


async def test_a_message_that_was_sent_is_kept_once(scene: Scene, desk: Desk, people: tuple[User, User, User]) -> None:
    ann, ben, _ = people
    request = await desk.asked(ann, ben)
    first = Notification(ann.id, "telegram", "42", "7", where={"chat_id": 42})

    assert await desk.approvals.record_notification(request.id, first)
    assert await desk.approvals.record_notification(request.id, first)
    assert await desk.approvals.record_notification(request.id, Notification(ann.id, "telegram", "42", "8"))
    assert await desk.approvals.record_notification(request.id, Notification(ben.id, "email", "ben@example.com", None))
    kept = (await desk.stored(request)).notifications
    assert [(one.user_account_id, one.channel_type, one.message_id, one.where) for one in kept] == [
        (ann.id, "telegram", "7", {"chat_id": 42}),
        (ann.id, "telegram", "8", None),
        (ben.id, "email", None, None),
    ]
    assert {one.notification_sent_at for one in kept} == {scene.now}


async def test_a_failure_is_kept_until_the_next_try_and_messages_that_were_sent_stay(
    scene: Scene, desk: Desk, people: tuple[User, User, User]
) -> None:
    ann, ben, _ = people
    request = await desk.asked(ann, ben)

    async def recorded(message_id: str | None, error: str | None = None, user: User = ann) -> list[tuple[str | None, str | None]]:
        await desk.approvals.record_notification(
            request.id, Notification(user.id, "telegram", user.name, message_id, error=error)
        )
        kept = (await desk.stored(request)).notifications
        assert all((one.notification_sent_at is None) == (one.error is not None) for one in kept)
        return [(one.message_id, one.error) for one in kept if one.user_account_id == ann.id]

    assert await recorded(None, "it hangs") == [(None, "it hangs")]
    assert await recorded(None, "it is busy") == [(None, "it is busy")]
    assert await recorded("9", user=ben) == [(None, "it is busy")]
    assert await recorded("7") == [("7", None)]
    assert await recorded(None, "it hangs again") == [("7", None), (None, "it hangs again")]
    assert await recorded("8") == [("7", None), ("8", None)]


async def test_a_message_that_was_sent_too_late_is_to_be_edited_at_once(desk: Desk, people: tuple[User, User, User]) -> None:
    ann, *_ = people
    request = await desk.asked(ann)
    await desk.decide(request, ann)

    assert not await desk.approvals.record_notification(request.id, Notification(ann.id, "telegram", "42", "7"))
    assert len((await desk.stored(request)).notifications) == 1
    assert not await desk.approvals.record_notification(ApprovalId(new_id()), Notification(ann.id, "telegram", "42", "7"))


# -- tokens --------------------------------------------------------------------------------------


async def test_a_token_names_its_request_and_its_addressee(desk: Desk, people: tuple[User, User, User]) -> None:
    ann, ben, _ = people
    request = await desk.asked(ann, ben)
    mine, theirs = await desk.send_token(request, ann), await desk.send_token(request, ben)

    assert await desk.approvals.by_token(mine.hash) == (request.id, ann.id)
    assert await desk.approvals.by_token(theirs.hash) == (request.id, ben.id)
    assert await desk.approvals.by_token(token().hash) is None
    assert await desk.approvals.by_token(request.token_hash) is None  # It is never sent, so nobody can have it.


async def test_a_delivered_resend_replaces_the_tokens_of_that_address_alone(desk: Desk, people: tuple[User, User, User]) -> None:
    ann, *_ = people
    request = await desk.asked(ann)
    old, other = await desk.send_token(request, ann, "1"), await desk.send_token(request, ann, "2")
    new = await desk.send_token(request, ann, "1")
    assert await desk.approvals.by_token(old.hash) == (request.id, ann.id)  # It has not been delivered yet.

    await desk.approvals.record_notification(request.id, Notification(ann.id, "telegram", "1", "7"), new.hash)

    assert await desk.approvals.by_token(old.hash) is None
    assert await desk.approvals.by_token(other.hash) == await desk.approvals.by_token(new.hash) == (request.id, ann.id)


async def test_no_token_is_made_for_a_request_that_is_closed(desk: Desk, people: tuple[User, User, User]) -> None:
    ann, *_ = people
    request = await desk.asked(ann)
    before = await desk.send_token(request, ann)
    await desk.link(ann, "slack", "U1")
    await desk.decide(request, ann)

    assert not await desk.approvals.put_token(request.id, ann.id, "slack", "U1", token().hash)
    assert await desk.approvals.by_token(before.hash) == (request.id, ann.id)  # A late click is answered, not unknown.
