"""A place in a list, wrapped up: what the API gives out as `next`, and takes as `cursor`."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode


def cursor_for(kind: str, place: str | int) -> str:
    return urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")


def place_in(kind: str, cursor: str) -> str:
    """Of a cursor that our own server gave out."""
    return urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().removeprefix(f"{kind}:")
