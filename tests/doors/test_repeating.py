"""Somebody decides, and the answer is lost: whoever repeats their own decision hears that it was made, at every door."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cortex_plane.approvals.decisions import AlreadyDecided, Decided
from tests.doors.house import BULK, CHATS, DOORS, House, Person, Try

pytestmark = pytest.mark.anyio


@pytest.fixture
async def alice(house: House) -> Person:
    return await house.person("alice", "approver")


@pytest.fixture
async def bob(house: House) -> Person:
    return await house.person("bob", "approver")


async def tries(house: House, person: Person, *approvers: Person, **gate: Any) -> dict[str, Try]:
    """One for each door, with the message that they got there."""
    _, request = await house.asked(*approvers, **gate)
    by_chat = {chat: await house.trying(request, person, channel=chat) for chat in CHATS}
    return {door: by_chat[door if door in CHATS else "telegram"] for door in DOORS}


@pytest.mark.parametrize("decision", ["approved", "denied"])
@pytest.mark.parametrize("door", DOORS)
async def test_a_decision_that_is_repeated_is_answered_as_decided(house: House, alice: Person, door: str, decision: str) -> None:
    one = replace((await tries(house, alice, alice))[door], decision=decision)  # type: ignore[arg-type]
    other = replace(one, decision="denied" if decision == "approved" else "approved")

    assert [await DOORS[door](house, one) for _ in range(3)] == ["decided"] * 3
    assert await DOORS[door](house, other) == "already"
    assert await house.audited(one.request_id) == [f"APPROVAL_{decision.upper()}"]


async def test_a_decision_that_is_repeated_at_another_door_is_answered_as_decided(house: House, alice: Person) -> None:
    """No answer came in the chat, so they open the page."""
    knocks = await tries(house, alice, alice)
    await DOORS["telegram"](house, knocks["telegram"])

    answers = {door: await DOORS[door](house, one) for door, one in knocks.items()}

    assert answers == dict.fromkeys(DOORS, "decided")


async def test_a_vote_that_is_repeated_after_others_closed_the_request_is_answered_as_decided(
    house: House, alice: Person, bob: Person
) -> None:
    knocks = await tries(house, alice, alice, bob, quorum=2)
    assert await DOORS["page"](house, knocks["page"]) == "recorded"
    await house.plane.approvals.approve(knocks["page"].request_id, by="bob")

    answers = {door: await DOORS[door](house, one) for door, one in knocks.items()}
    again = await house.plane.approvals.approve(knocks["page"].request_id, by="alice")

    assert answers == dict.fromkeys(DOORS, "decided")
    assert isinstance(again, Decided)
    assert again.by == "Bob"


@pytest.mark.parametrize("door", [door for door in DOORS if door not in BULK])
async def test_a_vote_that_is_repeated_while_others_are_missing_is_answered_as_recorded(
    house: House, alice: Person, bob: Person, door: str
) -> None:
    one = (await tries(house, alice, alice, bob, quorum=2))[door]

    assert [await DOORS[door](house, one) for _ in range(2)] == ["recorded"] * 2


async def test_what_was_not_recorded_is_not_answered_as_decided(house: House, alice: Person, bob: Person) -> None:
    """Another reason, other details, or somebody else's decision."""
    _, request = await house.asked(alice, bob, editable=True)
    approvals = house.plane.approvals
    await approvals.approve(request.id, by="alice", reason="fine", details={"image": "app:1.4.0", "replicas": 2})

    same = await approvals.approve(request.id, by="alice", reason="fine", details={"image": "app:1.4.0", "replicas": 2})
    other_reason = await approvals.approve(
        request.id, by="alice", reason="not really", details={"image": "app:1.4.0", "replicas": 2}
    )
    other_details = await approvals.approve(request.id, by="alice", reason="fine", details={"image": "app:1.4.0", "replicas": 9})
    as_shown = await approvals.approve(request.id, by="alice")
    somebody_else = await approvals.approve(request.id, by="bob")

    assert isinstance(same, Decided)
    assert all(isinstance(answer, AlreadyDecided) for answer in (other_reason, other_details, as_shown, somebody_else))
