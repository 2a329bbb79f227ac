"""Ids of what follows from something else: the same at every attempt, so that what is submitted twice is there once."""

from __future__ import annotations

from hashlib import sha256
from uuid import UUID

MOMENT_BITS = 48
LOW_BITS = 128 - MOMENT_BITS
VERSION, VERSION_AT = 0x7, 76
VARIANT, VARIANT_AT = 0b10, 62


def derived_id(origin: str, name: str) -> str:
    """A UUIDv7 of the origin's own moment; all of its other bits come from both texts."""
    moment = UUID(origin).int >> LOW_BITS
    drawn = int.from_bytes(sha256(f"{origin} {name}".encode()).digest()[:10], "big")
    drawn = drawn & ~(0xF << VERSION_AT) | (VERSION << VERSION_AT)
    drawn = drawn & ~(0b11 << VARIANT_AT) | (VARIANT << VARIANT_AT)
    return str(UUID(int=(moment << LOW_BITS) | drawn))
