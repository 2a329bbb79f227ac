"""Every door, and every reason to refuse: the same answer wherever somebody knocks, and nothing changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from cortex_plane.approvals.decisions import mint
from cortex_plane.approvals.model import ApprovalRequest
from tests.contract.support import Raw
from tests.doors.house import BY_TOKEN, CHATS, DOORS, House, Person, Try

pytestmark = pytest.mark.anyio


class Case:
    """A request to alice, and whoever else comes to it."""

    def __init__(self, house: House, raw: Raw, alice: Person, bob: Person) -> None:
        self.house, self.raw, self.alice, self.bob = house, raw, alice, bob

    async def trying(self, request: ApprovalRequest, door: str, person: Person | None = None) -> Try:
        return await self.house.trying(request, person or self.alice, channel=door if door in CHATS else "telegram")


Refusal = Callable[[Case, str], Awaitable[Try]]


async def already(case: Case, door: str) -> Try:
    _, request = await case.house.asked(case.alice, case.bob)
    one = await case.trying(request, door)
    await case.house.plane.approvals.deny(request.id, by=case.bob.name)
    return one


async def expired(case: Case, door: str) -> Try:
    _, request = await case.house.asked(case.alice, ttl=60)
    one = await case.trying(request, door)
    await case.house.plane.clock.advance(seconds=60)
    return one


async def expired_and_ended(case: Case, door: str) -> Try:
    one = await expired(case, door)
    assert await case.house.store.approvals.expire(10) == 1
    return one


async def withdrawn(case: Case, door: str) -> Try:
    job, request = await case.house.asked(case.alice)
    one = await case.trying(request, door)
    await job.cancel()
    return one


async def disabled(case: Case, door: str) -> Try:
    """Their key stops working as well, so that by name only the command line is left."""
    _, request = await case.house.asked(case.alice)
    one = await case.trying(request, door)
    await case.house.plane.people.disable(case.alice.name)
    return one


async def not_asked(case: Case, door: str) -> Try:
    """They were asked when the message was sent, by a group that they have left since."""
    people, name = case.house.plane.people, case.alice.name
    await people.add_group(f"friends of {name}")
    await people.join(f"friends of {name}", name)
    _, request = await case.house.asked(approvers=f"group:friends of {name}")
    one = await case.trying(request, door)
    await people.leave(f"friends of {name}", name)
    return one


async def own_job(case: Case, door: str) -> Try:
    session = await case.house.plane.people.start_session(case.alice.name)
    _, request = await case.house.asked(case.alice, job={"session": session.id}, no_self_approval=True)
    return await case.trying(request, door)


async def only_an_admin(case: Case, door: str) -> Try:
    """Nobody is named, and they manage people without having the role to decide."""
    _, request = await case.house.asked()
    one = await case.trying(request, door)
    await case.house.plane.access.take_role(case.alice.name, "approver", tenant="default")
    await case.house.plane.access.give_role(case.alice.name, "admin", tenant="default")
    return one


async def own_by_a_key(case: Case, door: str) -> Try:
    """Submitted by a key of a service account, which they have made."""
    added = await case.house.plane.access.add_key("ci", ["submitter"], tenant="default", actor=f"user:{case.alice.name}")
    credential = await case.house.plane.access.by_key(added.secret)
    assert credential is not None
    _, request = await case.house.asked(case.alice, job={"created_by": credential.name}, no_self_approval=True)
    return await case.trying(request, door)


async def another_vote(case: Case, door: str) -> Try:
    _, request = await case.house.asked(case.alice, case.bob, quorum=2)
    one = await case.trying(request, door)
    await case.house.plane.approvals.approve(request.id, by=case.alice.name)
    return replace(one, decision="denied")


async def not_as_shown(case: Case, door: str) -> Try:
    """Somebody has changed the stored request behind our back."""
    _, request = await case.house.asked(case.alice)
    one = await case.trying(request, door)
    if case.raw.kind == "sqlite":
        await case.raw("drop trigger if exists approval_as_shown")
    else:
        await case.raw("alter table cortex.approval_request disable trigger approval_as_shown")
    await case.raw("update cortex.approval_request set action_summary = 'Deploy nothing'")
    return one


async def unknown(case: Case, door: str) -> Try:
    _, request = await case.house.asked(case.alice)
    one = await case.trying(request, door)
    return replace(one, token=mint(bytes(32)).plaintext, request_id="0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60")


async def malformed(case: Case, door: str) -> Try:
    return replace(await unknown(case, door), token="cortex_apr_1_" + "x" * 43)


async def replaced(case: Case, door: str) -> Try:
    """A reminder was sent; the first message is a dead letter."""
    _, request = await case.house.asked(case.alice)
    one = await case.trying(request, door)
    await case.trying(request, door)
    return one


async def of_another(case: Case, door: str) -> Try:
    """In a chat the button of a message to alice, pressed by bob."""
    _, request = await case.house.asked(case.alice, case.bob)
    return replace(await case.trying(request, door), person=case.bob)


TABLE: dict[str, tuple[Refusal, str, set[str]]] = {
    "already decided": (already, "already", set(DOORS)),
    "too late, by the clock": (expired, "expired", set(DOORS)),
    "too late, and ended": (expired_and_ended, "expired", set(DOORS)),
    "the job was cancelled": (withdrawn, "withdrawn", set(DOORS)),
    "the account is disabled": (disabled, "unknown", set(BY_TOKEN)),
    "the account is disabled, by name": (disabled, "not allowed", {"command line"}),
    "not asked any more": (not_asked, "not allowed", set(DOORS)),
    "their own job": (own_job, "not allowed", set(DOORS)),
    "their own job, by a key": (own_by_a_key, "not allowed", set(DOORS)),
    "an admin without the role": (only_an_admin, "not allowed", set(DOORS)),
    "they have voted otherwise": (another_vote, "not allowed", set(DOORS)),
    "it is not what was shown": (not_as_shown, "not allowed", set(DOORS)),
    "unknown": (unknown, "unknown", set(DOORS)),
    "malformed": (malformed, "unknown", set(BY_TOKEN) - set(CHATS)),
    "replaced by a newer message": (replaced, "unknown", set(BY_TOKEN)),
    "pressed by somebody else": (of_another, "not allowed", set(CHATS)),
}


@pytest.mark.parametrize("reason", TABLE)
async def test_whoever_may_not_decide_is_told_why_at_every_door_and_changes_nothing(house: House, raw: Raw, reason: str) -> None:
    refusal, expected, doors = TABLE[reason]
    for number, door in enumerate(sorted(doors)):
        alice = await house.person(f"alice{number}", "approver", "viewer")
        bob = await house.person(f"bob{number}", "approver", "viewer")
        case = Case(house, raw, alice, bob)
        one = await refusal(case, door)
        before = await state(raw)

        answer = await DOORS[door](house, one)

        assert answer == expected, door
        assert await state(raw) == before, door


async def state(raw: Raw) -> list[object]:
    jobs = await raw("select id, status, run_id from cortex.job order by id")
    requests = await raw("select id, decision, outcome, used_at from cortex.approval_request order by id")
    votes = await raw("select approval_request_id, user_account_id, decision from cortex.approval_vote order by 1, 2")
    return [*map(tuple, jobs), *map(tuple, requests), *map(tuple, votes)]
