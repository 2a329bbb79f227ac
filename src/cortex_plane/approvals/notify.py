"""Notifies approvers of requests on all their channels, and updates the messages when the request is closed.

one job per approver ──▶ one job per channel: commit a token ──▶ send the message ──▶ record the delivery
the request closes ──▶ one job per approver ──▶ one job per sent message: edit it

Each job is retried separately, so that one that hangs or fails does not delay the others.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cortex_plane.agents.code import AgentCode
from cortex_plane.agents.directory import Directory
from cortex_plane.agents.model import AgentConfig
from cortex_plane.approvals.channels.base import Channel, ChannelBusy, ChannelDown, ChannelRefused
from cortex_plane.approvals.decisions import TOKEN_BYTES, ApprovalToken, mint
from cortex_plane.approvals.messages import Address, closed_of, key_of, message_of, one_line, sent_of, shortened
from cortex_plane.approvals.model import NOTIFY_AGENT, ApprovalId, ApprovalRequest, Notification, Purpose
from cortex_plane.durable.context import Context
from cortex_plane.errors import Contended
from cortex_plane.ids import derived_id
from cortex_plane.jobs.model import INTERNAL_QUEUE, JobId, NewJob
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.json import encode
from cortex_plane.people.model import LinkedChannel, UserId
from cortex_plane.worker.failures import PermanentFailure, RetryLater

if TYPE_CHECKING:
    from cortex_plane.stores import Store

# Retries for about half a day, at most 15 minutes apart, so that a recovered service is used soon.
NOTIFY_CONFIG = AgentConfig(
    queue=INTERNAL_QUEUE,
    retry=RetryPolicy(max_retries=100, backoff=Backoff(base_seconds=5.0, max_seconds=900.0)),
    timeout_seconds=90.0,
)

SETTINGS = {
    "telegram": "CORTEX_TELEGRAM_BOT_TOKEN",
    "discord": "CORTEX_DISCORD_BOT_TOKEN",
    "slack": "CORTEX_SLACK_BOT_TOKEN",
    "email": "CORTEX_SMTP_URL",
}
"""The setting that enables each channel."""

WITHOUT_EDITS = frozenset({"email", "webhook"})
"""Channels whose messages cannot be edited, known even to workers on which the channel is not configured."""

WORDS_LIMIT = 500
REVOKED = "the channel was unlinked, or the account disabled"

TokenBytes = Callable[[int], bytes]
Output = dict[str, Any]


def notify_agent(
    store: Store, channels: Mapping[str, Channel], public_url: str, token_bytes: TokenBytes = secrets.token_bytes
) -> AgentCode:
    notifier = Notifier(store, Directory(store), channels, public_url, token_bytes)

    async def notify(
        ctx: Context,
        approval_request_id: str,
        user_account_id: str,
        purpose: Purpose,
        channel_id: str | None = None,
        message: str | None = None,
    ) -> Output:
        request = await store.approvals.get(ApprovalId(approval_request_id))
        if request is None:
            return _not_sent("the request was removed")
        errand = Errand(ctx, request, UserId(user_account_id), purpose)
        if message is not None:
            return await notifier.edit(errand, message)
        if purpose == "settle" or not request.is_open:
            return await notifier.settle(errand)
        return await (notifier.fan_out(errand) if channel_id is None else notifier.send(errand, channel_id))

    return AgentCode(NOTIFY_AGENT, notify, "async", NOTIFY_CONFIG)


@dataclass(frozen=True, slots=True)
class Errand:
    """One approver to notify about one request."""

    ctx: Context
    request: ApprovalRequest
    user_id: UserId
    purpose: Purpose

    @property
    def payload(self) -> dict[str, str]:
        return {"approval_request_id": self.request.id, "user_account_id": self.user_id, "purpose": self.purpose}


@dataclass(frozen=True, slots=True)
class Notifier:
    store: Store
    directory: Directory
    channels: Mapping[str, Channel]
    public_url: str
    token_bytes: TokenBytes

    # -- asking ----------------------------------------------------------------------------------

    async def fan_out(self, errand: Errand) -> Output:
        links = await self._links(errand)
        parts = [(derived_id(errand.ctx.job_id, link.id), {"channel_id": link.id}) for link in links]
        return await self._submit(errand, parts)

    async def send(self, errand: Errand, channel_id: str) -> Output:
        link = next((link for link in await self._links(errand) if link.id == channel_id), None)
        if link is None:
            return _not_sent(REVOKED)
        try:
            return await self._deliver(errand, link)
        except (PermanentFailure, RetryLater, ChannelDown) as error:
            failed = Notification(errand.user_id, link.channel_type, link.channel_user_id, None, error=_words(error))
            with suppress(Contended):
                await self.store.approvals.record_notification(errand.request.id, failed)
            raise

    async def _deliver(self, errand: Errand, link: LinkedChannel) -> Output:
        channel = self._channel(errand, link.channel_type)
        token = mint(self.token_bytes(TOKEN_BYTES))
        # Store the hash first: a message must never contain a token that the server does not know.
        if not await self._put(errand, link, token):
            errand = await self._reloaded(errand)
            return _not_sent(REVOKED) if errand.request.is_open else await self.settle(errand)
        notification = await self._sent(errand, link, channel, token)
        is_open = await self.store.approvals.record_notification(errand.request.id, notification, token.hash)
        sent: Output = {"sent": True, "channel": link.channel_type}
        # The request was decided while the message was being sent, so this message needs its closing edit too.
        return sent if is_open else {**sent, **await self.settle(await self._reloaded(errand))}

    async def _links(self, errand: Errand) -> list[LinkedChannel]:
        user = await self.store.people.get_user(errand.user_id)
        may_be_asked = user is not None and user.disabled_at is None
        return await self.store.people.channels(errand.user_id) if may_be_asked else []

    async def _put(self, errand: Errand, link: LinkedChannel, token: ApprovalToken) -> bool:
        return await self.store.approvals.put_token(
            errand.request.id, errand.user_id, link.channel_type, link.channel_user_id, token.hash
        )

    async def _sent(self, errand: Errand, link: LinkedChannel, channel: Channel, token: ApprovalToken) -> Notification:
        message = message_of(errand.request, errand.purpose, token, self.public_url)
        with translated(token):
            sent = await channel.send(message, Address(link.channel_user_id))
        return Notification(errand.user_id, link.channel_type, link.channel_user_id, sent.message_id, dict(sent.where))

    # -- closing messages -----------------------------------------------------------------------

    async def settle(self, errand: Errand) -> Output:
        """Submits one job for each message to close. Idempotent: job ids are derived."""
        parts = [
            (derived_id(errand.request.id, f"settle {name}"), {"purpose": "settle", "message": key_of(errand.request, one)})
            for name, one in self._to_close(errand).items()
        ]
        return await self._submit(errand, parts)

    def _to_close(self, errand: Errand) -> dict[str, Notification]:
        """All editable messages; of messages that cannot be edited, the last one to each address."""
        found: dict[str, Notification] = {}
        for one in errand.request.notifications:
            if one.user_account_id == errand.user_id and one.error is None:
                edits = getattr(self.channels.get(one.channel_type), "edits", one.channel_type not in WITHOUT_EDITS)
                name = key_of(errand.request, one) if edits else f"{one.channel_type} {one.channel_user_id}"
                found[name] = one
        return found

    async def edit(self, errand: Errand, message: str) -> Output:
        request = errand.request
        found = next((one for one in request.notifications if key_of(request, one) == message), None)
        if found is None or request.is_open:
            return _not_sent("the message does not exist")
        channel = self._channel(errand, found.channel_type)
        with translated():
            await channel.edit(sent_of(found), closed_of(request))
        return {"edited": True, "channel": found.channel_type}

    async def _reloaded(self, errand: Errand) -> Errand:
        request = await self.store.approvals.get(errand.request.id)
        return errand if request is None else Errand(errand.ctx, request, errand.user_id, errand.purpose)

    # -- helpers --------------------------------------------------------------------------------

    def _channel(self, errand: Errand, channel_type: str) -> Channel:
        channel = self.channels.get(channel_type)
        if channel is None:
            raise PermanentFailure(
                f"Channel {channel_type} is not configured on this worker. Set {SETTINGS.get(channel_type, 'Plane(channels=…)')} "
                f"for all workers, then run: cortex jobs retry {errand.ctx.job_id}"
            )
        return channel

    async def _submit(self, errand: Errand, parts: Iterable[tuple[str, Mapping[str, str]]]) -> Output:
        agent = await self.directory.agent(NOTIFY_AGENT)
        jobs = [
            NewJob(
                id=JobId(job_id),
                tenant_id=errand.ctx.tenant_id,
                agent_id=agent.id,
                job_type=agent.job_type,
                queue=INTERNAL_QUEUE,
                payload=encode({**errand.payload, **more}),
                max_retries=NOTIFY_CONFIG.retry.max_retries,
                created_by=NOTIFY_AGENT,
            )
            for job_id, more in parts
        ]
        if jobs:
            await self.store.jobs.submit(jobs)
        return {"submitted": len(jobs)}


@contextmanager
def translated(token: ApprovalToken | None = None) -> Iterator[None]:
    """Translates errors of channels to failures of the job. Custom channels may raise anything. Removes the token."""

    def words(error: Exception) -> str:
        return str(error) if token is None else str(error).replace(token.plaintext, "[hidden]")

    try:
        yield
    except ChannelRefused as error:
        raise PermanentFailure(words(error)) from None
    except ChannelBusy as error:
        raise RetryLater(words(error), error.retry_after_seconds) from None
    except Exception as error:
        raise ChannelDown(words(error) or type(error).__name__) from None


def _words(error: Exception) -> str:
    return shortened(one_line(str(error)), WORDS_LIMIT)


def _not_sent(reason: str) -> Output:
    return {"sent": False, "reason": reason}
