"""The part of Discord's HTTP API that we use: https://docs.discord.com/developers/reference

Methods: /developers/resources/message (create and edit, limits of embeds), /developers/resources/user (create DM).
Buttons: /developers/components/reference#button. Errors: /developers/topics/opcodes-and-status-codes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.adapters.channels.server import Said, Wrong, need, only, text
from tests.built_in.fakes import Request

BOT_TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"
USER_ID, DIRECT_ID, CHANNEL_ID, CLOSED_USER_ID = (
    "80351110224678912",
    "319674150115610528",
    "155101607195836416",
    "80351110224678999",
)
USER_AGENT = re.compile(r"DiscordBot \(https?://[^ ,]+, [0-9.]+\)")


class Discord:
    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}

    def __call__(self, request: Request) -> Said:
        if request.headers.get("authorization") != f"Bot {BOT_TOKEN}":
            return 401, {"message": "401: Unauthorized", "code": 0}
        if not USER_AGENT.fullmatch(request.headers["user-agent"]):
            return 403, {"message": "error code: 1010", "code": 0}
        if request.headers["content-type"] != "application/json":
            return 415, {"message": "Expected \"Content-Type\" header to be one of {'application/json'}", "code": 50035}
        try:
            return self._route(request.method, request.path.split("/")[1:], json.loads(request.body))
        except Wrong as wrong:
            return 400, {"message": "Invalid Form Body", "code": 50035, "errors": {"_errors": [{"message": str(wrong)}]}}

    def _route(self, method: str, path: list[str], body: Any) -> Said:
        match method, path:
            case "POST", ["users", "@me", "channels"]:
                return self._direct(only(body, {"recipient_id"}))
            case "POST", ["channels", channel_id, "messages"]:
                return self._create(channel_id, body)
            case "PATCH", ["channels", channel_id, "messages", message_id]:
                return self._edit(channel_id, message_id, body)
        return 404, {"message": "404: Not Found", "code": 0}

    def _direct(self, body: dict[str, Any]) -> Said:
        if body["recipient_id"] not in (USER_ID, CLOSED_USER_ID):
            return 404, {"message": "Unknown User", "code": 10013}
        return 200, {"id": DIRECT_ID if body["recipient_id"] == USER_ID else "1", "type": 1}

    def _create(self, channel_id: str, body: Any) -> Said:
        if channel_id == "1":
            return 403, {"message": "Cannot send messages to this user", "code": 50007}
        if channel_id not in (DIRECT_ID, CHANNEL_ID):
            return 404, {"message": "Unknown Channel", "code": 10003}
        check_message(body)
        message_id = str(334385199974967042 + len(self.messages))
        self.messages[message_id] = {"channel_id": channel_id, "components": [], **body}
        return 200, {"id": message_id, "channel_id": channel_id, "content": body.get("content", "")}

    def _edit(self, channel_id: str, message_id: str, body: Any) -> Said:
        if self.messages.get(message_id, {}).get("channel_id") != channel_id:
            return 404, {"message": "Unknown Message", "code": 10008}
        check_message(body)
        self.messages[message_id].update(body)
        return 200, {"id": message_id, "channel_id": channel_id}


def check_message(body: Any) -> None:
    only(body, {"content", "allowed_mentions"}, {"embeds", "components"})
    text(body["content"], 1, 2000, "content")
    need(body["allowed_mentions"] == {"parse": []}, "somebody could be mentioned")
    for embed in body.get("embeds", []):
        only(embed, {"title", "description"})
        title, description = text(embed["title"], 1, 256, "title"), text(embed["description"], 1, 4096, "description")
        need(len(title) + len(description) <= 6000, "the embeds are too large")
    need(len(body.get("components", [])) <= 5, "too many rows")
    for row in body.get("components", []):
        need(only(row, {"type", "components"})["type"] == 1 and 1 <= len(row["components"]) <= 5, "not a row")
        for button in row["components"]:
            check_button(button)
    ids = [button["custom_id"] for button in buttons(body) if "custom_id" in button]
    need(len(ids) == len(set(ids)), "COMPONENT_CUSTOM_ID_DUPLICATED")


def check_button(button: Any) -> None:
    only(button, {"type", "style", "label"}, {"custom_id", "url"})
    need(button["type"] == 2, "not a button")
    text(button["label"], 1, 80, "label")
    if button["style"] == 5:
        need(
            "custom_id" not in button and re.match(r"https?://[^/]+\.[^/]+", text(button["url"], 1, 512, "url")),
            "bad link button",
        )
    else:
        need(button["style"] in (1, 2, 3, 4) and "url" not in button, "bad button")
        text(button["custom_id"], 1, 100, "custom_id")


def buttons(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [button for row in body.get("components", []) for button in row["components"]]
