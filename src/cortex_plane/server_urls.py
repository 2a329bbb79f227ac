"""URLs of a `cortex serve`: http://localhost:8700, https://plane.example.com/cortex."""

from __future__ import annotations

from urllib.parse import urlsplit

from cortex_plane.errors import InvalidInput, Unavailable

API = "/api/v1"
SCHEMES = ("http://", "https://")


class NeedsDatabase(InvalidInput):
    """The operation needs the database and is not available through a server."""

    def __init__(self, what: str = "This") -> None:
        super().__init__(
            f"{what} works on the database itself, not through a server. Give its URL: --database-url URL, or "
            "CORTEX_DATABASE_URL without CORTEX_SERVER.",
            field="database_url",
        )


class ServerUnreachable(Unavailable):
    """The server cannot be reached, or it is not a Cortex Plane."""


def is_server(url: str | None) -> bool:
    return url is not None and url.strip().lower().startswith(SCHEMES)


def checked_server(url: str, name: str = "--server") -> str:
    """The URL without the path of the API. Raises InvalidInput."""
    wrong = f"{name} must be the address of a server, such as https://plane.example.com, not {_without_secrets(url)!r:.80}."
    if not is_server(url):
        raise InvalidInput(f"{wrong} For a database: --database-url URL", field="server")
    try:
        parts = urlsplit(url.strip())
        named, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidInput(wrong, field="server") from None
    if not named or not url.isascii():
        raise InvalidInput(wrong, field="server")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput(
            f"{name} must be an address alone, without a user, a question mark or a #. The key goes into CORTEX_API_KEY.",
            field="server",
        )
    return url.strip().rstrip("/").removesuffix(API)


def _without_secrets(url: str) -> str:
    """The URL without its rest if that may contain a password."""
    return url.partition("://")[0] + "://…" if "@" in url else url
