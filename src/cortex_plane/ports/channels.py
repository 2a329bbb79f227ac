"""Ways to reach an approver: a message that asks, and the same message once somebody has decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from cortex_plane.core.approval_messages import Address, ApprovalMessage, Click, ClosedMessage, Sent
from cortex_plane.core.errors import Denied, Unavailable


class ChannelRefused(Denied):
    """No retry would help: the address, the credentials or the message are wrong. The text says what to do."""


class ChannelBusy(Unavailable):
    """The service wants to be left alone for a while."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ChannelDown(Unavailable):
    """The service does not answer, or not as it should. A message may have been sent nevertheless."""


class NotGenuine(Denied):
    """A request that claims to come from a service does not bear its sign; nothing in it may be believed."""


class Channel(Protocol):
    @property
    def name(self) -> str:
        """Its `channel_type`."""

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        """Raises ChannelRefused, ChannelBusy or ChannelDown, never with a token or secret in their texts."""

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        """Takes the buttons away and says how it ended; where messages cannot be changed, says so in another one.
        Harmless when repeated. Raises as `send` does."""


class Greeting:
    """A service asks whether anybody is there, and whether forged signatures are noticed."""


class Clicks(Protocol):
    """What a service sends when somebody presses a button. It waits for an answer, for about three seconds."""

    def read(self, headers: Mapping[str, str], body: bytes) -> Click | Greeting | None:
        """None for whatever is not a click on one of our buttons. Raises NotGenuine."""

    def answer(self, click: Click, text: str, closed: ClosedMessage | None) -> dict[str, Any] | None:
        """The document to answer with; None is an answer without one. `closed` is what this click has brought about."""

    def acknowledge(self, greeting: Greeting | None) -> dict[str, Any] | None:
        """The answer to a greeting, or to what is not for us."""

    async def tell(self, click: Click, text: str) -> None:
        """After the answer, where that cannot say anything. Raises as `send` does."""
