"""Whoever acts in a tenant that they chose is still there on the page after it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from starlette.datastructures import MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SEE_OTHER = 303


class StayInTenant:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chosen = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("tenant")
        if scope["type"] != "http" or scope["method"] != "POST" or not chosen:
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == SEE_OTHER:
                headers = MutableHeaders(scope=message)
                headers["location"] = in_tenant(headers["location"], chosen[0])
            await send(message)

        await self._app(scope, receive, sending)


def in_tenant(address: str, tenant: str) -> str:
    """An address that names a tenant keeps it."""
    parts = urlsplit(address)
    if "tenant" in parse_qs(parts.query, keep_blank_values=True):
        return address
    query = "&".join(part for part in (parts.query, urlencode({"tenant": tenant})) if part)
    return urlunsplit(parts._replace(query=query))
