"""Endpoints, events and signatures of webhooks, and messages to operators."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from hmac import new as keyed_hash
from typing import Any, NewType
from urllib.parse import SplitResult, urlsplit

from cortex_plane.agents.model import AgentConfig
from cortex_plane.approvals.messages import lines, one_line, shortened
from cortex_plane.errors import InvalidInput, NotFound, did_you_mean
from cortex_plane.http_client import is_address, is_public
from cortex_plane.integrations.email.model import mailbox
from cortex_plane.jobs.model import INTERNAL_QUEUE, JobId, TenantId
from cortex_plane.jobs.retry import Backoff, RetryPolicy

EndpointId = NewType("EndpointId", str)

WEBHOOK_AGENT = "cortex.webhook"
EVENTS = ("job.completed", "job.failed", "job.cancelled", "job.held", "job.uncertain", "approval.undecidable")
OPERATOR_EVENTS = ("job.held", "job.uncertain", "approval.undecidable")
"""What operators are told of by a message, unless they ask for more."""
CHANNEL_ADDRESS = re.compile(r"(email|slack|telegram|discord):([^/].*)")
FILTERS = (*EVENTS, "job.*", "approval.*", "*")
TEST_EVENT = "webhook.test"

# Up to 5 s, 25 s, 2 min, 10 min, 52 min, 4 h, 6 h and 6 h apart: a receiver may be away for most of a day.
WEBHOOK_CONFIG = AgentConfig(
    queue=INTERNAL_QUEUE,
    retry=RetryPolicy(max_retries=8, backoff=Backoff(base_seconds=5.0, max_seconds=21_600.0, multiplier=5.0)),
    timeout_seconds=60.0,
)

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32
SHORTEST_SECRET, LONGEST_SECRET = 24, 64
URL_LIMIT = 2_000
DESCRIPTION_LIMIT = 500


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """A checked request to be told of events."""

    id: EndpointId
    tenant_id: TenantId
    url: str
    events: tuple[str, ...]
    secret: str = field(repr=False)
    description: str | None = None
    allow_private: bool = False
    created_by: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint as people see it. Its secret is nowhere in here."""

    id: EndpointId
    tenant_id: TenantId
    tenant: str
    url: str
    events: list[str]
    enabled: bool
    description: str | None
    allow_private: bool
    created_by: str | None
    created_at: datetime
    disabled_at: datetime | None
    disabled_reason: str | None


@dataclass(frozen=True, slots=True)
class AddedEndpoint:
    """`secret` is there only when it was made here: nobody can ask for it again."""

    endpoint: Endpoint
    secret: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """What a delivery needs to know of its endpoint."""

    tenant_id: TenantId
    url: str
    secret: str = field(repr=False)
    enabled: bool
    allow_private: bool


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A delivery that failed for good and was not sent again."""

    job_id: JobId
    tenant_id: TenantId
    endpoint_id: EndpointId
    url: str | None
    event_id: str
    event_type: str
    attempts: int
    error_message: str
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """`next_before` is where the next page begins; None when everything was looked at. A page may be short, or empty, and still
    not be the last: they are looked for among all jobs that failed."""

    letters: list[DeadLetter]
    next_before: JobId | None


class EndpointNotFound(NotFound):
    def __init__(self, endpoint_id: str) -> None:
        super().__init__(f"There is no webhook endpoint {endpoint_id}. To see what there is: cortex webhooks list")
        self.endpoint_id = endpoint_id


# -- signing -------------------------------------------------------------------------------------
def new_secret(random_bytes: bytes) -> str:
    return SECRET_PREFIX + b64encode(random_bytes).decode()


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`; `timestamp` is in seconds."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(keyed_hash(_key(secret), signed, sha256).digest()).decode()


def _key(secret: str) -> bytes:
    return b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)


# -- what may be asked for -----------------------------------------------------------------------
def check_secret(secret: str) -> str:
    try:
        if isinstance(secret, str) and secret.startswith(SECRET_PREFIX) and _is_long_enough(_key(secret)):
            return secret
    except (NotBase64, ValueError):
        pass
    raise InvalidInput(
        f'secret must be "{SECRET_PREFIX}" and {SHORTEST_SECRET} to {LONGEST_SECRET} random bytes in base64. '
        "Leave it out, and one is made.",
        field="secret",
    )


def _is_long_enough(key: bytes) -> bool:
    return SHORTEST_SECRET <= len(key) <= LONGEST_SECRET


def check_events(events: Sequence[str]) -> tuple[str, ...]:
    if isinstance(events, str) or not isinstance(events, Sequence) or not events:
        raise InvalidInput(f"events must be a list of at least one of: {', '.join(FILTERS)}.", field="events")
    for event in events:
        if event not in FILTERS:
            close = did_you_mean(event, FILTERS) if isinstance(event, str) else ""
            raise InvalidInput(f"There is no event {event!r:.60}.{close} Known: {', '.join(FILTERS)}.", field="events")
    return tuple(dict.fromkeys(events))


def channel_address(url: str) -> tuple[str, str] | None:
    """The channel and the address in it, of an endpoint that is a person or a room: `email:ops@example.com`."""
    found = CHANNEL_ADDRESS.fullmatch(url)
    return (found[1], found[2]) if found else None


def check_target(url: str, *, allow_private: bool) -> str:
    """The URL of a receiver, or the address of operators in a channel."""
    reached = channel_address(url) if isinstance(url, str) and len(url) <= URL_LIMIT and url.isprintable() else None
    if reached is None:
        return check_url(url, allow_private=allow_private)
    if reached[0] == "email":
        mailbox(reached[1], "url")
    elif " " in reached[1]:
        raise _bad_url(f"must be {reached[0]}: and the id of a chat, channel or person, without spaces")
    return url


def check_url(url: str, *, allow_private: bool) -> str:
    if not isinstance(url, str) or len(url) > URL_LIMIT or not url.isprintable() or " " in url:
        raise _bad_url(f"must be an address of at most {URL_LIMIT:,} characters, without spaces")
    parts = _split(url)
    if parts.scheme not in ("http", "https"):
        raise _bad_url(f"must begin with https:// or http://, not {parts.scheme or url!r:.40}")
    if parts.username is not None or parts.password is not None:
        raise _bad_url("must not hold a user name or password. Receivers check the signature instead")
    if not parts.hostname:
        raise _bad_url("names no host")
    if parts.fragment:
        raise _bad_url("must not have a part after #, which is never sent")
    if not allow_private and _is_surely_private(parts.hostname):
        raise _bad_url(f"leads to {parts.hostname}, a private address. If that is meant, allow it: allow_private=True")
    return url


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError as error:
        raise _bad_url(f"cannot be read: {error}") from None
    return parts


def _is_surely_private(host: str) -> bool:
    """What needs no look-up. All others are looked up, and checked, at each delivery."""
    return host == "localhost" or host.endswith(".localhost") or (is_address(host) and not is_public(host))


def _bad_url(what: str) -> InvalidInput:
    return InvalidInput(f"url {what}.", field="url")


def check_description(description: str | None) -> str | None:
    if description is not None and (not isinstance(description, str) or len(description) > DESCRIPTION_LIMIT):
        raise InvalidInput(f"description must be text of at most {DESCRIPTION_LIMIT} characters.", field="description")
    return description


# -- notices -----------------------------------------------------------------------------------
# An event as a message to operators: what happened to which job, and what to type next.


MESSAGE_LIMIT = 1_000
QUIET_SECONDS = 600.0
"""For so long an endpoint is told once only of events of one kind and agent: a bad deployment holds every job at once."""

TITLES = {
    "job.held": "A job is held: its record does not fit the code",
    "job.uncertain": "A tool call is uncertain",
    "approval.undecidable": "An approval that too few people can decide",
    "job.failed": "A job failed",
    "job.cancelled": "A job was cancelled",
    "job.completed": "A job completed",
    TEST_EVENT: "A test message",
}
ADVICE = {
    "job.held": "To see what differs: cortex jobs why {id}. It goes on after a rollback, or with the change under ctx.patched.",
    "job.uncertain": "Look at the other side, then settle it: cortex jobs settle {id} NAME --applied RESULT, or --not-applied.",
    "approval.undecidable": "To see who is asked: cortex jobs why {id}",
    "job.failed": "To look into it: cortex jobs show {id}. To go on from the step that failed: cortex jobs resume {id}",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """A message without buttons."""

    key: str
    """The same at each attempt to send it."""
    title: str
    text: str


def notice_of(event_id: str, event: Mapping[str, Any], public_url: str) -> Notice:
    kind, data = str(event.get("type")), event.get("data")
    known = data if isinstance(data, Mapping) else {}
    job_id, agent = str(known.get("job_id") or ""), str(known.get("agent") or "")
    said = shortened(lines(str(known.get("error_message") or known.get("problem") or "")), MESSAGE_LIMIT)
    parts = [
        f'Agent "{one_line(agent)}", job {job_id}' if job_id else "",
        said,
        ADVICE.get(kind, "").format(id=job_id),
        f"{public_url.rstrip('/')}/jobs/{job_id}" if job_id else "",
        f"At most one such message for each agent in {QUIET_SECONDS / 60:g} minutes." if subject_of(event) else "",
    ]
    title = f"{TITLES.get(kind, kind)}{f': {one_line(agent)}' if agent else ''}"
    return Notice(event_id, shortened(one_line(title), 150), "\n\n".join(filter(None, parts)))


def subject_of(event: Mapping[str, Any]) -> str | None:
    """What further messages would say again. None: each is told."""
    data = event.get("data")
    if event.get("type") == TEST_EVENT or not isinstance(data, Mapping):
        return None
    return f"{event.get('type')} {data.get('agent')}"
