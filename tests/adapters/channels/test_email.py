"""E-mail: what is sent, what is sent when it is decided, and what is tried again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from cortex_plane.approvals.channels import EmailChannel
from cortex_plane.approvals.channels.base import Channel, ChannelDown, ChannelRefused
from cortex_plane.approvals.messages import Address, ClosedMessage, Sent
from cortex_plane.integrations.email import SmtpTransport
from cortex_plane.testing import ManualClock
from tests.adapters.channels.messages import APPROVED, TOKEN, message
from tests.built_in.fakes import Smtp, smtp

pytestmark = pytest.mark.anyio

ALICE = Address("Alice <alice@example.com>")


@pytest.fixture
async def mail() -> AsyncIterator[Smtp]:
    async with smtp() as made:
        yield made


def by(mail: Smtp) -> Channel:
    transport = SmtpTransport("127.0.0.1", "plane@example.com", mail.port, "bot", "hush", tls="none")
    return EmailChannel(transport, ManualClock())


async def test_an_email_asks_in_text_and_html_and_leads_to_the_page(mail: Smtp) -> None:
    sent = await by(mail).send(message(), ALICE)

    [(sender, recipients, email)] = mail.envelopes
    assert (sender, recipients) == ("plane@example.com", ["alice@example.com"])
    assert email["Subject"] == "Approval needed: Deploy 1.4.0 to production"
    assert email["Message-ID"] == sent.message_id == f"<{message().key}@example.com>"
    text, html = (part.get_content() for part in email.iter_parts())
    assert message().page_url in text
    assert f'href="{message().page_url}"' in html
    assert '"image": "app:1.4.0"' in text
    assert "/approve" not in text + html


async def test_a_decision_is_a_second_email_in_the_same_thread(mail: Smtp) -> None:
    sent = await by(mail).send(message(), ALICE)
    stored = json.dumps({"message_id": sent.message_id, "where": sent.where})
    await by(mail).edit(Sent(**json.loads(stored)), ClosedMessage("denied", "Bob", "Not on a Friday", APPROVED.at))

    email = mail.envelopes[1][2]
    assert mail.envelopes[1][1] == ["alice@example.com"]
    assert email["Subject"] == "Re: Approval needed: Deploy 1.4.0 to production"
    for part in email.iter_parts():
        assert "❌ Denied by Bob" in part.get_content()
        assert "Reason: Not on a Friday" in part.get_content()
    assert TOKEN not in stored


async def test_each_recipient_and_each_attempt_to_ask_has_an_id_of_its_own_but_a_repeated_answer_has_not(mail: Smtp) -> None:
    """Services that send once per id must neither swallow the new token nor the news for the second approver."""
    other = message(token=TOKEN[:-1] + "R")
    sent = [await by(mail).send(one, ALICE) for one in (message(), other)]
    for one in [*sent, sent[0]]:
        await by(mail).edit(one, APPROVED)

    ids = [email["Message-ID"] for _, _, email in mail.envelopes]
    assert len(set(ids[:4])) == 4
    assert ids[4] == ids[2]


async def test_a_title_of_several_lines_makes_no_header(mail: Smtp) -> None:
    await by(mail).send(message(title="Deploy\r\nBcc: eve@example.com\n\n<b>"), ALICE)

    [(_, recipients, email)] = mail.envelopes
    assert recipients == ["alice@example.com"]
    assert (email["Bcc"], email["Subject"]) == (None, "Approval needed: Deploy Bcc: eve@example.com <b>")


@pytest.mark.parametrize("address", ["", "alice", "alice@example.com\nBcc: eve@example.com", "a@b, c@d"])
async def test_an_address_that_is_none_is_refused(mail: Smtp, address: str) -> None:
    with pytest.raises(ChannelRefused, match="Link it anew"):
        await by(mail).send(message(), Address(address))


@pytest.mark.parametrize(
    ("line", "reply", "kind"),
    [
        ("connect", "421 Too busy", ChannelDown),
        ("AUTH", "535 Bad credentials", ChannelRefused),
        ("RCPT", "550 No such user", ChannelRefused),
        ("RCPT", "450 Greylisted", ChannelDown),
        ("DATA", f"554 Spam: {TOKEN}", ChannelRefused),
        ("DATA", f"451 Later: {TOKEN}", ChannelDown),
    ],
)
async def test_refusals_for_now_are_tried_again_and_show_no_secret(
    mail: Smtp, line: str, reply: str, kind: type[Exception]
) -> None:
    mail.replies[line] = reply
    with pytest.raises(kind) as failed:
        await by(mail).send(message(), ALICE)

    assert reply[:3] in str(failed.value)
    assert TOKEN not in str(failed.value) + repr(failed.value)
    assert "hush" not in str(failed.value) + repr(by(mail))


async def test_nobody_there_is_down() -> None:
    with pytest.raises(ChannelDown):
        await by(Smtp(port=9)).send(message(), ALICE)
