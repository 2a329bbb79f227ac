"""`plane.webhooks`: add, list, enable, disable, remove and test endpoints; redeliver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cortex_plane.agents.directory import Directory
from cortex_plane.agents.model import AgentRecord
from cortex_plane.audit.model import AuditEntry
from cortex_plane.clock import Clock, as_datetime
from cortex_plane.errors import Conflict, InvalidInput
from cortex_plane.jobs.changes import retry_job
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.lookup import find_job
from cortex_plane.jobs.model import DEFAULT_TENANT, INTERNAL_QUEUE, AgentId, JobId, NewJob
from cortex_plane.json import encode
from cortex_plane.webhooks.model import (
    OPERATOR_EVENTS,
    SECRET_BYTES,
    TEST_EVENT,
    WEBHOOK_AGENT,
    WEBHOOK_CONFIG,
    AddedEndpoint,
    DeadLetter,
    DeadLetterPage,
    Endpoint,
    EndpointId,
    EndpointNotFound,
    NewEndpoint,
    channel_address,
    check_description,
    check_events,
    check_secret,
    check_target,
    new_secret,
)

if TYPE_CHECKING:
    from cortex_plane.ids import NewId
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


SHORTEST_PREFIX = 4


async def find_endpoint(store: Store, id_or_prefix: str) -> Endpoint:
    return endpoint_named(id_or_prefix, await store.webhooks.list())


def endpoint_named(id_or_prefix: str, endpoints: Sequence[Endpoint]) -> Endpoint:
    prefix = str(id_or_prefix).strip().lower()
    if len(prefix) < SHORTEST_PREFIX:
        raise InvalidInput(f"Give at least {SHORTEST_PREFIX} characters of the endpoint's id.", field="id")
    found = [endpoint for endpoint in endpoints if endpoint.id.startswith(prefix)]
    if not found:
        raise EndpointNotFound(prefix)
    if len(found) > 1:
        raise InvalidInput(f"{prefix} matches {len(found)} webhook endpoints. Give more characters of the id.", field="id")
    return found[0]


# -- add endpoint ------------------------------------------------------------------------------
# Adds a webhook endpoint: an address that is told, by signed messages, when jobs of its tenant end.


RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class EndpointWish:
    """What a caller asks for. Without a secret, one is made and shown once."""

    url: str
    events: Sequence[str] | None = None
    """None: all, or for operators in a channel what needs them."""
    tenant: str = DEFAULT_TENANT
    secret: str | None = field(default=None, repr=False)
    description: str | None = None
    allow_private: bool = False
    created_by: str | None = None


async def add_endpoint(
    store: Store, directory: Directory, new_id: NewId, wish: EndpointWish, random_bytes: RandomBytes = token_bytes
) -> AddedEndpoint:
    made = new_secret(random_bytes(SECRET_BYTES)) if wish.secret is None else None
    endpoint = NewEndpoint(
        id=EndpointId(new_id()),
        tenant_id=await directory.tenant(wish.tenant),
        url=check_target(wish.url, allow_private=wish.allow_private),
        events=check_events(_default_events(wish.url) if wish.events is None else wish.events),
        secret=made or check_secret(wish.secret or ""),
        description=check_description(wish.description),
        allow_private=bool(wish.allow_private),
        created_by=wish.created_by,
    )
    encode([endpoint.url, endpoint.description], "endpoint")
    # Events are written as jobs of this agent, also before the first worker has come to announce it.
    await store.agents.register([AgentRecord(AgentId(new_id()), WEBHOOK_AGENT, WEBHOOK_CONFIG)])
    await store.webhooks.add(endpoint, _entry(endpoint))
    return AddedEndpoint(await find_endpoint(store, endpoint.id), made)


def _default_events(url: object) -> Sequence[str]:
    return OPERATOR_EVENTS if isinstance(url, str) and channel_address(url) else ("*",)


def _entry(endpoint: NewEndpoint) -> AuditEntry:
    """Only the host, or the channel: the rest of an address may hold a key."""
    reached = channel_address(endpoint.url)
    host = reached[0] if reached else urlsplit(endpoint.url).hostname
    details = {"host": host, "events": list(endpoint.events), "allow_private": endpoint.allow_private}
    return AuditEntry(
        "WEBHOOK_ADDED",
        "webhook_endpoint",
        endpoint.id,
        actor=endpoint.created_by,
        tenant_id=endpoint.tenant_id,
        details=details,
    )


# -- remove endpoint ---------------------------------------------------------------------------
# Removes a webhook endpoint. What was still to be delivered to it is dropped when its turn comes.


async def remove_endpoint(store: Store, id_or_prefix: str, *, actor: str | None = None) -> EndpointId:
    endpoint = await find_endpoint(store, id_or_prefix)
    entry = AuditEntry("WEBHOOK_REMOVED", "webhook_endpoint", endpoint.id, actor=actor, tenant_id=endpoint.tenant_id)
    if not await store.webhooks.remove(endpoint.id, entry):
        raise EndpointNotFound(endpoint.id)
    return endpoint.id


# -- switch endpoint ---------------------------------------------------------------------------
# Switches a webhook endpoint on or off. Doing so a second time changes nothing and is not recorded.


async def enable_endpoint(store: Store, id_or_prefix: str, *, actor: str | None = None) -> Endpoint:
    endpoint = await find_endpoint(store, id_or_prefix)
    await store.webhooks.enable(endpoint.id, _switch_entry("WEBHOOK_ENABLED", endpoint, actor, None))
    return await find_endpoint(store, endpoint.id)


async def disable_endpoint(store: Store, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Endpoint:
    endpoint = await find_endpoint(store, id_or_prefix)
    await store.webhooks.disable(endpoint.id, reason, _switch_entry("WEBHOOK_DISABLED", endpoint, actor, reason))
    return await find_endpoint(store, endpoint.id)


def _switch_entry(action: str, endpoint: Endpoint, actor: str | None, reason: str | None) -> AuditEntry:
    return AuditEntry(action, "webhook_endpoint", endpoint.id, actor=actor, reason=reason, tenant_id=endpoint.tenant_id)


# -- send test event ---------------------------------------------------------------------------
# Sends one message to a webhook endpoint, whatever it listens to, so that its owner sees that everything works.


async def send_test_event(
    store: Store, directory: Directory, clock: Clock, new_id: NewId, id_or_prefix: str, *, actor: str | None = None
) -> JobId:
    endpoint = await find_endpoint(store, id_or_prefix)
    if not endpoint.enabled:
        raise Conflict(f"Webhook endpoint {endpoint.id} is disabled. To enable it: cortex webhooks enable {endpoint.id}")
    agent = await directory.agent(WEBHOOK_AGENT)
    job = NewJob(
        id=JobId(new_id()),
        tenant_id=endpoint.tenant_id,
        agent_id=agent.id,
        job_type=agent.job_type,
        queue=INTERNAL_QUEUE,
        payload=encode(_payload(endpoint, new_id(), clock)),
        max_retries=0,
        created_by=actor,
    )
    await store.jobs.submit([job])
    return job.id


def _payload(endpoint: Endpoint, event_id: str, clock: Clock) -> dict[str, Any]:
    return {
        "endpoint_id": endpoint.id,
        "event_id": f"evt_{event_id.replace('-', '')}",
        "event": {
            "type": TEST_EVENT,
            "timestamp": as_datetime(clock.now()).isoformat(),
            "data": {"endpoint_id": endpoint.id, "events": endpoint.events},
        },
    }


# -- redeliver webhook -------------------------------------------------------------------------
# Sends a message again whose delivery ended: a new job for the same event, under the same event id.


async def redeliver_webhook(store: Store, new_id: NewId, id_or_prefix: str, *, actor: str | None = None) -> JobId:
    job = await find_job(store, id_or_prefix)
    if job.job_type != WEBHOOK_AGENT:
        raise InvalidInput(
            f"Job {job.id} is not the delivery of a webhook. To see those that failed: cortex webhooks dead-letters", field="id"
        )
    return await retry_job(store, new_id, job.id, actor=actor)


# -- webhooks ----------------------------------------------------------------------------------
# Webhooks as a program uses them: `plane.webhooks.add("https://…")`.


LONGEST_LIST = 1_000


class WebhookService:
    """Who is told when jobs end. Messages are signed as Standard Webhooks says; ids may be given by their first part."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(
        self,
        url: str,
        *,
        events: Sequence[str] | None = None,
        tenant: str = DEFAULT_TENANT,
        secret: str | None = None,
        description: str | None = None,
        allow_private: bool = False,
        actor: str | None = None,
    ) -> AddedEndpoint:
        """Events: job.completed, job.failed, job.cancelled, job.held, job.uncertain, approval.undecidable, job.*, approval.* or
        *. Without a secret one is made, and shown only here.

        The URL may name operators in a channel instead: `email:ops@example.com`, `slack:C024BE7LH`, `telegram:…`, `discord:…`.
        They are told of job.held, job.uncertain and approval.undecidable, unless other events are given."""
        store = self._plane.store
        wish = EndpointWish(url, events, tenant, secret, description, allow_private, actor)
        return await add_endpoint(store, Directory(store), self._plane._ids, wish)

    async def remove(self, id_or_prefix: str, *, actor: str | None = None) -> EndpointId:
        return await remove_endpoint(self._plane.store, id_or_prefix, actor=actor)

    async def enable(self, id_or_prefix: str, *, actor: str | None = None) -> Endpoint:
        return await enable_endpoint(self._plane.store, id_or_prefix, actor=actor)

    async def disable(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Endpoint:
        return await disable_endpoint(self._plane.store, id_or_prefix, actor=actor, reason=reason)

    async def test(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        """Sends one message, whatever the endpoint listens to. The handle is that of the delivery."""
        store, plane = self._plane.store, self._plane
        job_id = await send_test_event(store, Directory(store), plane.clock, plane._ids, id_or_prefix, actor=actor)
        return plane.job(job_id)

    async def dead_letters(self, *, tenant: str | None = None, before: str | None = None, limit: int = 50) -> list[DeadLetter]:
        """What could not be delivered and was not sent again, newest first; however long it takes to find so many."""
        page = await self.dead_letter_page(tenant=tenant, before=before, limit=limit)
        found = page.letters
        while page.next_before is not None and len(found) < limit:
            page = await self.dead_letter_page(tenant=tenant, before=page.next_before, limit=limit - len(found))
            found += page.letters
        return found

    async def dead_letter_page(self, *, tenant: str | None = None, before: str | None = None, limit: int = 50) -> DeadLetterPage:
        """The same in steps that never take long: a page may be short and still have a next one, at its `next_before`."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_LIST:
            raise InvalidInput(f"limit must be a whole number from 1 to {LONGEST_LIST:,}, not {limit!r:.40}.", field="limit")
        store = self._plane.store
        tenant_id = None if tenant is None else await Directory(store).tenant(tenant)
        last = None if before is None else JobId(before)
        return await store.webhooks.dead_letters(tenant_id, before=last, limit=limit)

    async def redeliver(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        """Sends the message of an ended delivery again, under the same event id."""
        return JobHandle(
            self._plane.jobs, await redeliver_webhook(self._plane.store, self._plane._ids, id_or_prefix, actor=actor)
        )

    async def list(self, *, tenant: str | None = None) -> list[Endpoint]:
        store = self._plane.store
        return await store.webhooks.list(None if tenant is None else await Directory(store).tenant(tenant))
