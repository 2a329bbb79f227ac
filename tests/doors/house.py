"""A house with all doors: a plane that is served by HTTP, people who are known in three chats, and a job that asks them."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response

from cortex_plane import Context, JobHandle
from cortex_plane.approvals.decisions import (
    AlreadyDecided,
    Answer,
    ApprovalToken,
    Decided,
    Expired,
    NotAllowed,
    Recorded,
    Withdrawn,
    mint,
)
from cortex_plane.approvals.http_channels import IN_PROGRESS, NOT_SAVED
from cortex_plane.approvals.messages import button_data
from cortex_plane.approvals.model import ApprovalRequest, Notification, Verdict
from cortex_plane.clock import SECOND
from cortex_plane.dashboard.flash import COOKIE as NOTE
from cortex_plane.http.auth import COOKIE, csrf_token
from cortex_plane.ids import new_id
from cortex_plane.people.login import open_sign_in
from cortex_plane.people.model import User
from cortex_plane.stores import Store
from cortex_plane.testing import TestPlane, throwaway_plane
from tests.adapters.channels.server import Said, Server, served
from tests.apps import dashboard_of
from tests.built_in.fakes import Request

ROOT = "http://localhost"
TELEGRAM_SECRET, SLACK_SECRET = "webhook-secret", "signing-secret"
DISCORD_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CHATS = ("telegram", "discord", "slack")

_numbers = itertools.count(1)


@dataclass
class Told:
    """What Slack was told afterwards, by the address that came with each click."""

    texts: dict[str, str] = field(default_factory=dict)

    def __call__(self, request: Request) -> Said:
        self.texts[request.path] = json.loads(request.body)["text"]
        return 200, {"ok": True}


@dataclass(frozen=True)
class Person:
    """`key` is an API key of theirs, `cookie` that of their browser; `chats` are what the services know them by."""

    user: User
    key: str
    cookie: str
    chats: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.user.name


@dataclass(frozen=True)
class Try:
    """Somebody wants to decide. `token` is what they have in their message."""

    request_id: str
    person: Person
    token: str
    decision: Verdict = "approved"

    @property
    def verb(self) -> str:
        return "approve" if self.decision == "approved" else "deny"


Asked = tuple[JobHandle[Any], ApprovalRequest]


class House:
    def __init__(self, plane: TestPlane, app: FastAPI, client: AsyncClient, slack: Server, told: Told, store: Store) -> None:
        self.plane, self.app, self.client, self.slack, self.told, self.store = plane, app, client, slack, told, store
        self.effects: list[str] = []
        self.summary = "Deploy 1.4.0 to production"

        @plane.agent("release-bot")
        async def release(ctx: Context, gate: dict[str, Any]) -> str:
            asked = {"details": {"image": "app:1.4.0", "replicas": 3}, **gate}
            decision = await ctx.approval(self.summary, **asked)
            await ctx.tool("deploy", self._deploy, ctx.job_id)
            return decision.outcome

        self.release = release

    async def _deploy(self, job_id: str) -> None:
        self.effects.append(job_id)

    async def person(self, name: str, *roles: str) -> Person:
        number = next(_numbers)
        chats = {"telegram": str(1000 + number), "discord": str(2000 + number), "slack": f"U{number:06}"}
        user = await self.plane.people.add(name, display_name=name.title())
        for chat, address in chats.items():
            await self.plane.people.link(name, chat, address)
        for role in roles:
            await self.plane.access.give_role(name, role, tenant="default")
        may_look = ["viewer"] if set(roles) - {"approver"} else []
        key = await self.plane.access.add_key(f"{name}'s", ["approver", *may_look], tenant="default", user=name)
        signed_in = await open_sign_in(self.store, await self.plane.access.user(name))
        return Person(user, key.secret, signed_in.token, chats)

    async def asked(self, *approvers: Person, job: dict[str, Any] | None = None, **gate: Any) -> Asked:
        """A job that waits for these people; for all approvers if there are none."""
        if approvers:
            gate.setdefault("approvers", [person.name for person in approvers])
        handle = await self.plane.submit("release-bot", {"gate": gate}, **(job or {}))
        await self.plane.work()
        [request] = await self.store.approvals.list(job_id=handle.id)
        return handle, request

    async def token(self, request: ApprovalRequest, person: Person, channel: str = "telegram") -> ApprovalToken:
        """As a message that was delivered to them would hold it."""
        made = mint(bytes.fromhex(new_id().replace("-", "") * 2))
        address = person.chats[channel]
        assert await self.store.approvals.put_token(request.id, person.user.id, channel, address, made.hash)
        sent = Notification(person.user.id, channel, address, new_id())
        await self.store.approvals.record_notification(request.id, sent, made.hash)
        return made

    async def trying(self, request: ApprovalRequest, person: Person, *, channel: str = "telegram") -> Try:
        return Try(request.id, person, (await self.token(request, person, channel)).plaintext)

    async def audited(self, request_id: str) -> list[str]:
        decided = ("APPROVAL_APPROVED", "APPROVAL_DENIED", "APPROVAL_EXPIRED")
        found = [record.entry.action for record in await self.store.audit.list(request_id)]
        return [action for action in found if action in decided]

    async def visitor(self, address: str) -> AsyncClient:
        """Somebody who comes from elsewhere."""
        return AsyncClient(transport=ASGITransport(self.app, client=(address, 1), raise_app_exceptions=False), base_url=ROOT)


# -- the doors: each returns how it was answered, in one word ------------------------------------


async def token_in_path(house: House, one: Try) -> str:
    return _word(await house.client.post(f"/api/approvals/{quote(one.token, safe='')}/{one.verb}"))


async def token_in_body(house: House, one: Try) -> str:
    return _word(await house.client.post(f"/api/approvals/{one.verb}", json={"token": one.token}))


async def page(house: House, one: Try) -> str:
    answer = await house.client.post(f"/approvals/{quote(one.token, safe='')}", data={"decision": one.decision})
    match answer.status_code:
        case 410:
            return "withdrawn" if "cancelled" in answer.text else "expired"
        case status:
            return {200: "decided", 202: "recorded", 403: "not allowed", 404: "unknown", 409: "already"}[status]


async def signed_in(house: House, one: Try) -> str:
    headers = {"Authorization": f"Bearer {one.person.key}"}
    return _word(await house.client.post(f"/api/v1/approvals/{one.request_id}/{one.verb}", headers=headers))


async def bulk(house: House, one: Try) -> str:
    headers = {"Authorization": f"Bearer {one.person.key}"}
    answer = await house.client.post(f"/api/v1/bulk/approvals/{one.verb}", json={"ids": [one.request_id]}, headers=headers)
    refused = answer.json()["refused"]
    return _kind(refused[0]["problem"]["type"]) if refused else "decided"


async def dashboard(house: House, one: Try) -> str:
    return await _on_a_page(house, one, f"/approvals/requests/{one.request_id}/decide")


async def dashboard_bulk(house: House, one: Try) -> str:
    return await _on_a_page(house, one, "/approvals/requests/decide", ids=one.request_id)


async def _on_a_page(house: House, one: Try, path: str, **fields: str) -> str:
    """In a browser of its own, where they are signed in. The next page says what came of it."""
    async with await house.visitor("127.0.0.1") as browser:
        browser.cookies.set(COOKIE, one.person.cookie)
        form = {"csrf_token": csrf_token(one.person.cookie), "decision": one.decision, **fields}
        answer = await browser.post(path, data=form)
        assert answer.status_code == 303, answer.text
        _, text = json.loads(urlsafe_b64decode(answer.cookies[NOTE]))
    return _of_text(text.removeprefix("Decided 0. 1 could not be decided: "))


async def command_line(house: House, one: Try) -> str:
    answers = await house.plane.approvals.decide_many([one.request_id], one.decision, by=one.person.name, door="cli")
    return _named(*answers.values())


async def telegram(house: House, one: Try) -> str:
    query = {"id": "77", "from": {"id": int(one.person.chats["telegram"])}, "data": button_data(one.decision, one.token)}
    headers = {"X-Telegram-Bot-Api-Secret-Token": TELEGRAM_SECRET}
    answer = await house.client.post("/api/channels/telegram", json={"update_id": 1, "callback_query": query}, headers=headers)
    assert (answer.status_code, answer.json()["method"]) == (200, "answerCallbackQuery")
    return _of_text(answer.json()["text"])


async def discord(house: House, one: Try) -> str:
    click = {
        "type": 3,
        "data": {"custom_id": button_data(one.decision, one.token)},
        "user": {"id": one.person.chats["discord"]},
        "message": {"id": "5", "channel_id": "6"},
    }
    answer = await house.client.post("/api/channels/discord", **signed_for_discord(house, click))
    assert answer.status_code == 200
    document = answer.json()
    return "decided" if document["type"] == 7 else _of_text(document["data"]["content"].replace("\\", ""))


async def slack(house: House, one: Try) -> str:
    path = f"/actions/{next(_numbers)}"
    click = {
        "type": "block_actions",
        "user": {"id": one.person.chats["slack"]},
        "response_url": house.slack.url + path,
        "actions": [{"type": "button", "value": button_data(one.decision, one.token)}],
    }
    answer = await house.client.post("/api/channels/slack", **signed_for_slack(house, click))
    assert (answer.status_code, answer.content) == (200, b"")
    return _of_text(house.told.texts[path])


Door = Callable[[House, Try], Awaitable[str]]
BY_TOKEN: dict[str, Door] = {
    "token in path": token_in_path,
    "token in body": token_in_body,
    "page": page,
    "telegram": telegram,
    "discord": discord,
    "slack": slack,
}
BY_NAME: dict[str, Door] = {
    "signed in": signed_in,
    "bulk": bulk,
    "dashboard": dashboard,
    "dashboard bulk": dashboard_bulk,
    "command line": command_line,
}
BULK = ("bulk", "dashboard bulk")
"""They do not tell a vote from a decision."""
DOORS = {**BY_TOKEN, **BY_NAME}


def signed_for_discord(house: House, document: Any, key: Ed25519PrivateKey = DISCORD_KEY) -> dict[str, Any]:
    body, timestamp = json.dumps(document).encode(), str(house.plane.clock.now() // SECOND)
    signature = key.sign(timestamp.encode() + body).hex()
    return {"content": body, "headers": {"X-Signature-Ed25519": signature, "X-Signature-Timestamp": timestamp}}


def signed_for_slack(house: House, document: Any, secret: str = SLACK_SECRET) -> dict[str, Any]:
    body, timestamp = urlencode({"payload": json.dumps(document)}).encode(), str(house.plane.clock.now() // SECOND)
    signature = hmac.new(secret.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"content": body, "headers": {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": f"v0={signature}"}}


def _word(answer: Response) -> str:
    match answer.status_code:
        case 200 | 202:
            word: str = answer.json()["status"]
            return word
        case _:
            return _kind(answer.json()["type"])


def _kind(problem: str) -> str:
    return {
        "/problems/already-decided": "already",
        "/problems/approval-expired": "expired",
        "/problems/approval-withdrawn": "withdrawn",
        "/problems/may-not-decide": "not allowed",
        "/problems/approval-not-found": "unknown",
    }[problem]


def _named(answer: Answer) -> str:
    match answer:
        case Decided():
            return "decided"
        case Recorded():
            return "recorded"
        case AlreadyDecided():
            return "already"
        case Expired():
            return "expired"
        case Withdrawn():
            return "withdrawn"
        case NotAllowed():
            return "not allowed"
        case _:
            return "unknown"


def _of_text(text: str) -> str:
    for begin, word in (
        ("You have already voted", "not allowed"),
        ("You approved it", "decided"),
        ("You denied it", "decided"),
        ("Decided 1.", "decided"),
        ("Your approval counts", "recorded"),
        ("It was already", "already"),
        ("It expired on", "expired"),
        ("The job was cancelled", "withdrawn"),
        ("This link or button", "unknown"),
        ("There is no approval", "unknown"),
        (IN_PROGRESS, "late"),
        (NOT_SAVED, "nothing"),
    ):
        if text.startswith(begin):
            return word
    return "not allowed"


@asynccontextmanager
async def open_house(database_url: str) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        told = Told()
        slack_server = await stack.enter_async_context(served(told))
        plane = await stack.enter_async_context(
            throwaway_plane(
                database_url,
                telegram_webhook_secret=TELEGRAM_SECRET,
                discord_public_key=DISCORD_KEY.public_key().public_bytes_raw().hex(),
                slack_bot_token="xoxb-1",
                slack_signing_secret=SLACK_SECRET,
                slack_url=slack_server.url,
            )
        )
        app = dashboard_of(plane)
        client = AsyncClient(transport=ASGITransport(app, raise_app_exceptions=False), base_url=ROOT)
        await stack.enter_async_context(client)
        yield House(plane, app, client, slack_server, told, plane.store)
