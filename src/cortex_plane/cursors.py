"""Pagination cursors: the API returns one as `next` and accepts it as `cursor`."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode


def cursor_for(kind: str, place: str | int) -> str:
    return urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")


def place_in(kind: str, cursor: str) -> str:
    """The place in a cursor that a trusted server returned. Not validated."""
    return urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().removeprefix(f"{kind}:")
