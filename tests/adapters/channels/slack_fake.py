"""The part of Slack's Web API that we use: https://docs.slack.dev/reference/methods/chat.postMessage and chat.update

Blocks: https://docs.slack.dev/reference/block-kit/blocks and /block-elements/button-element. Texts:
/reference/block-kit/composition-objects/text-object. Errors come with status 200, rate limits with 429:
https://docs.slack.dev/apis/web-api/rate-limits
Answers to clicks: https://docs.slack.dev/interactivity/handling-user-interaction
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.adapters.channels.server import Said, Wrong, need, only, text
from tests.built_in.fakes import Request

BOT_TOKEN = "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy"
USER_ID, DIRECT_ID, CHANNEL_ID = "U024BE7LH", "D024BE91L", "C123ABC456"
CONTROL = re.compile(r"<([^>]*)>")
DATE = re.compile(r"!date\^[0-9]+\^[^|<>^]+\|[^|<>]+")


class Slack:
    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.told: list[str] = []

    def __call__(self, request: Request) -> Said:
        if request.method != "POST" or request.headers["content-type"] != "application/json; charset=utf-8":
            return 200, {"ok": False, "error": "invalid_post_type"}
        if request.path == "/actions/T1/2/3":
            return self._tell(json.loads(request.body))
        if request.headers.get("authorization") != f"Bearer {BOT_TOKEN}":
            return 200, {"ok": False, "error": "invalid_auth"}
        try:
            return {"/chat.postMessage": self._post, "/chat.update": self._update}[request.path](json.loads(request.body))
        except KeyError:
            return 200, {"ok": False, "error": "unknown_method"}
        except Wrong as wrong:
            return 200, {"ok": False, "error": "invalid_blocks", "response_metadata": {"messages": [str(wrong)]}}

    def _post(self, body: Any) -> Said:
        only(body, {"channel", "text", "blocks"}, {"unfurl_links", "unfurl_media"})
        need(body.get("unfurl_links") is False and body.get("unfurl_media") is False, "links would be fetched")
        if body["channel"] not in (USER_ID, CHANNEL_ID):
            return 200, {"ok": False, "error": "channel_not_found"}
        check_message(body)
        channel = DIRECT_ID if body["channel"] == USER_ID else body["channel"]
        timestamp = f"1405895017.{len(self.messages) + 1:06}"
        self.messages[timestamp] = {**body, "channel": channel}
        return 200, {"ok": True, "channel": channel, "ts": timestamp, "message": {"text": body["text"]}}

    def _update(self, body: Any) -> Said:
        only(body, {"channel", "ts", "text", "blocks"})
        if self.messages.get(body["ts"], {}).get("channel") != body["channel"]:
            return 200, {"ok": False, "error": "message_not_found"}
        check_message(body)
        self.messages[body["ts"]] = body
        return 200, {"ok": True, "channel": body["channel"], "ts": body["ts"], "text": body["text"]}

    def _tell(self, body: Any) -> Said:
        only(body, {"text", "response_type", "replace_original"})
        need(body["response_type"] == "ephemeral" and body["replace_original"] is False, "seen by all")
        self.told.append(body["text"])
        return 200, {"ok": True}


def check_message(body: dict[str, Any]) -> None:
    check_markup(text(body["text"], 1, 4000, "text"))
    need(1 <= len(body["blocks"]) <= 50, "too many blocks")
    for block in body["blocks"]:
        check_block(block)
    ids = [button["action_id"] for button in buttons(body)]
    need(len(ids) == len(set(ids)), "action_id already exists")


def check_block(block: Any) -> None:
    match block["type"]:
        case "header":
            need(only(block, {"type", "text"})["text"]["type"] == "plain_text", "a header is plain text")
            check_text(block["text"], 150)
        case "section":
            check_text(only(block, {"type", "text"})["text"], 3000)
        case "context":
            need(1 <= len(only(block, {"type", "elements"})["elements"]) <= 10, "too many elements")
            for element in block["elements"]:
                check_text(element, 2000)
        case "actions":
            need(1 <= len(only(block, {"type", "elements"})["elements"]) <= 25, "too many elements")
            for button in block["elements"]:
                check_button(button)
        case other:
            raise Wrong(f"unsupported block {other}")


def check_text(element: Any, limit: int) -> None:
    if element["type"] == "plain_text":
        need(only(element, {"type", "text"}, {"emoji"}).get("emoji") is False, "emoji would be made of text")
    else:
        need(only(element, {"type", "text", "verbatim"})["verbatim"] is True and element["type"] == "mrkdwn", "bad text")
        check_markup(element["text"])
    text(element["text"], 1, limit, "text")


def check_markup(markup: str) -> None:
    """Of everything that stands between < and >, only a date is ours: no mention, no link."""
    need(all(DATE.fullmatch(control) for control in CONTROL.findall(markup)), "a mention or a link")
    rest = CONTROL.sub("", markup)
    need("<" not in rest and ">" not in rest and not re.search("&(?!amp;|lt;|gt;)", rest), "not escaped")


def check_button(button: Any) -> None:
    only(button, {"type", "action_id", "text"}, {"style", "value", "url"})
    need(button["type"] == "button" and button.get("style", "primary") in ("primary", "danger"), "bad button")
    need(button["text"]["type"] == "plain_text", "a button's text is plain")
    check_text(button["text"], 75)
    text(button["action_id"], 1, 255, "action_id")
    text(button.get("value", "x"), 1, 2000, "value")
    text(button.get("url", "x"), 1, 3000, "url")


def buttons(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [button for block in body["blocks"] if block["type"] == "actions" for button in block["elements"]]
