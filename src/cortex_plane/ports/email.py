"""Somebody who sends e-mails: an SMTP server, or a service behind an HTTP API."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.emails import Email, SentEmail


class EmailTransport(Protocol):
    @property
    def name(self) -> str:
        """What the audit calls it."""

    async def send(self, email: Email) -> SentEmail:
        """Raises PermanentFailure when no retry would help, and Unavailable when one may."""
