"""The part of the Telegram Bot API that we use: https://core.telegram.org/bots/api

Methods and limits: #sendmessage, #editmessagetext, #answercallbackquery, #inlinekeyboardbutton. What HTML may be: #html-style.
Errors: #making-requests, #responseparameters.
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from tests.adapters.channels.server import Said, Wrong, need, only, text
from tests.built_in.fakes import Request

BOT_TOKEN = "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"
CHAT_ID = 987654321
TAGS = frozenset({"b", "strong", "i", "em", "u", "s", "a", "code", "pre", "blockquote"})
ENTITY = re.compile(r"&(?!(lt|gt|amp|quot|#[0-9]+|#x[0-9a-fA-F]+);)")


class Telegram:
    """One bot that one chat has spoken to."""

    def __init__(self) -> None:
        self.messages: dict[int, dict[str, Any]] = {}
        self.answered: dict[str, str] = {}

    def __call__(self, request: Request) -> Said:
        _, bot, method = request.path.split("/")
        if bot != f"bot{BOT_TOKEN}":
            return _error(401 if ":" in bot else 404, "Unauthorized" if ":" in bot else "Not Found")
        if request.method != "POST" or not request.headers["content-type"].startswith("application/json"):
            return _error(400, "Bad Request: message text is empty")
        try:
            answers = {"sendMessage": self._send, "editMessageText": self._edit, "answerCallbackQuery": self._answer}
            return answers[method](json.loads(request.body))
        except Wrong as wrong:
            return _error(400, f"Bad Request: {wrong}")
        except KeyError:
            return _error(404, "Not Found")

    def _send(self, body: Any) -> Said:
        only(body, {"chat_id", "text", "parse_mode", "link_preview_options"}, {"reply_markup"})
        if str(body["chat_id"]) != str(CHAT_ID):
            return _error(400, "Bad Request: chat not found")
        check_text(body)
        number = len(self.messages) + 1
        self.messages[number] = {"text": body["text"], "reply_markup": check_keyboard(body)}
        return 200, {"ok": True, "result": {"message_id": number, "date": 1, "chat": {"id": CHAT_ID, "type": "private"}}}

    def _edit(self, body: Any) -> Said:
        only(body, {"chat_id", "message_id", "text", "parse_mode", "link_preview_options"}, {"reply_markup"})
        need(type(body["message_id"]) is int and body["message_id"] in self.messages, "message to edit not found")
        check_text(body)
        after = {"text": body["text"], "reply_markup": check_keyboard(body)}
        need(after != self.messages[body["message_id"]], "message is not modified: specified new message content …")
        self.messages[body["message_id"]] = after
        return 200, {"ok": True, "result": {"message_id": body["message_id"], "date": 1, "chat": {"id": CHAT_ID}}}

    def _answer(self, body: Any) -> Said:
        only(body, {"callback_query_id"}, {"text", "show_alert"})
        text(body.get("text", ""), 0, 200, "text")
        need(body["callback_query_id"] == "4382bfdwdsb323b2d9", "query is too old and response timeout expired")
        self.answered[body["callback_query_id"]] = body["text"]
        return 200, {"ok": True, "result": True}


def check_text(body: dict[str, Any]) -> Html:
    need(body["parse_mode"] == "HTML", "unsupported parse_mode")
    need(body["link_preview_options"] == {"is_disabled": True}, "a preview would fetch the page")
    need(len(body["text"].encode()) <= 1 << 15, "text is too long")
    read = Html()
    read.feed(body["text"])
    read.close()
    need(not read.open, f"can't parse entities: {read.open} is not closed")
    need(not ENTITY.search(body["text"]), "can't parse entities: unsupported entity")
    text(read.seen.strip(), 1, 4096, "text")
    return read


def check_keyboard(body: dict[str, Any]) -> list[list[dict[str, str]]]:
    rows: list[list[dict[str, str]]] = only(body.get("reply_markup", {"inline_keyboard": []}), {"inline_keyboard"})[
        "inline_keyboard"
    ]
    for button in (button for row in rows for button in row):
        only(button, {"text"}, {"url", "callback_data"})
        need(len(button) == 2, "exactly one of the optional fields must be used")
        need(1 <= len(button.get("callback_data", "x").encode()) <= 64, "BUTTON_DATA_INVALID")
        need(re.match(r"https?://[^/]+\.[^/]+", button.get("url", "http://a.b")), "BUTTON_URL_INVALID")
    return rows


class Html(HTMLParser):
    """Reads what Telegram reads; `seen` is the text without its marks, `blocks` what stands in `pre`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen = ""
        self.tags: list[str] = []
        self.blocks: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        need(tag in TAGS and not attrs, f"can't parse entities: unsupported start tag {tag}")
        self.open.append(tag)
        self.tags.append(tag)
        if tag == "pre":
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        need(self.open and self.open.pop() == tag, f"can't parse entities: unexpected end tag {tag}")

    def handle_data(self, data: str) -> None:
        self.seen += data
        if "pre" in self.open:
            self.blocks[-1] += data

    def handle_comment(self, data: str) -> None:
        raise Wrong("can't parse entities: a comment")

    def handle_decl(self, decl: str) -> None:
        raise Wrong("can't parse entities: a declaration")

    def unknown_decl(self, data: str) -> None:
        raise Wrong("can't parse entities: a declaration")

    def handle_pi(self, data: str) -> None:
        raise Wrong("can't parse entities: an instruction")


def _error(code: int, description: str, **parameters: int) -> Said:
    return code, {
        "ok": False,
        "error_code": code,
        "description": description,
        **({"parameters": parameters} if parameters else {}),
    }
