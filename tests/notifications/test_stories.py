"""From the question to the edited message, on all five services."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cortex_plane import JobStatus
from cortex_plane.approvals.decisions import AlreadyDecided, Decided
from tests.notifications.office import ALL, PUBLIC_URL, Office

pytestmark = pytest.mark.anyio


async def test_an_approver_is_asked_on_all_their_channels(office: Office) -> None:
    await office.person("alice", *ALL)
    job = await office.asked("alice")

    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL
    for service in ALL:
        assert "Deploy 1.4.0 to production" in office.services.shown(service)
        [token] = office.services.tokens(service)
        assert f"{PUBLIC_URL}/approvals/{token}" in office.services.shown(service)
    assert len({office.services.tokens(service)[0] for service in ALL}) == len(ALL)
    assert len((await office.request(job)).notifications) == len(ALL)
    assert {notice.status for notice in await office.notices()} == {JobStatus.COMPLETED}


@pytest.mark.parametrize("service", ALL)
async def test_a_click_on_any_of_them_decides_and_all_messages_say_so(office: Office, service: str) -> None:
    await office.person("alice", *ALL)
    job = await office.asked("alice")
    answer = await office.click(service)

    assert isinstance(answer, Decided)
    assert await job.result() == "approved"
    for other in ALL:
        shown = office.services.shown(other)
        assert "Approved by Alice" in shown or ("approval.closed" in shown and "'by': 'Alice'" in shown)
        assert not office.services.tokens(other)[1:]
        assert "callback_data" not in shown


async def test_a_denial_is_shown_with_its_reason(office: Office) -> None:
    await office.person("alice", *ALL)
    job = await office.asked("alice")
    await office.click("slack", "denied", reason="Not on a Friday")

    assert await job.status() is JobStatus.FAILED
    for service in ALL:
        assert "Not on a Friday" in office.services.shown(service).replace("\\\\", "")


async def test_what_nobody_decides_expires_and_all_messages_say_so(office: Office) -> None:
    await office.person("alice", *ALL)
    job = await office.asked("alice", ttl=3600)
    await office.clock.advance(seconds=3599)
    await office.plane.work()
    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL

    await office.clock.advance(seconds=1)
    await office.plane.work()

    assert await job.status() is JobStatus.FAILED
    for service in ALL:
        assert "xpired" in office.services.shown(service)


async def test_a_job_that_is_cancelled_takes_its_question_back(office: Office) -> None:
    await office.person("alice", *ALL)
    job = await office.asked("alice")
    await office.plane.jobs.cancel(job.id)
    await office.plane.work()

    for service in ALL:
        assert "ancelled" in office.services.shown(service)


async def test_everybody_who_was_asked_hears_how_it_ended(office: Office) -> None:
    await office.person("alice", "email")
    await office.person("bob", "email", "slack")
    await office.asked("alice", "bob")
    await office.click("slack")

    for name in ("alice", "bob"):
        assert "Approved by Bob" in office.services.emails_to(name)[-1]
    assert isinstance(await office.click("email", "denied", which=0), AlreadyDecided)


async def test_the_missing_votes_of_a_quorum_are_said(office: Office) -> None:
    await office.person("alice", "email")
    await office.person("bob", "email")
    await office.asked("alice", "bob", quorum=2)

    assert "2 approvals are needed; 0 so far." in office.services.emails_to("alice")[0]


# -- reminders and escalation --------------------------------------------------------------------


async def test_a_reminder_reaches_those_who_have_not_voted(office: Office) -> None:
    alice = await office.person("alice", "email")
    await office.person("bob", "email")
    job = await office.asked("alice", "bob", quorum=2, remind=600)
    await office.decide(job, alice)
    await office.clock.advance(seconds=600)
    await office.plane.work()

    assert len(office.services.emails_to("alice")) == 1
    assert [email.splitlines()[0] for email in office.services.emails_to("bob")] == [
        "Approval needed: Deploy 1.4.0 to production",
        "Approval needed: Reminder: Deploy 1.4.0 to production",
    ]
    assert "2 approvals are needed; 1 so far." in office.services.emails_to("bob")[1]


@pytest.mark.parametrize("service", ["email", "webhook"])
async def test_where_messages_cannot_be_edited_one_message_says_how_it_ended(office: Office, service: str) -> None:
    alice = await office.person("alice", service)
    job = await office.asked("alice", remind=600)
    for _ in range(3):
        await office.clock.advance(seconds=600)
        await office.plane.work()

    await office.decide(job, alice)
    await office.plane.work()

    sent = office.services.emails_to("alice") if service == "email" else office.services.events()
    assert len(sent) == 4 + 1
    assert "pproved" in str(sent[-1])


async def test_reminders_of_each_person_count_from_when_that_person_was_asked(office: Office) -> None:
    await office.person("alice", "email")
    await office.person("boss", "email")
    await office.asked("alice", ttl=7200, remind=600, escalate={"to": "boss", "after": 590})
    reminders: dict[str, list[int]] = {"alice": [], "boss": []}
    for second in range(10, 1810, 10):
        await office.clock.advance(seconds=10)
        await office.plane.work()
        for name, when in reminders.items():
            said = sum("Reminder:" in email for email in office.services.emails_to(name))
            when.extend([second] * (said - len(when)))

    assert reminders == {"alice": [600, 1200, 1800], "boss": [1190, 1790]}


async def test_somebody_who_is_asked_twice_is_reminded_as_one_person(office: Office) -> None:
    """By name, and later as one of the group to which it is escalated."""
    await office.person("alice", "email")
    await office.person("boss", "email")
    await office.plane.people.add_group("leads")
    for name in ("alice", "boss"):
        await office.plane.people.join("leads", name)
    await office.asked("alice", ttl=7200, remind=600, escalate={"to": "group:leads", "after": 590})
    reminders: dict[str, list[int]] = {"alice": [], "boss": []}
    for second in range(10, 1810, 10):
        await office.clock.advance(seconds=10)
        await office.plane.work()
        for name, when in reminders.items():
            said = sum("Reminder:" in email for email in office.services.emails_to(name))
            when.extend([second] * (said - len(when)))

    assert reminders["boss"] == [1190, 1790]
    assert [later - sooner for sooner, later in pairwise([590, *reminders["alice"]])] == [600, 600]


async def test_whoever_may_approve_is_not_reminded_because_of_an_escalation(office: Office) -> None:
    await office.person("alice", "email")
    await office.plane.access.give_role("alice", "approver", tenant="default")
    await office.person("boss", "email")
    await office.asked(ttl=7200, remind=600, escalate={"to": "boss", "after": 10}, approvers=None)
    reminders: dict[str, list[int]] = {"alice": [], "boss": []}
    for second in range(10, 1310, 10):
        await office.clock.advance(seconds=10)
        await office.plane.work()
        for name, when in reminders.items():
            said = sum("Reminder:" in email for email in office.services.emails_to(name))
            when.extend([second] * (said - len(when)))

    assert reminders == {"alice": [600, 1200], "boss": [610, 1210]}


async def test_only_the_newest_message_decides_and_all_are_edited(office: Office) -> None:
    await office.person("alice", "telegram")
    job = await office.asked("alice", remind=600)
    await office.clock.advance(seconds=600)
    await office.plane.work()
    old, _ = office.services.tokens("telegram")
    await office.click("telegram", which=0)
    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL

    await office.click("telegram")

    assert await job.result() == "approved"
    fake = office.services.telegram.fake
    assert ["Approved by Alice" in str(message) for message in fake.messages.values()] == [True, True]  # type: ignore[attr-defined]
    assert old not in str(fake.messages)  # type: ignore[attr-defined]


async def test_an_escalation_reaches_those_it_names_and_they_may_decide(office: Office) -> None:
    await office.person("alice", "email")
    boss = await office.person("boss", "email")
    job = await office.asked("alice", escalate={"to": "boss", "after": 1800})
    await office.clock.advance(seconds=1799)
    await office.plane.work()
    assert office.services.emails_to("boss") == []

    await office.clock.advance(seconds=1)
    await office.plane.work()

    [email] = office.services.emails_to("boss")
    assert email.startswith("Approval needed: Escalated to you: Deploy 1.4.0")
    assert len(office.services.emails_to("alice")) == 1
    assert isinstance(await office.decide(job, boss), Decided)
    await office.plane.work()
    assert "Approved by Boss" in office.services.emails_to("alice")[-1]
    assert "Approved by Boss" in office.services.emails_to("boss")[-1]
