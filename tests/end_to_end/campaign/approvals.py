"""The campaign of approvals: five services with faults in front, people who decide by the newest message that they have, and what
must hold in the end."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from cortex_plane import JobStatus, Plane
from cortex_plane.approvals.decisions import Answer, Decided, Unknown
from cortex_plane.approvals.messages import key_of
from cortex_plane.approvals.model import ApprovalId, Verdict
from cortex_plane.approvals.service import decide_by_token
from cortex_plane.json import loads
from tests.adapters.channels.discord_fake import Discord
from tests.adapters.channels.slack_fake import Slack
from tests.adapters.channels.telegram_fake import Telegram
from tests.contract.support import Raw
from tests.end_to_end.campaign.faults import Chat, Hook, Mail, Noted, Trouble, with_trouble
from tests.end_to_end.campaign.fleet import Schedulers
from tests.notifications.office import ADDRESSES, TOKEN, Services

PEOPLE = {"alice": ("telegram", "email"), "bob": ("slack", "email"), "carol": ("discord", "webhook"), "dave": ("email",)}
CHATS = ("telegram", "discord", "slack")
CHANNELS = (*CHATS, "email", "webhook")
NUMBER = re.compile(r"Deploy (\d+) to production")
TTL_SECONDS = float(os.environ.get("CAMPAIGN_TTL", "90"))
REMIND_SECONDS = 25.0
LEFT_TO_EXPIRE = 4
"""Nobody decides about each fourth request."""
REPAIR_STEPS = 6
"""For so many turns a link may be dead: the job that sent it was with a worker that died, and is not yet with another."""


@dataclass
class Message:
    """As a service has it now. `token` is what it held when it was sent; `closed` that it says how the request ended; `in_doubt`
    that whoever sent it was not answered."""

    channel: str
    to: str
    number: int
    token: str | None
    closed: bool
    in_doubt: bool

    @property
    def errand(self) -> Errand:
        return Errand(self.channel, self.to, self.number, "asks" if self.token else "closes")


class Errand(NamedTuple):
    """What one or more jobs are for: to ask somebody at an address about a request, or to tell how it ended."""

    channel: str
    to: str
    number: int
    what: str

    def __str__(self) -> str:
        return f"#{self.number}, {self.channel} to {self.to}, {self.what}"


@dataclass
class Jobs:
    """Of one errand. `done` have sent or edited something; `interrupted` are runs whose worker was lost."""

    done: int = 0
    interrupted: int = 0


@dataclass
class Tally:
    sent: int = 0
    closed: int = 0
    doubled: int = 0
    lost: int = 0


@dataclass
class World:
    """What runs on this machine in place of the real services."""

    services: Services

    def troubles(self) -> dict[str, Trouble]:
        chats = {name: getattr(self.services, name).trouble for name in ("telegram", "discord", "slack")}
        return {**chats, "email": self.services.mail.trouble, "webhook": self.services.hook.trouble}  # type: ignore[attr-defined]

    def rate(self, rate: int) -> None:
        for trouble in self.troubles().values():
            trouble.rate = rate

    def messages(self) -> Iterator[Message]:
        """Of each service, in the order in which it took them."""
        for name in ("telegram", "discord", "slack"):
            server: Any = getattr(self.services, name)
            for key, shown in server.fake.messages.items():
                text, token = str(shown), server.fake.tokens[key]
                doubt = token in server.trouble.in_doubt
                yield Message(name, ADDRESSES[name], _number(text), token, not TOKEN.search(text), doubt)
        mail: Any = self.services.mail
        for _, [address], email in mail.envelopes:
            text = f"{email['Subject']}\n{email.get_body(('plain',)).get_content()}"
            token = _token(text)
            yield Message("email", address, _number(text), token, token is None, id(email) in mail.trouble.in_doubt)
        numbers: dict[str, int] = {}
        hook: Any = self.services.hook
        for event in hook.taken:
            text, request_id = event.body.decode(), event.event["data"].get("request_id")
            if not event.event["type"].startswith("approval."):
                continue
            token = _token(text)
            if token:
                numbers[request_id] = _number(text)
            yield Message("webhook", "webhook", numbers[request_id], token, token is None, id(event) in hook.trouble.in_doubt)


def _document(stored: Any) -> dict[str, Any]:
    document = loads(stored) if isinstance(stored, str) else stored
    return document if isinstance(document, dict) else {}


def _token(text: str) -> str | None:
    found = TOKEN.search(text)
    return found.group() if found else None


def _number(text: str) -> int:
    found = NUMBER.search(text)
    assert found is not None, text[:400]
    return int(found.group(1))


@asynccontextmanager
async def opened_world(chance: random.Random) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        chats = {
            name: with_trouble(Chat(Noted(fake)), chance)
            for name, fake in (("telegram", Telegram()), ("discord", Discord()), ("slack", Slack()))
        }
        mail, hook = with_trouble(Mail(), chance), with_trouble(Hook(), chance)
        hook.taken = []
        for service in (*chats.values(), mail, hook):
            server = await asyncio.start_server(service, "127.0.0.1", 0)
            stack.callback(server.close)
            service.port = server.sockets[0].getsockname()[1]
        yield World(Services(**chats, mail=mail, hook=hook))


class Campaign:
    """Requests are opened and decided while everything goes wrong; then nothing does, until all is quiet."""

    def __init__(self, plane: Plane, world: World, fleet: Schedulers, raw: Raw, chance: random.Random, count: int) -> None:
        self.plane, self.world, self.fleet, self.raw, self.chance, self.count = plane, world, fleet, raw, chance, count
        self.jobs: dict[int, str] = {}
        self.decided: dict[int, Verdict] = {}
        self.repeated = 0
        self.dead: dict[str, int] = {}
        """Newest links that opened nothing, and for how many turns."""
        self.faults: list[str] = []
        self.doubled: Counter[Errand] = Counter()

    async def people(self) -> None:
        for name, channels in PEOPLE.items():
            await self.plane.people.add(name, display_name=name.title())
            for channel in channels:
                address = ADDRESSES.get(channel, f"{name}@example.com")
                if channel == "webhook":
                    hook = await self.plane.webhooks.add(self.world.services.hook.url, allow_private=True, events=["job.failed"])
                    address = hook.endpoint.id
                await self.plane.people.link(name, channel, address)

    async def ask(self, how_many: int) -> None:
        for _ in range(how_many):
            number = len(self.jobs) + 1
            if number > self.count:
                return
            approvers = self.chance.sample(list(PEOPLE), self.chance.randint(1, 3))
            payload = {"number": number, "approvers": approvers, "ttl": TTL_SECONDS, "remind": REMIND_SECONDS}
            self.jobs[number] = (await self.plane.submit("deploy", payload)).id

    async def decide(self, share: float) -> None:
        """By the newest message of somebody, about some of the requests that are open. A third of the answers is lost, and the
        decision repeated."""
        newest: dict[int, dict[tuple[str, str], str]] = defaultdict(dict)
        for message in self.world.messages():
            if message.token is not None:
                newest[message.number][message.channel, message.to] = message.token
        for number, links in newest.items():
            if number in self.decided or number % LEFT_TO_EXPIRE == 0 or self.chance.random() >= share:
                continue
            token = self.chance.choice(list(links.values()))
            verdict: Verdict = self.chance.choice(["approved", "denied"])
            answer = await self._knock(token, verdict)
            if isinstance(answer, Decided):
                self.decided[number] = verdict
                self.dead.pop(token, None)
                if self.chance.random() < 1 / 3:
                    self.repeated += 1
                    if await self._knock(token, verdict) != answer:
                        self.faults.append(f"#{number}: the decision was repeated, and not answered as decided")
            elif isinstance(answer, Unknown) and await self._is_open(number):
                self.dead[token] = self.dead.get(token, 0) + 1
                if self.dead[token] > REPAIR_STEPS:
                    self.faults.append(f"#{number}: the newest link is dead")

    async def _knock(self, token: str, verdict: Verdict) -> Answer:
        return await decide_by_token(self.plane.store, token, verdict, door="page")

    async def _is_open(self, number: int) -> bool:
        return (await self.plane.jobs.get(self.jobs[number])).status is JobStatus.WAITING_FOR_APPROVAL

    async def is_over(self) -> bool:
        """Every request is closed, and nothing is left to be sent."""
        found = await self.raw(
            "select count(*) from cortex.job where finished_at is null and (job_type like '%.notify' or job_type = 'deploy')"
        )
        return found == [(0,)]

    async def judge(self) -> dict[str, Tally]:
        """The tally of each channel. What must hold is added to `faults`.

        A message is doubled when there are more of them than jobs that have sent one. That has a cause in the same errand, or it
        is a fault: its service took a message and did not say so, or the worker of a run was lost.
        """
        tallies = {channel: Tally() for channel in CHANNELS}
        messages: dict[Errand, list[Message]] = defaultdict(list)
        for message in self.world.messages():
            tally = tallies[message.channel]
            tally.sent += message.token is not None
            tally.closed += message.closed
            messages[message.errand].append(message)
        jobs = await self._jobs(tallies)
        for errand in {*messages, *jobs}:
            self._judge_errand(errand, messages[errand], jobs[errand], tallies[errand.channel])
        for errand in messages:
            self._judge_closing(errand, messages, jobs[errand].done)
        self.faults += [f"{channel}: {tally.lost} lost" for channel, tally in tallies.items() if tally.lost]
        await self._judge_requests()
        return tallies

    def _judge_errand(self, errand: Errand, messages: list[Message], jobs: Jobs, tally: Tally) -> None:
        if errand.what == "closes" and errand.channel in CHATS:
            return  # By edits, of which any number looks the same.
        in_doubt, extra = sum(message.in_doubt for message in messages), len(messages) - jobs.done
        tally.doubled, tally.lost = tally.doubled + max(0, extra), tally.lost + max(0, -extra)
        self.doubled[errand] = max(0, extra)
        if extra > in_doubt + jobs.interrupted:
            causes = f"{in_doubt} answered in doubt, {jobs.interrupted} runs interrupted"
            self.faults.append(f"{errand}: {len(messages)} messages from {jobs.done} jobs; {causes}")

    def _judge_closing(self, errand: Errand, messages: dict[Errand, list[Message]], known: int) -> None:
        """Every chat message says how it ended, but for doubles, whose id nobody was told. Elsewhere one message says so to each
        address to which one is known to have gone."""
        asked, closing = errand._replace(what="asks"), errand._replace(what="closes")
        if errand == closing and asked not in messages:
            self.faults.append(f"{errand}: nobody asked there")
        if errand != asked:
            return
        if errand.channel in CHATS:
            left = [message for message in messages[errand] if not message.closed]
            if len(left) > self.doubled[errand]:
                self.faults.append(f"{errand}: {len(left)} messages were never edited, and {self.doubled[errand]} are doubles")
        elif known and closing not in messages:
            self.faults.append(f"{errand}: nobody heard there how it ended")

    async def _jobs(self, tallies: dict[str, Tally]) -> dict[Errand, Jobs]:
        """What the jobs say that they did, by errand. One that has not ended well is lost."""
        numbers = {job_id: number for number, job_id in self.jobs.items()}
        requests = {str(key): numbers[str(job)] for key, job in await self.raw("select id, job_id from cortex.approval_request")}
        links = await self.raw("select id, channel_type, channel_user_id from cortex.channel_mapping")
        addresses = {str(key): (kind, to if kind != "webhook" else "webhook") for key, kind, to in links}
        found = await self.raw(
            "select j.id, j.status, j.payload, j.output, j.error, (select count(*) from cortex.job_run r where r.job_id = j.id"
            " and r.error = 'worker lost') from cortex.job j where j.job_type like '%.notify'"
        )
        jobs: dict[Errand, Jobs] = defaultdict(Jobs)
        for job_id, status, payload, output, error, interrupted in found:
            asked, said = _document(payload), _document(output)
            if status != "COMPLETED":
                channel = next((name for name in CHANNELS if name in str(error).lower()), "email")
                tallies[channel].lost += 1
                self.faults.append(f"notification {job_id} is {status}: {str(error)[:200]}")
                continue
            number = requests[asked["approval_request_id"]]
            if channel_id := asked.get("channel_id"):
                jobs[Errand(*addresses[channel_id], number, "asks")].done += bool(said.get("sent"))
                jobs[Errand(*addresses[channel_id], number, "asks")].interrupted += interrupted
            elif asked.get("message"):
                errand = Errand(*await self._address(asked), number, "closes")
                jobs[errand].done += bool(said.get("edited"))
                jobs[errand].interrupted += interrupted
        return jobs

    async def _address(self, asked: dict[str, Any]) -> tuple[str, str]:
        """Of the message that a closing job is about."""
        request = await self.plane.store.approvals.get(ApprovalId(asked["approval_request_id"]))
        assert request is not None
        one = next(one for one in request.notifications if key_of(request, one) == asked["message"])
        return one.channel_type, one.channel_user_id if one.channel_type != "webhook" else "webhook"

    async def _judge_requests(self) -> None:
        for number, job_id in self.jobs.items():
            job = await self.plane.jobs.get(job_id)
            wanted = {"approved": "COMPLETED", "denied": "FAILED", None: "COMPLETED"}[self.decided.get(number)]
            if str(job.status) != wanted:
                self.faults.append(f"#{number}: the job is {job.status}, after {self.decided.get(number, 'nobody decided')}")
        twice = await self.raw(
            "select object_id from cortex.audit_log where action in ('APPROVAL_APPROVED', 'APPROVAL_DENIED', 'APPROVAL_EXPIRED')"
            " group by object_id having count(*) > 1"
        )
        self.faults += [f"request {request} was decided twice" for ((request),) in twice]

    def table(self, tallies: dict[str, Tally]) -> str:
        lines = [f"{'':10}{'sent':>6}{'closed':>8}{'refused':>9}{'in doubt':>10}{'doubled':>9}{'lost':>6}"]
        for channel, tally in tallies.items():
            trouble = self.world.troubles()[channel]
            lines.append(
                f"{channel:10}{tally.sent:6}{tally.closed:8}{trouble.refused:9}{trouble.uncertain:10}{tally.doubled:9}{tally.lost:6}"
            )
        return "\n".join(f"  {line}" for line in lines)


def moments(start: datetime, until: datetime, every: timedelta, offset: timedelta) -> set[datetime]:
    found, moment = set(), start + offset
    while moment <= until:
        found.add(moment)
        moment += every
    return found
