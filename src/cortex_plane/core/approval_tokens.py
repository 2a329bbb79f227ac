"""Approval tokens: `cortex_apr_1_` and 256 bits in base64url. Only their hashes are stored.

The payload may hold underscores, so a token is taken apart by its prefix and its length, never by splitting.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256

from cortex_plane.core.errors import InvalidInput

TOKEN_BYTES = 32
PREFIX = "cortex_apr_1_"
# 32 bytes fill 42 characters and four bits: the last two bits of the 43rd are zero.
TOKEN = re.compile(r"cortex_apr_1_[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")


@dataclass(frozen=True, slots=True)
class ApprovalToken:
    """`plaintext` is for the message to its addressee and for nothing else; `hash` is what is stored."""

    plaintext: str = field(repr=False)
    hash: str = field(repr=False)

    def __str__(self) -> str:
        return f"{PREFIX}…"


def mint(random_bytes: bytes) -> ApprovalToken:
    """A token of 32 bytes from the system's source of secrets."""
    if len(random_bytes) != TOKEN_BYTES:
        raise InvalidInput(f"A token is made of {TOKEN_BYTES} random bytes, not of {len(random_bytes)}.", field="random_bytes")
    plaintext = PREFIX + urlsafe_b64encode(random_bytes).rstrip(b"=").decode()
    return ApprovalToken(plaintext, hash_of(plaintext))


def parse(token: object) -> ApprovalToken | None:
    """None for whatever cannot be a token of ours. The answer to that is the same as to one that is unknown."""
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        return None
    return ApprovalToken(token, hash_of(token))


def hash_of(plaintext: str) -> str:
    return sha256(plaintext.encode()).hexdigest()
