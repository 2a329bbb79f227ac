"""The channel protocol, and the base of chat services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import quote

from cortex_plane.approvals.messages import Address, ApprovalMessage, Click, ClosedMessage, Sent, one_line, shortened
from cortex_plane.errors import Denied, InvalidInput, Unavailable
from cortex_plane.http_client import Http, HttpResponse, NoResponse, PrivateAddress
from cortex_plane.jobs.retry import retry_after_seconds
from cortex_plane.json import dumps, loads
from cortex_plane.webhooks.model import Notice, check_url


class ChannelRefused(Denied):
    """Permanent error: the address, the credentials or the message are invalid. The text says what to do."""


class ChannelBusy(Unavailable):
    """The service asks to retry later (rate limit)."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ChannelDown(Unavailable):
    """The service does not respond, or responds unexpectedly. The message may have been sent."""


class InvalidSignature(Denied):
    """The signature of a callback is missing or invalid."""


class Channel(Protocol):
    @property
    def name(self) -> str:
        """Its `channel_type`."""

    @property
    def edits(self) -> bool:
        """Whether `edit` changes the sent message. Otherwise `edit` sends a new message, and is called once per address."""

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        """Sends a request. Raises ChannelRefused, ChannelBusy or ChannelDown; their texts never contain a token or secret."""

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        """Removes the buttons and shows the outcome; if messages cannot be edited, sends another one. Idempotent. Raises like
        `send`."""


class NoticeChannel(Protocol):
    """A channel that can also send plain notifications."""

    async def notify(self, notice: Notice, to: Address) -> None:
        """Sends a notification. Raises like `send`."""


class Greeting:
    """A service checks that the endpoint responds and verifies signatures."""


class Clicks(Protocol):
    """Callbacks of a service for pressed buttons. The service waits about three seconds for the response."""

    def read(self, headers: Mapping[str, str], body: bytes) -> Click | Greeting | None:
        """Parses a callback. Returns None if it is not a click on our buttons. Raises InvalidSignature."""

    def answer(self, click: Click, text: str, closed: ClosedMessage | None) -> dict[str, Any] | None:
        """Returns the body of the response, or None for an empty one. `closed`: the outcome, if this click closed the request."""

    def acknowledge(self, greeting: Greeting | None) -> dict[str, Any] | None:
        """Returns the body of the response to a ping, or to a callback that is ignored."""

    async def tell(self, click: Click, text: str) -> None:
        """Sends the result after the response, if the response cannot contain it. Raises like `send`."""


# -- service -----------------------------------------------------------------------------------
# Calls of chat services over HTTP, and which errors are retried. Secrets are removed from errors.


TIMEOUT_SECONDS = 15.0
ANSWER_LIMIT_BYTES = 256 * 1024
WORDS_LIMIT = 200

TOO_MANY = 429
TRY_AGAIN = frozenset({408, 425})
BUSY_SECONDS = 30.0
LONGEST_BUSY_SECONDS = 86_400.0


class Reply(NamedTuple):
    """A response other than 429 and 5xx. `document` is empty if the body is not a JSON object."""

    status: int
    document: Mapping[str, Any]

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Service:
    """`secrets` are removed from all errors."""

    name: str
    http: Http = field(repr=False)
    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    timeout_seconds: float = TIMEOUT_SECONDS
    allow_private: bool = False

    def __post_init__(self) -> None:
        check_url(self.base_url, allow_private=self.allow_private)

    async def ask(self, path: str, document: Mapping[str, Any], *, verb: Literal["POST", "PATCH"] = "POST") -> Reply:
        return await self.ask_at(f"{self.base_url.rstrip('/')}{path}", document, verb=verb)

    async def ask_at(self, url: str, document: Mapping[str, Any], *, verb: Literal["POST", "PATCH"] = "POST") -> Reply:
        call = self.http.post if verb == "POST" else self.http.patch
        try:
            answer = await call(
                url,
                headers={"content-type": "application/json; charset=utf-8", "user-agent": "cortex-plane", **self.headers},
                body=dumps(document).encode(),
                timeout_seconds=self.timeout_seconds,
                answer_limit_bytes=ANSWER_LIMIT_BYTES,
                allow_private=self.allow_private,
            )
        except PrivateAddress as error:
            raise ChannelRefused(f"{error} If that is meant, allow it for {self.name}: allow_private=True") from None
        except NoResponse as error:
            raise ChannelDown(f"{self.name}: {self.quoted(str(error))}") from None
        return self._reply(answer)

    def _reply(self, answer: HttpResponse) -> Reply:
        document = document_of(answer.body)
        if answer.status == TOO_MANY:
            raise self.busy(document, answer.headers)
        if answer.status >= 500 or answer.status in TRY_AGAIN:
            raise ChannelDown(f"{self.name} answered {answer.status}. It is tried again later.")
        if 300 <= answer.status < 400:
            raise ChannelRefused(f"{self.name} answered {answer.status}, a redirect. Set its base_url to the final address.")
        return Reply(answer.status, document)

    def busy(self, document: Mapping[str, Any], headers: Mapping[str, str]) -> ChannelBusy:
        asked = retry_after_seconds(headers.get("retry-after", ""), None, headers.get("date", ""))
        seconds = busy_seconds(at(document, "parameters", "retry_after"), document.get("retry_after"), asked)
        return ChannelBusy(f"{self.name} asks to wait {seconds:g} s.", seconds)

    def broken(self, reply: Reply) -> ChannelDown:
        return ChannelDown(f"{self.name} answered {reply.status}, but not as it documents. It is tried again later.")

    def refused(self, said: object, advice: str) -> ChannelRefused:
        words = self.quoted(said) if isinstance(said, str) else ""
        return ChannelRefused(f"{self.name} refused it{f': {words}' if words else ''}. {advice}")

    def quoted(self, said: str) -> str:
        """The error text of the service on one short line, without secrets that it may have echoed."""
        return shortened(one_line(hidden(said, self.secrets)), WORDS_LIMIT).rstrip(".")


def hidden(text: str, secrets: Iterable[str]) -> str:
    for secret in filter(None, secrets):
        for form in {secret, quote(secret, safe=""), quote(secret)}:
            text = text.replace(form, "[hidden]")
    return text


def busy_seconds(*wishes: object) -> float:
    """Returns the first value that is a plausible number of seconds."""
    for wish in wishes:
        try:
            seconds = float(wish) if isinstance(wish, str | int | float) and not isinstance(wish, bool) else -1.0
        except (ValueError, OverflowError):
            continue
        if isfinite(seconds) and seconds >= 0:
            return min(seconds, LONGEST_BUSY_SECONDS)
    return BUSY_SECONDS


def check_credential(value: object, name: str) -> None:
    """Checks a value that is inserted into a header or path. The error does not repeat it."""
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() or " " in value:
        raise InvalidInput(f"{name} must be text without spaces or line breaks, as the service shows it.", field=name)


def document_of(body: bytes) -> Mapping[str, Any]:
    """Parses the body; empty if it is not a JSON object."""
    try:
        document = loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def at(document: object, *path: str) -> Any:
    """Returns the value at the path, or None."""
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def text_at(document: object, *path: str) -> str:
    """Returns a string or whole number as text; otherwise an empty string."""
    value = at(document, *path)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def header(headers: Mapping[str, str], name: str) -> str:
    """Returns a header, case-insensitively; empty if it is missing."""
    return next((value for given, value in headers.items() if given.lower() == name), "")
