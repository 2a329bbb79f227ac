"""The process that notifies is killed while it speaks to a service: the approver still gets a message that works."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from cortex_plane.approvals.decisions import Decided, Unknown
from cortex_plane.approvals.service import decide_by_token
from cortex_plane.ids import new_id
from cortex_plane.jobs.states import JobStatus
from cortex_plane.people.users import add_user, link_channel
from tests.adapters.channels.server import Said, served
from tests.adapters.channels.telegram_fake import BOT_TOKEN, CHAT_ID, Telegram
from tests.built_in.fakes import Request
from tests.end_to_end.fleet import Fleet
from tests.end_to_end.inspection import broken_rules
from tests.notifications.office import TOKEN
from tests.runtime.helpers import eventually, status_becomes

pytestmark = pytest.mark.anyio

RECORDED = "select count(*) = 1 from cortex.approval_request where cast(notification_channels as text) like '%message_id%'"


class Deadly(Telegram):
    """Kills whoever sends the first message: before it is taken, or when it is taken and nobody has been told so."""

    def __init__(self, moment: str) -> None:
        super().__init__()
        self.moment, self.victim = moment, 0
        self.tokens: list[str] = []

    def __call__(self, request: Request) -> Said:
        victim, self.victim = self.victim, 0
        self.tokens += dict.fromkeys(TOKEN.findall(request.body.decode()))
        if victim and self.moment == "before":
            os.kill(victim, signal.SIGKILL)
            return 500, {}
        said = super().__call__(request)
        if victim:
            os.kill(victim, signal.SIGKILL)
        return said


@pytest.mark.parametrize(("moment", "messages"), [("before", 1), ("after", 2)])
async def test_the_approver_gets_a_message_that_works_in_the_end(fleet: Fleet, moment: str, messages: int) -> None:
    fake = Deadly(moment)
    async with served(fake) as server, fleet.plane() as plane:
        settings: dict[str, Any] = {"telegram_url": server.url, "telegram_bot_token": BOT_TOKEN, "telegram_webhook_secret": "x"}
        store = plane.store
        await add_user(store, new_id, "alice", display_name="Alice")
        await link_channel(store, new_id, "alice", "telegram", str(CHAT_ID))
        job = await plane.submit("asking", {"approver": "alice"})
        victim = fleet.start(settings=settings)
        fake.victim = victim.pid
        await fleet.dies(victim)

        fleet.start(settings=settings)
        await fleet.until(RECORDED)

        assert len(fake.messages) == messages
        assert len(fake.tokens) == 2
        old, new = fake.tokens
        assert isinstance(await decide_by_token(store, old, "approved", door="telegram"), Unknown)
        assert isinstance(await decide_by_token(store, new, "approved", door="telegram"), Decided)
        await status_becomes(job, JobStatus.COMPLETED)

        async def edited() -> bool:
            return "Approved by Alice" in fake.messages[messages]["text"]

        await eventually(edited)
        assert await broken_rules(fleet.url) == {}
