"""A plane with all five services on this machine, people who are reached there, and an agent that asks them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from cortex_plane import Context, JobHandle
from cortex_plane.approvals.decisions import Answer
from cortex_plane.approvals.model import NOTIFY_AGENT, ApprovalRequest, Escalation, Verdict
from cortex_plane.approvals.service import decide_approval, decide_by_token
from cortex_plane.approvals.views import NotificationView
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Job, JobId
from cortex_plane.people.model import LinkedChannel, User
from cortex_plane.people.users import add_user, find_user, link_channel
from cortex_plane.stores import Store
from cortex_plane.testing import TestPlane, throwaway_plane
from tests.adapters.channels import discord_fake, slack_fake, telegram_fake
from tests.adapters.channels.discord_fake import Discord
from tests.adapters.channels.server import Fake, Server, served
from tests.adapters.channels.slack_fake import Slack
from tests.adapters.channels.telegram_fake import Telegram
from tests.built_in.fakes import Smtp, smtp
from tests.webhooks.receiver import Receiver, receiver

TOKEN = re.compile(r"cortex_apr_1_[A-Za-z0-9_-]{43}")
CHATS = ("telegram", "discord", "slack")
ALL = (*CHATS, "email", "webhook")
ADDRESSES = {
    "telegram": str(telegram_fake.CHAT_ID),
    "discord": discord_fake.USER_ID,
    "slack": slack_fake.USER_ID,
}
FAKES: dict[str, Callable[[], Fake]] = {"telegram": Telegram, "discord": Discord, "slack": Slack}
PUBLIC_URL = "https://plane.example.com"


@dataclass
class Services:
    """What runs on this machine in place of the real ones."""

    telegram: Server
    discord: Server
    slack: Server
    mail: Smtp
    hook: Receiver

    @property
    def settings(self) -> dict[str, str]:
        return {
            "public_url": PUBLIC_URL,
            "telegram_bot_token": telegram_fake.BOT_TOKEN,
            "telegram_webhook_secret": "webhook-secret",
            "telegram_url": self.telegram.url,
            "discord_bot_token": discord_fake.BOT_TOKEN,
            "discord_public_key": "ab" * 32,
            "discord_url": self.discord.url,
            "slack_bot_token": slack_fake.BOT_TOKEN,
            "slack_signing_secret": "signing-secret",
            "slack_url": self.slack.url,
            "smtp_url": f"smtp://bot:hush@127.0.0.1:{self.mail.port}?from=plane@example.com&tls=none",
        }

    def emails_to(self, name: str) -> list[str]:
        """Subjects and texts."""
        return [
            f"{email['Subject']}\n{email.get_body(('plain',)).get_content()}"  # type: ignore[union-attr]
            for _, [address], email in self.mail.envelopes
            if address == f"{name}@example.com"
        ]

    def events(self) -> list[dict[str, Any]]:
        return [event for message in self.hook.messages if (event := message.event)["type"].startswith("approval.")]

    def tokens(self, service: str) -> list[str]:
        """In the order in which they were sent; a message may hold its token several times."""
        match service:
            case "email":
                texts = [email.as_string().replace("=\n", "") for _, _, email in self.mail.envelopes]
            case "webhook":
                texts = [message.body.decode() for message in self.hook.messages]
            case _:
                texts = [request.body.decode() for request in getattr(self, service).requests]
        return list(dict.fromkeys(token for text in texts for token in TOKEN.findall(text)))

    def shown(self, service: str) -> str:
        """What the newest message says now."""
        match service:
            case "telegram":
                fake: Any = self.telegram.fake
                return str(list(fake.messages.values())[-1])
            case "discord" | "slack":
                fake = getattr(self, service).fake
                return str(list(fake.messages.values())[-1])
            case "email":
                return self.emails_to("alice")[-1]
            case _:
                return str(self.events()[-1])


class Office:
    def __init__(self, plane: TestPlane, services: Services, store: Store) -> None:
        self.plane, self.services, self.store, self.clock = plane, services, store, plane.clock

        @plane.agent("release-bot")
        async def release(ctx: Context, gate: dict[str, Any]) -> str:
            escalate = Escalation(**gate.pop("escalate")) if "escalate" in gate else None
            asked = {"details": {"image": "app:1.4.0"}, "escalate": escalate, **gate}
            return (await ctx.approval("Deploy 1.4.0 to production", **asked)).outcome

        self.release = release

    async def person(self, name: str, *channels: str) -> User:
        user = await add_user(self.store, new_id, name, display_name=name.title())
        for channel in channels:
            await self.link(name, channel)
        return user

    async def user(self, name: str) -> User:
        return await find_user(self.store, name)

    async def link(self, name: str, channel: str) -> LinkedChannel:
        match channel:
            case "email":
                address = f"{name}@example.com"
            case "webhook":
                added = await self.plane.webhooks.add(self.services.hook.url, allow_private=True, events=["job.failed"])
                address = added.endpoint.id
            case _:
                address = ADDRESSES[channel]
        return await link_channel(self.store, new_id, name, channel, address)

    async def asked(self, *approvers: str, **gate: Any) -> JobHandle[str]:
        """A job that waits for them; they have been told as far as their channels let us."""
        job = await self.release.submit(gate={"approvers": list(approvers), **gate})
        await self.plane.work()
        return job

    async def request(self, job: JobHandle[str]) -> ApprovalRequest:
        [request] = await self.store.approvals.list(job_id=job.id, open_only=False)
        return request

    async def click(self, service: str, decision: Verdict = "approved", *, which: int = -1, reason: str | None = None) -> Answer:
        """As whoever got that message; then everything that follows."""
        token = self.services.tokens(service)[which]
        answer = await decide_by_token(self.store, token, decision, reason=reason, door=service)
        await self.plane.work()
        return answer

    async def decide(self, job: JobHandle[str], user: User, decision: Verdict = "approved") -> Answer:
        return await decide_approval(self.store, (await self.request(job)).id, user.id, decision, door="page")

    async def told(self, job: JobHandle[str]) -> Sequence[NotificationView]:
        return await self.plane.approvals.notifications(await self.request(job))

    async def notices(self, **payload: str) -> list[Job]:
        """The plane's own jobs with these arguments, oldest first."""
        found = [
            await self.plane.jobs.get(one.id)
            for one in await self.store.jobs.list(queue="cortex", limit=1000)
            if one.job_type == NOTIFY_AGENT
        ]
        return [job for job in sorted(found, key=lambda job: job.position) if payload.items() <= job.payload.items()]

    async def parts(self, **payload: str) -> list[Job]:
        """Only those for one channel or one message."""
        return [job for job in await self.notices(**payload) if job.payload.keys() & {"channel_id", "message"}]

    async def job(self, job_id: str) -> Job:
        return await self.plane.jobs.get(JobId(job_id))


@asynccontextmanager
async def services() -> AsyncIterator[Services]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        chats = {name: await enter(served(fake())) for name, fake in FAKES.items()}
        yield Services(**chats, mail=await enter(smtp()), hook=await enter(receiver()))


@asynccontextmanager
async def open_office(database_url: str) -> AsyncIterator[Office]:
    async with services() as running, throwaway_plane(database_url, **running.settings) as plane:
        yield Office(plane, running, plane.store)
