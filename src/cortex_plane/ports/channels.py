"""Ways to reach an approver: a message that asks, and the same message once somebody has decided."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.approval_messages import Address, ApprovalMessage, ClosedMessage, Sent
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
