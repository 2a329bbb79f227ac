"""Channels that a program brings along: `Plane(channels={"teams": …})`."""

from __future__ import annotations

import pytest

from cortex_plane.approvals.messages import Address, ApprovalMessage, ClosedMessage, Sent
from cortex_plane.durable.context import Context
from cortex_plane.errors import InvalidInput
from cortex_plane.plane import Plane
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


class Teams:
    """Keeps what it was given to send."""

    name = "Teams"
    edits = False

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None: ...

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        self.sent.append(to.id)
        return Sent("1", {})


async def test_an_address_of_a_channel_that_is_registered_can_be_linked(plane: TestPlane) -> None:
    await plane.people.add("ann")
    plane.channels["teams"] = Teams()

    linked = await plane.people.link("ann", "teams", "19:abc")

    assert [(one.channel_type, one.channel_user_id) for one in await plane.people.channels("ann")] == [("teams", "19:abc")]
    assert linked.channel_type == "teams"
    with pytest.raises(InvalidInput, match="one of discord, email, slack, teams, telegram, webhook") as refused:
        await plane.people.link("ann", "pager", "1")
    assert refused.value.field == "channel_type"


def test_the_name_of_a_channel_is_checked_when_it_is_registered() -> None:
    with pytest.raises(InvalidInput) as refused:
        Plane(channels={"My Teams": Teams()})

    assert refused.value.field == "channels"


async def test_an_approver_is_told_by_a_channel_of_one_s_own(plane: TestPlane) -> None:
    @plane.agent("gate")
    async def gate(ctx: Context) -> None:
        await ctx.approval("Do it?", approvers="ann")

    teams = Teams()
    plane.channels["teams"] = teams
    await plane.people.add("ann")
    await plane.people.link("ann", "teams", "19:abc")

    await plane.submit("gate")
    await plane.work()

    assert teams.sent == ["19:abc"]
