"""Tokens that the programs of one installation sign for each other: JWT, HS256, for one audience and for a short time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cortex_plane.core.instants import SECOND, Instant
from cortex_plane.ports.clock import Clock

ALGORITHM = "HS256"
TTL_SECONDS = 60
SKEW_SECONDS = 30
"""So much may the clock of whoever signed be ahead of ours. That it is behind only makes its tokens expire sooner."""


@dataclass(frozen=True, slots=True)
class TokenSigner:
    """Makes a token for each request."""

    secret: str = field(repr=False)
    audience: str
    subject: str
    clock: Clock

    def token(self) -> str:
        import jwt

        now = self.clock.now() // SECOND
        claims = {"sub": self.subject, "aud": self.audience, "iat": now, "exp": now + TTL_SECONDS}
        return jwt.encode(claims, self.secret, ALGORITHM)


def subject_of(token: str, secrets: Sequence[str], audience: str, now: Instant) -> str | None:
    """Who signed it; None when it is not signed with one of the secrets, not for this audience, or not good at this time."""
    found = [claims for claims in (_claims(token, secret, audience) for secret in secrets) if claims is not None]
    if not found or not _is_good_at(found[0], now // SECOND):
        return None
    subject = found[0].get("sub")
    return subject if isinstance(subject, str) and subject else "unnamed"


def _claims(token: str, secret: str, audience: str) -> dict[str, Any] | None:
    """The times are left to us: we go by the clock that we are given."""
    import jwt

    options: Any = {"require": ["exp", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False}
    try:
        claims: dict[str, Any] = jwt.decode(token, secret, algorithms=[ALGORITHM], audience=audience, options=options)
    except jwt.InvalidTokenError:
        return None
    return claims


def _is_good_at(claims: dict[str, Any], now: int) -> bool:
    expires, begins = claims["exp"], claims.get("nbf", 0)
    return _is_number(expires) and _is_number(begins) and begins - SKEW_SECONDS <= now < expires


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
