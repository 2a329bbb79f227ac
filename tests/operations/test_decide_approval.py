"""Every door leads to the same decision: by token, signed in, or many at once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cortex_plane.approvals.deadlines import Deadlines
from cortex_plane.approvals.decisions import (
    PREFIX,
    AlreadyDecided,
    ApprovalToken,
    Decided,
    Expired,
    NotAllowed,
    Unknown,
    Withdrawn,
    mint,
)
from cortex_plane.approvals.expiry import expire_approvals, remind_and_escalate
from cortex_plane.approvals.model import AmbiguousApproval, ApprovalClosed, ApprovalNotFound, Approvers, Notification
from cortex_plane.approvals.service import (
    decide_approval,
    decide_approvals,
    decide_by_token,
    find_approval,
    find_approvers,
    get_by_token,
    list_approvals,
    remind_approval,
)
from cortex_plane.errors import InvalidInput
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from cortex_plane.jobs.states import JobStatus
from cortex_plane.people.model import User
from cortex_plane.people.users import disable_user, enable_user
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from tests.contract.approval_scene import Desk, token
from tests.contract.support import Scene, raw_client

pytestmark = pytest.mark.anyio


@pytest.fixture
async def desk(store: Store, clock: ManualClock, database_url: str) -> AsyncIterator[Desk]:
    async with raw_client(database_url, clock) as raw:
        yield Desk(Scene(store, clock), raw)


@pytest.fixture
async def ann(desk: Desk) -> User:
    return await desk.user("ann")


# -- by token ------------------------------------------------------------------------------------


async def test_a_token_decides_as_its_addressee(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)
    sent = await desk.send_token(request, ann)

    answer = await decide_by_token(store, sent.plaintext, "denied", reason="  not now ", door="telegram")

    assert isinstance(answer, Decided)
    stored = await desk.stored(request)
    assert (stored.decided_by, stored.reason) == (ann.id, "  not now ")
    [vote] = await desk.approvals.votes(request.id)
    assert vote.door == "telegram"
    assert (await store.audit.list(request.id))[-1].entry.source == "telegram"


async def test_looking_at_a_token_decides_nothing(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)
    sent = await desk.send_token(request, ann)

    assert await get_by_token(store, sent.plaintext) == (await desk.stored(request), ann.id)
    assert await get_by_token(store, token().plaintext) is None
    assert (await desk.stored(request)).is_open


async def test_a_token_with_underscores_is_a_token(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)
    sent = mint(b"\xff" * 32)
    await desk.link(ann, "slack", "U1")
    await desk.approvals.put_token(request.id, ann.id, "slack", "U1", sent.hash)

    assert sent.plaintext.count("_") > 40
    assert isinstance(await decide_by_token(store, sent.plaintext, "approved", door="api"), Decided)


async def test_what_is_not_a_token_of_ours_is_unknown_and_changes_nothing(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)
    sent = await desk.send_token(request, ann)
    last = sent.plaintext[-2]
    wrong = [
        sent.plaintext[:-2] + ("A" if last != "A" else "B") + sent.plaintext[-1],
        sent.plaintext.replace(PREFIX, "cortex_apr_2_"),
        sent.plaintext + "A",
        sent.plaintext[:-1],
        sent.plaintext.removeprefix(PREFIX),
        sent.plaintext.upper(),
        sent.hash,
        request.token_hash,
        token().plaintext,
        "",
        None,
        {"token": sent.plaintext},
    ]

    assert [await decide_by_token(store, one, "approved", door="api") for one in wrong] == [Unknown()] * len(wrong)
    assert (await desk.stored(request)).is_open


async def test_a_token_of_one_job_does_not_decide_another(desk: Desk, store: Store, ann: User) -> None:
    mine, other = await desk.asked(ann), await desk.asked(ann)
    sent = await desk.send_token(mine, ann)

    assert await desk.decide(other, ann, token_hash=sent.hash) == Unknown()
    await decide_by_token(store, sent.plaintext, "approved", door="api")
    assert not (await desk.stored(mine)).is_open
    assert (await desk.stored(other)).is_open


async def test_a_token_of_somebody_else_does_not_decide_for_me(desk: Desk, ann: User) -> None:
    ben = await desk.user("ben")
    request = await desk.asked(ann, ben)
    sent = await desk.send_token(request, ann)

    assert await desk.decide(request, ben, token_hash=sent.hash) == Unknown()


async def test_a_token_is_used_once(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)
    sent = await desk.send_token(request, ann)
    first = await decide_by_token(store, sent.plaintext, "approved", door="api")

    assert isinstance(await decide_by_token(store, sent.plaintext, "denied", door="api"), AlreadyDecided)
    assert await decide_by_token(store, sent.plaintext, "approved", door="page") == first
    assert await decide_by_token(store, sent.plaintext, "approved", door="api") == first


async def test_a_token_that_was_replaced_is_unknown(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)
    old = await desk.send_token(request, ann, "42")
    new = await desk.send_token(request, ann, "42")
    await desk.approvals.record_notification(request.id, Notification(ann.id, "telegram", "42", "7"), new.hash)

    assert await decide_by_token(store, old.plaintext, "approved", door="api") == Unknown()
    assert (await desk.stored(request)).is_open


async def test_a_token_is_worth_nothing_a_microsecond_too_late(desk: Desk, store: Store, clock: ManualClock, ann: User) -> None:
    async def tokens() -> ApprovalToken:
        return await desk.send_token(await desk.asked(ann), ann)

    early, late = await tokens(), await tokens()
    await clock.advance(seconds=86_399, microseconds=999_999)
    assert isinstance(await decide_by_token(store, early.plaintext, "approved", door="api"), Decided)
    await clock.advance(microseconds=1)

    assert isinstance(await decide_by_token(store, late.plaintext, "approved", door="api"), Expired)


async def test_the_tokens_of_a_disabled_account_are_void_for_good(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)
    sent = await desk.send_token(request, ann)
    await disable_user(store, "ann", actor="ops")
    disabled = await decide_by_token(store, sent.plaintext, "approved", door="api")
    await enable_user(store, "ann", actor="ops")
    enabled = await decide_by_token(store, sent.plaintext, "approved", door="api")

    assert (disabled, enabled) == (Unknown(), Unknown())


async def test_a_late_click_hears_that_the_job_was_cancelled(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)
    sent = await desk.send_token(request, ann)
    await store.jobs.cancel(request.job_id, None, None)

    assert isinstance(await decide_by_token(store, sent.plaintext, "approved", door="api"), Withdrawn)


# -- signed in -----------------------------------------------------------------------------------


async def test_a_request_is_found_by_the_first_part_of_its_id(desk: Desk, store: Store, ann: User) -> None:
    request, _ = await desk.asked(ann), await desk.asked(ann)

    assert (await find_approval(store, request.id[:23])).id == request.id
    assert isinstance(await decide_approval(store, request.id[:23], ann.id, "approved", door="cli"), Decided)
    with pytest.raises(AmbiguousApproval):
        await find_approval(store, request.id[:4])
    with pytest.raises(ApprovalNotFound):
        await find_approval(store, "ffff")
    with pytest.raises(ApprovalNotFound):
        await find_approval(store, new_id())


@pytest.mark.parametrize("wrong", ["", "abc", "not an id", "'; drop table job; --"])
async def test_what_is_no_id_is_refused(desk: Desk, store: Store, wrong: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await find_approval(store, wrong)

    assert refused.value.field == "id"


async def test_a_wrong_decision_or_reason_changes_nothing(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)

    with pytest.raises(InvalidInput):
        await decide_approval(store, request.id, ann.id, "maybe", door="cli")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        await decide_approval(store, request.id, ann.id, "denied", reason="x" * 2001, door="cli")
    with pytest.raises(InvalidInput):
        await decide_approval(store, request.id, ann.id, "denied", reason="\x00", door="cli")
    assert (await desk.stored(request)).is_open


async def test_of_many_each_is_decided_by_itself(desk: Desk, store: Store, ann: User) -> None:
    ben = await desk.user("ben")
    mine, decided, foreign, unknown = await desk.asked(ann), await desk.asked(ann), await desk.asked(ben), new_id()
    await desk.decide(decided, ann, "denied")

    answers = await decide_approvals(
        store, [mine.id, decided.id, foreign.id, unknown, mine.id], ann.id, "approved", reason="release day", door="dashboard"
    )

    assert [type(answer) for answer in answers.values()] == [Decided, AlreadyDecided, NotAllowed, Unknown]
    assert list(answers) == [mine.id, decided.id, foreign.id, unknown]
    assert (await desk.stored(mine)).reason == "release day"


async def test_lists_check_what_they_are_asked(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)

    assert [one.id for one in await list_approvals(store, waiting_for=ann.id)] == [request.id]
    with pytest.raises(InvalidInput):
        await list_approvals(store, limit=0)
    with pytest.raises(InvalidInput):
        await list_approvals(store, waiting_for=ann.id, open_only=False)


# -- what happens by itself ----------------------------------------------------------------------


async def test_deadlines_expire_remind_and_escalate(desk: Desk, store: Store, clock: ManualClock, ann: User) -> None:
    boss = await desk.user("boss")
    request = await desk.asked(
        ann, remind_after_seconds=600, escalate_after_seconds=1200, escalate_to=Approvers((boss.id,)), ttl_seconds=1800
    )
    deadlines = Deadlines(store)

    for minutes, reminders, escalated in ((10, 1, False), (10, 2, True)):
        await clock.advance(minutes=minutes)
        await deadlines.once()
        stored = await desk.stored(request)
        assert (stored.reminders, stored.escalated_at is not None) == (reminders, escalated)
    await clock.advance(minutes=10)
    await deadlines.once()
    assert (await desk.stored(request)).decision == "expired"
    status = await store.jobs.status(request.job_id)
    assert status is not None
    assert status[0] is JobStatus.FAILED
    assert await expire_approvals(store) == await remind_and_escalate(store) == 0


async def test_deadlines_rest_until_the_next_request_is_due(desk: Desk, store: Store, clock: ManualClock, ann: User) -> None:
    deadlines = Deadlines(store)
    assert await deadlines.once() == 1.0
    await desk.asked(ann, ttl_seconds=60)
    await clock.advance(seconds=59, milliseconds=500)

    assert await deadlines.once() == pytest.approx(0.5)


async def test_a_reminder_of_what_is_closed_says_so(desk: Desk, store: Store, ann: User) -> None:
    request = await desk.asked(ann)
    await remind_approval(store, request.id, actor="ben", source="cli")
    await desk.decide(request, ann)

    with pytest.raises(ApprovalClosed):
        await remind_approval(store, request.id, actor="ben")
    assert await desk.audited(request) == ["APPROVAL_REQUESTED", "APPROVAL_REMINDED", "APPROVAL_APPROVED"]


# -- names ---------------------------------------------------------------------------------------


async def test_approvers_are_found_by_name(desk: Desk, store: Store, ann: User) -> None:
    ops = await desk.group("ops", ann)

    assert await find_approvers(store.people, DEFAULT_TENANT_ID, None) == Approvers()
    assert await find_approvers(store.people, DEFAULT_TENANT_ID, "ann") == Approvers((ann.id,))
    assert await find_approvers(store.people, DEFAULT_TENANT_ID, ["ann", "group:ops", "ann"]) == Approvers((ann.id,), (ops,))
    with pytest.raises(InvalidInput, match="there is no user"):
        await find_approvers(store.people, DEFAULT_TENANT_ID, ["nobody"])
    with pytest.raises(InvalidInput, match="there is no group"):
        await find_approvers(store.people, DEFAULT_TENANT_ID, ["group:nobody"])
    with pytest.raises(InvalidInput):
        await find_approvers(store.people, DEFAULT_TENANT_ID, [7])  # type: ignore[list-item]
