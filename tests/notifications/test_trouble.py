"""Services that hang, are busy, break or refuse, and workers that die: the others are told, and in the end everybody is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from cortex_plane import JobStatus
from cortex_plane.approvals.channels import TelegramChannel
from cortex_plane.approvals.channels.base import Channel
from cortex_plane.approvals.decisions import Decided, Expired, Unknown
from cortex_plane.approvals.messages import Address, ApprovalMessage, ClosedMessage, Sent
from cortex_plane.approvals.model import NOTIFY_AGENT
from cortex_plane.approvals.notify import notify_agent
from cortex_plane.approvals.service import get_by_token, remind_approval
from cortex_plane.durable.context import Context
from cortex_plane.errors import InvalidInput
from cortex_plane.http_client import HttpxClient
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId, RunId
from cortex_plane.people.model import ChannelId
from cortex_plane.people.users import disable_user, unlink_channel
from cortex_plane.testing.crashes import SimulatedCrash
from cortex_plane.webhooks.delivery import redeliver_failed
from cortex_plane.worker.failures import PermanentFailure
from tests.adapters.channels.server import HANG, raw, raw_json
from tests.adapters.channels.telegram_fake import BOT_TOKEN
from tests.notifications.office import Office
from tests.runtime.helpers import eventually, status_becomes, working

pytestmark = pytest.mark.anyio

BROKEN = raw(500, b"oops")
Moment = Callable[[], Awaitable[None]]


@dataclass
class Interrupted:
    """A channel with something that happens before a message is sent, or after; each once."""

    channel: Channel
    before: Moment | None = None
    after: Moment | None = None
    name: str = "telegram"
    edits: bool = True

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        before, self.before = self.before, None
        if before is not None:
            await before()
        sent = await self.channel.send(message, to)
        after, self.after = self.after, None
        if after is not None:
            await after()
        return sent

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        await self.channel.edit(sent, closed)


def telegram(office: Office, **options: Any) -> TelegramChannel:
    return TelegramChannel(HttpxClient(), BOT_TOKEN, office.services.telegram.url, allow_private=True, **options)


def telegram_messages(office: Office) -> list[str]:
    fake: Any = office.services.telegram.fake
    return [str(message) for message in fake.messages.values()]


# -- services ------------------------------------------------------------------------------------


async def test_a_service_that_hangs_holds_up_neither_the_others_nor_the_job(office: Office) -> None:
    await office.person("alice", "telegram", "slack", "email")
    office.plane.channels["telegram"] = telegram(office, timeout_seconds=30.0)
    office.services.telegram.instead.append(HANG)
    job = await office.release.submit(gate={"approvers": ["alice"]})

    async def the_others_were_told() -> bool:
        return all(office.services.tokens(service) for service in ("telegram", "slack", "email"))

    async with working(office.plane):
        await eventually(the_others_were_told)
        await office.decide(job, await office.user("alice"))
        await status_becomes(job, JobStatus.COMPLETED)
        assert [part.status for part in await office.parts(purpose="ask")].count(JobStatus.RUNNING) == 1
        office.services.telegram.hang_up()


async def test_a_service_that_does_not_answer_is_asked_again(office: Office) -> None:
    await office.person("alice", "telegram")
    office.plane.channels["telegram"] = telegram(office, timeout_seconds=0.2)
    office.services.telegram.instead.append(HANG)
    job = await office.asked("alice")
    [waiting] = await office.parts()
    assert (waiting.status, waiting.retry_count) == (JobStatus.RETRY, 1)
    assert "did not answer within 0.2 s" in waiting.error["message"]
    [unsent] = await office.told(job)
    assert (unsent.to, unsent.channel, unsent.sent_at, unsent.message_id) == ("Alice", "telegram", None, None)
    assert "did not answer within 0.2 s" in str(unsent.error)

    await office.clock.advance(seconds=5)
    await office.plane.work()

    [sent] = await office.told(job)
    assert (sent.error, sent.sent_at, sent.message_id is None) == (None, office.clock.moment(), False)
    assert isinstance(await office.click("telegram"), Decided)


async def test_a_reminder_that_cannot_be_delivered_leaves_the_link_that_arrived_valid(office: Office) -> None:
    await office.person("alice", "telegram")
    job = await office.asked("alice", remind=600)
    office.services.telegram.instead.extend([BROKEN] * 100)
    for _ in range(3):
        await office.clock.advance(seconds=600)
        await office.plane.work()

    answer = await office.click("telegram", which=0)

    assert isinstance(answer, Decided)
    assert await job.result() == "approved"


async def test_of_two_messages_that_are_sent_at_once_the_one_that_arrives_last_still_decides(office: Office) -> None:
    """The first message is on its way when a reminder overtakes it: each had a token that was newer than the other's delivery."""
    await office.person("alice", "telegram")

    async def overtaken() -> None:
        [request] = await office.store.approvals.list(open_only=True)
        await remind_approval(office.store, request.id)

        async def recorded() -> bool:
            return len((await office.store.approvals.get(request.id)).notifications) == 1  # type: ignore[union-attr]

        await eventually(recorded)

    office.plane.channels["telegram"] = Interrupted(telegram(office), before=overtaken)
    job = await office.asked("alice")
    assert len(telegram_messages(office)) == 2

    answer = await office.click("telegram")

    assert isinstance(answer, Decided)
    assert await job.result() == "approved"


async def test_a_link_that_arrived_stays_valid_through_a_worker_that_dies_over_a_reminder(office: Office) -> None:
    await office.person("alice", "telegram")
    job = await office.asked("alice", remind=600)
    await office.clock.advance(seconds=600)

    async def die() -> None:
        for worker in office.plane._workers:
            worker.die()
        raise SimulatedCrash

    office.plane.channels["telegram"] = Interrupted(telegram(office), before=die)
    await office.plane.work()

    assert len(telegram_messages(office)) == 1
    assert isinstance(await office.click("telegram", which=0), Decided)
    assert await job.result() == "approved"


async def test_a_link_that_arrived_says_that_the_request_has_expired_though_a_reminder_failed(office: Office) -> None:
    await office.person("alice", "telegram")
    await office.asked("alice", ttl=1200, remind=600)
    office.services.telegram.instead.extend([BROKEN] * 100)
    await office.clock.advance(seconds=600)
    await office.plane.work()
    await office.clock.advance(seconds=600)

    assert isinstance(await office.click("telegram", which=0), Expired)


@pytest.mark.parametrize("service", ["email", "webhook"])
async def test_a_worker_without_the_setting_of_a_channel_plans_one_closing_message_for_each_address(
    office: Office, service: str
) -> None:
    """They fail there, and are tried again when the setting is back: each would be sent."""
    alice = await office.person("alice", service)
    job = await office.asked("alice", remind=600)
    for _ in range(10):
        await office.clock.advance(seconds=600)
        await office.plane.work()
    await office.decide(job, alice)
    [settling] = await office.notices(purpose="settle")

    planned = await notify_agent(office.store, {}, "https://plane.example.com").handler(context(settling.id), **settling.payload)

    assert planned == {"submitted": 1}
    await office.plane.work()
    sent = office.services.emails_to("alice") if service == "email" else office.services.events()
    assert len(sent) == 11 + 1


async def test_a_busy_service_is_left_alone_as_long_as_it_says(office: Office) -> None:
    await office.person("alice", "telegram")
    busy = raw_json(429, {"ok": False, "error_code": 429, "description": "Too Many", "parameters": {"retry_after": 7200}})
    office.services.telegram.instead.append(busy)
    await office.asked("alice")
    [waiting] = await office.parts()
    assert (waiting.status, waiting.error["message"]) == (JobStatus.RETRY, "Telegram asks to wait 7200 s.")

    await office.clock.advance(seconds=7199)
    await office.plane.work()
    assert len(office.services.telegram.requests) == 1

    await office.clock.advance(seconds=1)
    await office.plane.work()

    assert len(telegram_messages(office)) == 1


async def test_a_service_that_is_busy_for_no_time_at_all_is_not_asked_without_a_pause(office: Office) -> None:
    await office.person("alice", "telegram")
    busy = raw_json(429, {"ok": False, "error_code": 429, "description": "Too Many", "parameters": {"retry_after": 0}})
    office.services.telegram.instead.extend([busy] * 1000)
    await office.asked("alice")
    assert len(office.services.telegram.requests) == 1

    for _ in range(60):
        await office.clock.advance(minutes=1)
        await office.plane.work()
    assert len(office.services.telegram.requests) <= 50

    office.services.telegram.instead.clear()
    await office.clock.advance(minutes=15)
    await office.plane.work()
    assert len(telegram_messages(office)) == 1


async def test_a_mail_server_that_greylists_gets_the_message_once_when_it_takes_it(office: Office) -> None:
    await office.person("alice", "email")
    office.services.mail.replies["RCPT"] = "450 4.2.0 Greylisted, see later"
    await office.asked("alice")
    [waiting] = await office.parts()
    assert (waiting.status, "Greylisted" in waiting.error["message"]) == (JobStatus.RETRY, True)

    for _ in range(5):
        await office.clock.advance(minutes=1)
        await office.plane.work()
    office.services.mail.replies.clear()
    await office.clock.advance(minutes=15)
    await office.plane.work()

    assert len(office.services.emails_to("alice")) == 1
    assert isinstance(await office.click("email"), Decided)


async def test_whoever_could_not_be_told_is_told_when_the_cause_is_gone(office: Office) -> None:
    await office.person("alice", "telegram")
    refusal = {"ok": False, "error_code": 403, "description": "Forbidden: bot was blocked by the user"}
    office.services.telegram.instead.append(raw_json(403, refusal))
    job = await office.asked("alice")
    [part] = await office.parts()
    assert part.status is JobStatus.FAILED

    await office.clock.advance(minutes=5)
    assert await redeliver_failed(office.store, new_id) == 1
    await office.plane.work()

    assert len(telegram_messages(office)) == 1
    assert isinstance(await office.click("telegram"), Decided)
    assert await job.result() == "approved"


async def test_a_service_that_is_broken_for_an_hour_is_reached_afterwards(office: Office) -> None:
    await office.person("alice", "telegram", "email")
    office.services.telegram.instead.extend([BROKEN] * 1000)
    await office.asked("alice")
    assert len(office.services.emails_to("alice")) == 1
    for _ in range(60):
        await office.clock.advance(minutes=1)
        await office.plane.work()
    attempts = len(office.services.telegram.requests)
    assert telegram_messages(office) == []
    assert attempts <= 50

    office.services.telegram.instead.clear()
    await office.clock.advance(minutes=15)
    await office.plane.work()

    assert len(telegram_messages(office)) == 1
    assert len(office.services.emails_to("alice")) == 1
    assert isinstance(await office.click("telegram"), Decided)


async def test_a_refusal_is_final_and_says_what_to_do(office: Office) -> None:
    await office.person("alice", "telegram", "email")
    refusal = {"ok": False, "error_code": 403, "description": "Forbidden: bot was blocked by the user"}
    office.services.telegram.instead.append(raw_json(403, refusal))
    job = await office.asked("alice")

    [failed] = [part for part in await office.parts() if part.status is JobStatus.FAILED]
    assert failed.retry_count == 0
    assert "must open a chat with the bot and press Start" in str(failed.error_message)
    told = {one.channel: one.error for one in await office.told(job)}
    assert told == {"email": None, "telegram": failed.error_message}
    assert len(office.services.emails_to("alice")) == 1
    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL


@pytest.mark.parametrize(
    ("service", "setting"),
    [
        ("telegram", "CORTEX_TELEGRAM_BOT_TOKEN"),
        ("discord", "CORTEX_DISCORD_BOT_TOKEN"),
        ("slack", "CORTEX_SLACK_BOT_TOKEN"),
        ("email", "CORTEX_SMTP_URL"),
    ],
)
async def test_a_channel_that_is_not_configured_names_its_setting(office: Office, service: str, setting: str) -> None:
    await office.person("alice", service)
    code = notify_agent(office.store, {}, "https://plane.example.com")
    job = await office.asked("alice")
    [part] = await office.parts()

    with pytest.raises(PermanentFailure, match=f"Set {setting} for all workers, then run: cortex jobs retry {part.id}"):
        await code.handler(context(part.id), **part.payload)
    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL


async def test_a_message_that_cannot_be_edited_for_now_keeps_no_other_back(office: Office) -> None:
    await office.person("alice", "telegram", "slack")
    await office.asked("alice")
    office.services.telegram.instead.append(BROKEN)
    await office.click("slack")
    assert "Approved by Alice" in office.services.shown("slack")
    assert "Approved by Alice" not in office.services.shown("telegram")

    await office.clock.advance(seconds=5)
    await office.plane.work()

    assert "Approved by Alice" in office.services.shown("telegram")


async def test_a_message_that_was_deleted_is_let_go(office: Office) -> None:
    await office.person("alice", "telegram", "slack")
    await office.asked("alice")
    fake: Any = office.services.telegram.fake
    fake.messages.clear()
    await office.click("slack")

    failed = [part for part in await office.parts(purpose="settle") if part.status is JobStatus.FAILED]
    assert [part.retry_count for part in failed] == [0]
    assert "message to edit not found" in str(failed[0].error_message)


# -- races and crashes ---------------------------------------------------------------------------


async def test_a_token_is_known_before_its_message_is_sent(office: Office) -> None:
    await office.person("alice", "telegram")
    seen: list[bool] = []

    class Looking(Interrupted):
        async def send(self, message: ApprovalMessage, to: Address) -> Sent:
            seen.append(await get_by_token(office.store, message.token) is not None)
            return await super().send(message, to)

    office.plane.channels["telegram"] = Looking(telegram(office))
    await office.asked("alice")

    assert seen == [True]


async def everybody_heard(office: Office) -> bool:
    """Of all messages that are known; the one that is being sent is not."""
    return [notice.status for notice in await office.notices(purpose="settle")] == [JobStatus.COMPLETED]


async def test_a_message_that_is_sent_while_somebody_decides_is_edited_at_once(office: Office) -> None:
    alice = await office.person("alice", "telegram")

    async def decided() -> None:
        [request] = await office.store.approvals.list(open_only=True)
        answer = await office.store.approvals.decide(request.id, alice.id, "approved", door="page")
        assert isinstance(answer, Decided)
        await eventually(partial(everybody_heard, office))

    office.plane.channels["telegram"] = Interrupted(telegram(office), after=decided)
    await office.asked("alice")

    [message] = telegram_messages(office)
    assert "Approved by Alice" in message
    assert await sends(office) == 1


async def sends(office: Office) -> int:
    """Notification jobs whose output reports a sent message."""
    return sum(1 for notice in await office.notices() if (notice.output or {}).get("sent"))


async def test_an_edit_that_fails_right_then_is_tried_again(office: Office) -> None:
    alice = await office.person("alice", "telegram")

    async def decided() -> None:
        [request] = await office.store.approvals.list(open_only=True)
        await office.store.approvals.decide(request.id, alice.id, "approved", door="page")
        await eventually(partial(everybody_heard, office))
        office.services.telegram.instead.append(BROKEN)

    office.plane.channels["telegram"] = Interrupted(telegram(office), after=decided)
    await office.asked("alice")
    await office.clock.advance(seconds=5)
    await office.plane.work()

    [message] = telegram_messages(office)
    assert "Approved by Alice" in message


async def test_a_request_that_was_closed_before_anything_was_sent_is_not_sent(office: Office) -> None:
    await office.person("alice", "telegram")
    office.services.telegram.instead.append(BROKEN)
    job = await office.asked("alice")
    await office.plane.jobs.cancel(job.id)
    await office.clock.advance(seconds=5)
    await office.plane.work()

    assert telegram_messages(office) == []
    assert {notice.status for notice in await office.notices()} == {JobStatus.COMPLETED}


@pytest.mark.parametrize(("moment", "messages"), [("before", 1), ("after", 2)])
async def test_a_worker_that_dies_leaves_a_message_that_works_in_the_end(office: Office, moment: str, messages: int) -> None:
    """Before: the token is committed and nothing sent. After: the message is sent and nobody knows of it."""
    await office.person("alice", "telegram")

    async def die() -> None:
        for worker in office.plane._workers:
            worker.die()
        raise SimulatedCrash

    interrupted = Interrupted(telegram(office))
    setattr(interrupted, moment, die)
    office.plane.channels["telegram"] = interrupted
    job = await office.asked("alice")
    [crashed] = await office.parts()
    assert crashed.status is JobStatus.RUNNING
    await office.plane.work()

    assert len(telegram_messages(office)) == messages
    tokens = office.services.tokens("telegram")
    assert len(tokens) == messages
    for old in range(messages - 1):
        assert isinstance(await office.click("telegram", which=old), Unknown)
    assert isinstance(await office.click("telegram"), Decided)
    assert await job.result() == "approved"
    assert "Approved by Alice" in telegram_messages(office)[-1]


def context(job_id: str) -> Context:
    return Context(JobId(job_id), RunId(job_id), NOTIFY_AGENT, "cortex", 1)


async def test_doing_everything_twice_changes_nothing(office: Office) -> None:
    await office.person("alice", "telegram", "slack")
    await office.asked("alice")
    await office.click("slack")
    code = notify_agent(office.store, office.plane.channels, "https://plane.example.com")
    before = [(notice.id, notice.revision) for notice in await office.notices()]

    for notice in await office.notices():
        if "message" not in notice.payload:
            await code.handler(context(notice.id), **notice.payload)

    assert [(notice.id, notice.revision) for notice in await office.notices()] == before


async def test_an_open_request_is_fanned_out_once(office: Office) -> None:
    await office.person("alice", "telegram", "slack")
    await office.asked("alice")
    code = notify_agent(office.store, office.plane.channels, "https://plane.example.com")
    [whole] = [notice for notice in await office.notices() if "channel_id" not in notice.payload]
    before = len(await office.notices())

    assert await code.handler(context(whole.id), **whole.payload) == {"submitted": 2}

    assert len(await office.notices()) == before == 3


# -- who is not told -----------------------------------------------------------------------------


async def test_whoever_was_disabled_or_unlinked_meanwhile_is_not_asked(office: Office) -> None:
    await office.person("alice", "telegram")
    await office.person("bob", "email")
    office.services.telegram.instead.append(BROKEN)
    office.services.mail.replies["connect"] = "421 Busy"
    await office.asked("alice", "bob")
    await disable_user(office.store, "bob")
    [link] = await office.store.people.channels((await office.user("alice")).id)
    await unlink_channel(office.store, "alice", ChannelId(link.id))
    del office.services.mail.replies["connect"]
    await office.clock.advance(seconds=5)
    await office.plane.work()

    assert telegram_messages(office) == []
    assert office.services.mail.envelopes == []
    assert {notice.status for notice in await office.notices()} == {JobStatus.COMPLETED}


class Chatty:
    """A channel of somebody's own that says more than it should."""

    name = "telegram"
    edits = True

    def __init__(self, error: type[Exception]) -> None:
        self.error = error
        self.token = ""

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        self.token = message.token
        raise self.error(f"cannot send {message.token} by {message.page_url}")

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        raise AssertionError


@pytest.mark.parametrize("error", [ValueError, InvalidInput])
async def test_a_token_is_not_repeated_in_what_a_channel_of_ones_own_raises(office: Office, error: type[Exception]) -> None:
    await office.person("alice", "telegram")
    chatty = Chatty(error)
    office.plane.channels["telegram"] = chatty
    await office.asked("alice")

    [waiting] = await office.parts()
    assert waiting.status is JobStatus.RETRY
    assert "cannot send [hidden] by https://plane.example.com/approvals/[hidden]" in waiting.error["message"]
    assert chatty.token not in str(waiting)
