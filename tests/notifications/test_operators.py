"""Operators are told, in their channels, of jobs that cannot go on without them."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane import Context, InvalidInput
from cortex_plane.testing import TestPlane
from cortex_plane.webhooks.model import QUIET_SECONDS, WEBHOOK_AGENT
from tests.adapters.channels import slack_fake, telegram_fake
from tests.notifications.office import Office

pytestmark = pytest.mark.anyio


async def pay() -> None:
    raise TimeoutError("no answer")


def deploy(plane: TestPlane, tool: str) -> Any:
    async def work() -> str:
        return tool

    @plane.agent("shop")
    async def shop(ctx: Context) -> str:
        done = str(await ctx.tool(tool, work))
        if tool == "scan":
            await ctx.tool("deliver", work)
        await ctx.sleep(60)
        return done

    return shop


def pays(plane: TestPlane) -> Any:
    @plane.agent("pays")
    async def pays(ctx: Context) -> None:
        await ctx.tool("pay", pay)

    return pays


async def held(office: Office, count: int) -> list[Any]:
    agent = deploy(office.plane, "deliver")
    jobs = [await agent.submit() for _ in range(count)]
    await office.plane.work()
    await office.plane.clock.advance(seconds=61)
    office.plane.agents.clear()
    deploy(office.plane, "scan")
    await office.plane.work()
    return jobs


async def test_one_message_says_that_jobs_are_held_and_what_to_do(office: Office) -> None:
    await office.plane.webhooks.add("email:ops@example.com")

    jobs = await held(office, 5)
    await office.plane.work()

    (email,) = office.services.emails_to("ops")
    assert email.startswith("A job is held: its record does not fit the code: shop")
    assert 'calls tool "scan", which is not recorded' in email
    told = [job.id for job in jobs if f"cortex jobs why {job.id}" in email]
    assert len(told) == 1
    assert f"https://plane.example.com/jobs/{told[0]}" in email
    deliveries = await office.plane.jobs.list(queue="cortex", agent=WEBHOOK_AGENT)
    assert {job.status_text for job in deliveries} == {"completed"}
    assert len(deliveries) == 5


async def test_uncertain_calls_are_told_in_chats_and_again_after_a_while(office: Office) -> None:
    await office.plane.webhooks.add(f"slack:{slack_fake.USER_ID}")
    await office.plane.webhooks.add(f"telegram:{telegram_fake.CHAT_ID}")
    agent = pays(office.plane)

    for _ in range(2):
        await agent.submit()
        await office.plane.work()
        await office.plane.clock.advance(seconds=QUIET_SECONDS + 1)

    said = [request.body.decode() for request in (*office.services.slack.requests, *office.services.telegram.requests)]
    assert len(said) == 4
    assert all("A tool call is uncertain: pays" in one and "cortex jobs settle" in one for one in said)


async def test_a_message_that_did_not_get_through_is_tried_again(office: Office) -> None:
    """The first attempt has noted that the endpoint is told of it; that must not silence the second."""
    await office.plane.webhooks.add("email:ops@example.com")
    office.services.mail.replies["MAIL"] = "451 later"
    await pays(office.plane).submit()

    await office.plane.work()
    del office.services.mail.replies["MAIL"]
    await office.plane.clock.advance(seconds=60)
    await office.plane.work()

    assert len(office.services.emails_to("ops")) == 1


@pytest.mark.parametrize("wrong", ["email:nobody", "slack:a room", "pager:7", "email://ops@example.com"])
async def test_an_address_that_is_none_is_refused(office: Office, wrong: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        await office.plane.webhooks.add(wrong)

    assert caught.value.field == "url"


async def test_operators_are_told_of_what_needs_them_unless_they_ask_for_more(office: Office) -> None:
    added = await office.plane.webhooks.add("email:ops@example.com")
    more = await office.plane.webhooks.add("email:ops@example.com", events=["job.failed"])

    assert (added.endpoint.events, more.endpoint.events) == (
        ["job.held", "job.uncertain", "approval.undecidable"],
        ["job.failed"],
    )
