"""Who may decide: on every path the same rule, judged in the transaction of the decision."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.approvals.decisions import Answer, Decided, NotAllowed, Recorded
from cortex_plane.approvals.model import Approvers
from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.people.model import Session, SessionId, User
from tests.contract.approval_scene import Desk
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio


def allowed(answer: Answer) -> bool:
    assert isinstance(answer, Decided | NotAllowed)
    return isinstance(answer, Decided)


async def session_of(desk: Desk, user: User) -> SessionId:
    session = Session(SessionId(new_id()), user.id, channel="slack")
    await desk.store.people.add_session(session)
    return session.id


async def test_somebody_who_is_named_needs_no_role(desk: Desk) -> None:
    ann, boss = await desk.user("ann"), await desk.user("boss", "admin")
    request = await desk.asked(ann)

    assert not allowed(await desk.decide(request, boss))
    assert allowed(await desk.decide(request, ann))


async def test_a_group_decides_by_its_members_as_they_are_now(desk: Desk) -> None:
    ann, ben, cem = await desk.user("ann"), await desk.user("ben"), await desk.user("cem")
    ops = await desk.group("ops", ann)
    request = await desk.asked(approvers=Approvers((), (ops,)))
    entry = AuditEntry("MEMBERS_CHANGED", "user_group", ops)
    await desk.store.people.remove_member(ops, ann.id, entry)
    await desk.store.people.add_member(ops, ben.id, entry)

    assert not allowed(await desk.decide(request, ann))
    assert not allowed(await desk.decide(request, cem))
    assert allowed(await desk.decide(request, ben))


@pytest.mark.parametrize(
    ("roles", "may"),
    [
        ((), False),
        (("viewer",), False),
        (("submitter", "operator"), False),
        (("approver",), True),
        (("admin",), False),
        (("admin", "approver"), True),
    ],
)
async def test_where_nobody_is_named_the_role_decides(desk: Desk, roles: tuple[str, ...], may: bool) -> None:
    user = await desk.user("ann", *roles)

    assert allowed(await desk.decide(await desk.asked(), user)) is may


async def test_a_role_in_another_tenant_does_not_count(scene: Scene, desk: Desk) -> None:
    there = await scene.tenant("there")
    stranger, own = await desk.user("ann", "admin", tenant_id=there), await desk.user("ben", "approver", tenant_id=there)
    here, elsewhere = await desk.asked(), await desk.asked(job={"tenant_id": there})

    assert not allowed(await desk.decide(here, stranger))
    assert allowed(await desk.decide(elsewhere, own))


async def test_the_user_of_the_session_is_asked_where_nobody_is_named(desk: Desk) -> None:
    ann, boss = await desk.user("ann"), await desk.user("boss", "approver")
    request = await desk.asked(job={"session_id": await session_of(desk, ann)})

    assert (await desk.stored(request)).approvers == Approvers((ann.id,))
    assert not allowed(await desk.decide(request, boss))
    assert allowed(await desk.decide(request, ann))


async def test_a_quorum_of_more_than_the_user_of_the_session_is_left_to_the_approvers_of_the_tenant(desk: Desk) -> None:
    ann, boss, chief = await desk.user("ann"), await desk.user("boss", "approver"), await desk.user("chief", "approver")
    request = await desk.asked(job={"session_id": await session_of(desk, ann)}, quorum=2)

    assert not allowed(await desk.decide(request, ann))
    assert await desk.decide(request, boss) == Recorded(1, 2)
    assert isinstance(await desk.decide(request, chief), Decided)


async def test_a_disabled_account_may_do_nothing(desk: Desk) -> None:
    ann = await desk.user("ann", "admin")
    request = await desk.asked(ann)
    await desk.store.people.disable_user(ann.id, AuditEntry("USER_DISABLED", "user", ann.id))

    assert await desk.decide(request, ann) == NotAllowed("Your account is disabled.")
    await desk.store.people.enable_user(ann.id, AuditEntry("USER_ENABLED", "user", ann.id))
    assert allowed(await desk.decide(request, ann))


@pytest.mark.parametrize("by", ["ann", "user:ann", "cli:ann", None])
@pytest.mark.parametrize("named", [True, False])
async def test_nobody_approves_their_own_where_that_is_asked_for(desk: Desk, by: str | None, named: bool) -> None:
    await desk.with_notifier()
    ann, ben = await desk.user("ann", "approver"), await desk.user("ben", "approver")
    job: dict[str, Any] = {"created_by": by} if by else {"session_id": await session_of(desk, ann)}
    request = await desk.asked(*((ann, ben) if named else ()), job=job, no_self_approval=True)

    assert not allowed(await desk.decide(request, ann))
    assert not allowed(await desk.decide(request, ann, "denied"))
    assert await desk.approvals.list(waiting_for=ann.id) == []
    assert [one.id for one in await desk.approvals.list(waiting_for=ben.id)] == [request.id]
    assert await desk.told(request) == [("ask", ben.id)]
    assert allowed(await desk.decide(request, ben))


async def test_ones_own_may_be_approved_where_nothing_is_said(desk: Desk) -> None:
    ann = await desk.user("ann", "approver")

    assert allowed(await desk.decide(await desk.asked(job={"created_by": "ann"}), ann))


async def test_those_it_is_escalated_to_may_decide_from_then_on(scene: Scene, desk: Desk) -> None:
    ann, boss = await desk.user("ann"), await desk.user("boss")
    chiefs = await desk.group("chiefs", boss)
    request = await desk.asked(ann, escalate_after_seconds=60, escalate_to=Approvers((), (chiefs,)))
    assert not allowed(await desk.decide(request, boss))
    await scene.clock.advance(seconds=60)
    assert await desk.approvals.escalate(request.id)

    assert [one.id for one in await desk.approvals.list(waiting_for=boss.id)] == [request.id]
    assert allowed(await desk.decide(request, boss))


async def test_what_is_not_as_it_was_shown_cannot_be_approved(desk: Desk, raw: Raw) -> None:
    """The database refuses to change it; this is for one that somebody has opened with force."""
    ann = await desk.user("ann")
    request = await desk.asked(ann)
    if raw.kind == "sqlite":
        await raw("drop trigger approval_as_shown")
    else:
        await raw("alter table cortex.approval_request disable trigger approval_as_shown")
    await raw(f"update cortex.approval_request set action_summary = 'Delete everything' where id = '{request.id}'")

    assert not allowed(await desk.decide(request, ann))


# -- the inbox -----------------------------------------------------------------------------------


async def test_an_inbox_holds_what_its_owner_can_decide(scene: Scene, desk: Desk) -> None:
    there = await scene.tenant("there")
    ann, ben = await desk.user("ann", "approver", tenant_id=there), await desk.user("ben")
    ops = await desk.group("ops", ann, ben)
    named, both = await desk.asked(ann), await desk.asked(ann, ben, quorum=2)
    grouped = await desk.asked(approvers=Approvers((ann.id,), (ops,)))
    for_all, not_there = await desk.asked(job={"tenant_id": there}), await desk.asked()
    closed, foreign = await desk.asked(ann), await desk.asked(ben)
    await desk.decide(closed, ann)

    mine = [one.id for one in await desk.approvals.list(waiting_for=ann.id)]

    assert mine == [for_all.id, grouped.id, both.id, named.id]
    assert [one.id for one in await desk.approvals.list(waiting_for=ann.id, tenant_id=there)] == [for_all.id]
    assert [one.id for one in await desk.approvals.list(waiting_for=ben.id)] == [foreign.id, grouped.id, both.id]
    await desk.decide(both, ann)
    assert both.id not in [one.id for one in await desk.approvals.list(waiting_for=ann.id)]
    assert not_there.id not in mine


async def test_an_inbox_comes_in_pages(desk: Desk) -> None:
    ann = await desk.user("ann")
    requests = [await desk.asked(ann) for _ in range(5)]

    first = await desk.approvals.list(waiting_for=ann.id, limit=2)
    second = await desk.approvals.list(waiting_for=ann.id, limit=2, before=first[-1].id)

    assert [one.id for one in [*first, *second]] == [one.id for one in reversed(requests[1:])]


async def test_an_inbox_is_empty_once_time_is_over_or_the_account_is_disabled(scene: Scene, desk: Desk) -> None:
    ann, ben = await desk.user("ann"), await desk.user("ben")
    await desk.asked(ann, ben)
    await desk.store.people.disable_user(ann.id, AuditEntry("USER_DISABLED", "user", ann.id))

    assert await desk.approvals.list(waiting_for=ann.id) == []
    assert len(await desk.approvals.list(waiting_for=ben.id)) == 1
    await scene.clock.advance(days=1)
    assert await desk.approvals.list(waiting_for=ben.id) == []


async def test_lists_of_a_tenant_and_of_everybody(scene: Scene, desk: Desk) -> None:
    there = await scene.tenant("there")
    ann = await desk.user("ann")
    here, elsewhere = await desk.asked(ann), await desk.asked(ann, job={"tenant_id": there})
    await desk.decide(here, ann)

    async def ids(**wanted: Any) -> list[str]:
        return [one.id for one in await desk.approvals.list(**wanted)]

    assert await ids() == [elsewhere.id]
    assert await ids(open_only=False) == [elsewhere.id, here.id]
    assert await ids(tenant_id=there) == [elsewhere.id]
    assert await ids(tenant_id=here.tenant_id) == []
    assert await ids(tenant_id=here.tenant_id, open_only=False) == [here.id]
    assert await ids(job_id=here.job_id) == []
    assert await desk.approvals.find(here.id[:30]) in ([here.id], [here.id, elsewhere.id])
