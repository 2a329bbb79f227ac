"""A place in a list, wrapped up: what the API gives out as `next`, and takes as `cursor`."""

from __future__ import annotations

from base64 import urlsafe_b64encode


def cursor_for(kind: str, place: str | int) -> str:
    return urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")
