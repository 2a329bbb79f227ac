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
    """No retry would help: the address, the credentials or the message are wrong. The text says what to do."""


class ChannelBusy(Unavailable):
    """The service wants to be left alone for a while."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ChannelDown(Unavailable):
    """The service does not answer, or not as it should. A message may have been sent nevertheless."""


class InvalidSignature(Denied):
    """A request that claims to come from a service does not bear its sign; nothing in it may be believed."""


class Channel(Protocol):
    @property
    def name(self) -> str:
        """Its `channel_type`."""

    @property
    def edits(self) -> bool:
        """Whether `edit` changes the message that was sent. Otherwise it sends another one, and is called once for each
        address, however many reminders were sent."""

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        """Raises ChannelRefused, ChannelBusy or ChannelDown, never with a token or secret in their texts."""

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        """Takes the buttons away and says how it ended; where messages cannot be changed, says so in another one.
        Harmless when repeated. Raises as `send` does."""


class NoticeChannel(Protocol):
    """A channel that can also tell something without asking."""

    async def notify(self, notice: Notice, to: Address) -> None:
        """Raises as `send` does."""


class Greeting:
    """A service asks whether anybody is there, and whether forged signatures are noticed."""


class Clicks(Protocol):
    """What a service sends when somebody presses a button. It waits for an answer, for about three seconds."""

    def read(self, headers: Mapping[str, str], body: bytes) -> Click | Greeting | None:
        """None for whatever is not a click on one of our buttons. Raises InvalidSignature."""

    def answer(self, click: Click, text: str, closed: ClosedMessage | None) -> dict[str, Any] | None:
        """The document to answer with; None is an answer without one. `closed` is what this click has brought about."""

    def acknowledge(self, greeting: Greeting | None) -> dict[str, Any] | None:
        """The answer to a greeting, or to what is not for us."""

    async def tell(self, click: Click, text: str) -> None:
        """After the answer, where that cannot say anything. Raises as `send` does."""


# -- service -----------------------------------------------------------------------------------
# One call of a chat service's HTTP API, and what its answers mean for a retry. No secret comes back in an error.


TIMEOUT_SECONDS = 15.0
ANSWER_LIMIT_BYTES = 256 * 1024
WORDS_LIMIT = 200

TOO_MANY = 429
TRY_AGAIN = frozenset({408, 425})
BUSY_SECONDS = 30.0
LONGEST_BUSY_SECONDS = 86_400.0


class Reply(NamedTuple):
    """An answer that is neither busy nor broken. `document` is empty where the service sent no JSON object."""

    status: int
    document: Mapping[str, Any]

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Service:
    """`secrets` are what an error must not repeat, whatever the other side says."""

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
        """What the other side said, in one short line; it may have repeated what it was sent."""
        return shortened(one_line(hidden(said, self.secrets)), WORDS_LIMIT).rstrip(".")


def hidden(text: str, secrets: Iterable[str]) -> str:
    for secret in filter(None, secrets):
        for form in {secret, quote(secret, safe=""), quote(secret)}:
            text = text.replace(form, "[hidden]")
    return text


def busy_seconds(*wishes: object) -> float:
    """The first of what the service may have said that is a sensible number of seconds."""
    for wish in wishes:
        try:
            seconds = float(wish) if isinstance(wish, str | int | float) and not isinstance(wish, bool) else -1.0
        except (ValueError, OverflowError):
            continue
        if isfinite(seconds) and seconds >= 0:
            return min(seconds, LONGEST_BUSY_SECONDS)
    return BUSY_SECONDS


def check_credential(value: object, name: str) -> None:
    """It goes into a header or a path as it is, and an error there would show it."""
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() or " " in value:
        raise InvalidInput(f"{name} must be text without spaces or line breaks, as the service shows it.", field=name)


def document_of(body: bytes) -> Mapping[str, Any]:
    """What it says; nothing if that is not a JSON object."""
    try:
        document = loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def at(document: object, *path: str) -> Any:
    """What lies at the end of the path, or None."""
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def text_at(document: object, *path: str) -> str:
    """Text or a whole number, as text; empty if there is none."""
    value = at(document, *path)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def header(headers: Mapping[str, str], name: str) -> str:
    """Names of headers have no case; empty if it is missing."""
    return next((value for given, value in headers.items() if given.lower() == name), "")
