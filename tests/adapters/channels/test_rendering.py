"""Whatever an agent writes, every service takes the message, its buttons are ours, and its markup is ours too."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from hypothesis import given

from cortex_plane.approvals.channels import discord, email, slack, telegram, webhook
from cortex_plane.approvals.messages import (
    ApprovalMessage,
    ClosedMessage,
    Sent,
    button_meaning,
    details_of,
    message_view,
    request_text,
)
from tests.adapters.channels import discord_fake, slack_fake, telegram_fake
from tests.adapters.channels.messages import APPROVED, TOKEN, closings, message, messages

DECIDE = [("approved", TOKEN), ("denied", TOKEN)]
LONG = message(details={"log": "x" * 50_000})
CUT = "cut here; the page shows them all"


def sent(shown: ApprovalMessage) -> Sent:
    return Sent("1", {"shown": message_view(shown)})


# -- Telegram ------------------------------------------------------------------------------------


@given(messages)
def test_telegram_takes_every_message_with_our_marks_and_buttons_alone(asked: ApprovalMessage) -> None:
    body = telegram.request_body(asked)
    read, rows = telegram_fake.check_text(body), telegram_fake.check_keyboard(body)

    assert [tag for tag in read.tags if tag != "pre"] == ["b", "b", "code"] + ([] if asked.link else ["code"])
    assert len(read.blocks) <= 1
    assert [button_meaning(button.get("callback_data")) for button in rows[0]] == DECIDE
    assert [button["url"] for row in rows[1:] for button in row] == ([asked.link] if asked.link else [])


@given(messages)
def test_telegram_shows_the_details_as_they_are_up_to_the_note(asked: ApprovalMessage) -> None:
    read = telegram_fake.check_text(telegram.request_body(asked))

    whole, shown = details_of(asked.details, 10_000_000).text, "".join(read.blocks)
    assert whole.startswith(shown)
    assert shown == whole or CUT in read.seen


@given(messages, closings)
def test_telegram_takes_every_closed_message(asked: ApprovalMessage, closed: ClosedMessage) -> None:
    body = telegram.closed_body(sent(asked), closed)
    read = telegram_fake.check_text(body)

    assert read.seen.startswith(closed.headline)
    assert read.tags == ["b", "b", "code"]
    assert "reply_markup" not in body


# -- Discord -------------------------------------------------------------------------------------

BARE = re.compile(r"(?<!\\)(?:\\\\)*([`*_~|<>#\-+\[\]():@])")
INSTANT = re.compile(r"<t:[0-9]+:[fR]>")


def bare_marks(markdown: str) -> list[str]:
    """The characters in it that have a meaning, outside of our block of code and our instants."""
    outside = re.sub(r"```json\n.*?\n```", "", markdown, count=1, flags=re.DOTALL)
    outside = INSTANT.sub("", outside).replace("To view and decide:", "")
    return BARE.findall(re.sub(r"\\([^0-9A-Za-z\s])", "", outside))


@given(messages)
def test_discord_takes_every_message_with_our_marks_and_buttons_alone(asked: ApprovalMessage) -> None:
    body = discord.request_body(asked)
    discord_fake.check_message(body)

    [embed] = body["embeds"]
    assert bare_marks(embed["title"]) == []
    assert bare_marks(embed["description"]) == []
    assert embed["description"].count("```") in (0, 2)
    deciding, look = discord_fake.buttons(body)[:2], discord_fake.buttons(body)[2:]
    assert [button_meaning(button["custom_id"]) for button in deciding] == DECIDE
    assert [button["url"] for button in look] == ([asked.link] if asked.link else [])


@given(closings)
def test_discord_takes_every_closed_message(closed: ClosedMessage) -> None:
    body = discord.closed_body(closed)
    discord_fake.check_message(body)

    assert bare_marks(body["content"].replace(closed.time, "")) == []
    assert body["components"] == []


# -- Slack ---------------------------------------------------------------------------------------


@given(messages)
def test_slack_takes_every_message_with_our_marks_and_buttons_alone(asked: ApprovalMessage) -> None:
    body = slack.request_body(asked)
    slack_fake.check_message(body)

    marked = [block["text"]["text"] for block in body["blocks"] if block.get("text", {}).get("type") == "mrkdwn"]
    assert len(marked) <= 1
    assert all(text.count("```") == 2 and text.startswith("```\n") and text.endswith("\n```") for text in marked)
    deciding, look = slack_fake.buttons(body)[:2], slack_fake.buttons(body)[2:]
    assert [button_meaning(button["value"]) for button in deciding] == DECIDE
    assert [button["url"] for button in look] == ([asked.link] if asked.link else [])


@given(messages, closings)
def test_slack_takes_every_closed_message(asked: ApprovalMessage, closed: ClosedMessage) -> None:
    body = slack.closed_body(sent(asked), closed)
    slack_fake.check_message(body)

    assert slack_fake.buttons(body) == []


# -- e-mail and webhooks -------------------------------------------------------------------------


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str | None] = []
        self.tags: set[str] = set()
        self.blocks = ""
        self.seen = ""
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._inside = tag
        self.links += [value for name, value in attrs if name == "href"]
        assert {name for name, _ in attrs} <= {"href", "charset"}

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.seen += data
        if self._inside == "pre":
            self.blocks += data


@given(messages)
def test_an_email_links_to_the_page_and_nowhere_else(asked: ApprovalMessage) -> None:
    details = details_of(asked.details, email.DETAILS_LIMIT)
    page = Page(email.request_html(asked, details))

    assert page.links == [asked.page_url]
    assert page.tags <= {"html", "head", "meta", "body", "p", "h2", "pre", "a", "b", "code", "br"}
    assert page.blocks == details.text


@given(messages, closings)
def test_an_email_that_closes_has_no_link_at_all(asked: ApprovalMessage, closed: ClosedMessage) -> None:
    assert Page(email.closed_html(closed, message_view(asked))).links == []


@given(messages)
def test_no_rendering_for_people_links_to_what_decides(asked: ApprovalMessage) -> None:
    """Programs fetch links, and would decide."""
    details = details_of(asked.details, email.DETAILS_LIMIT)
    bodies: list[Any] = [telegram.request_body(asked), discord.request_body(asked), slack.request_body(asked)]
    bodies += [request_text(asked, details, page=True), email.request_html(asked, details)]

    assert not any(url in json.dumps(body) for body in bodies for url in (asked.approve_url, asked.deny_url))


def test_a_webhook_says_by_which_method_it_is_decided() -> None:
    data = webhook.request_data(message())

    assert (data["approve"]["method"], data["deny"]["method"]) == ("POST", "POST")
    assert data["page_url"] == message().page_url


# -- all of them ---------------------------------------------------------------------------------


def test_long_details_are_cut_with_a_note_and_the_page_is_at_hand() -> None:
    told, carded, blocks = telegram.request_body(LONG), discord.request_body(LONG), slack.request_body(LONG)
    written = request_text(LONG, details_of(LONG.details, email.DETAILS_LIMIT), page=True)

    for body in (told, carded, blocks, written):
        assert CUT in json.dumps(body)
        assert LONG.page_url in json.dumps(body)
        assert "x" * 1_000 in json.dumps(body)


def test_without_buttons_that_decide_the_token_is_only_in_the_link_to_the_page() -> None:
    for body in (make(message(), False) for make in (telegram.request_body, discord.request_body, slack.request_body)):
        text = json.dumps(body)

        assert text.count(TOKEN) == text.count(message().page_url) == 1


def test_a_closed_message_names_the_title_who_decided_and_why() -> None:
    closed = ClosedMessage("denied", "Bob", "Not on a Friday", APPROVED.at)

    for body in (telegram.closed_body(sent(message()), closed), slack.closed_body(sent(message()), closed)):
        text = json.dumps(body, ensure_ascii=False)
        assert "❌ Denied by Bob" in text
        assert "Reason: Not on a Friday" in text
        assert "Deploy 1.4.0 to production" in text
