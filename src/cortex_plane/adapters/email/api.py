"""One call of an HTTP API that sends e-mails, and what its answers mean for a retry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cortex_plane.core.errors import Unavailable
from cortex_plane.runtime.failures import PermanentFailure

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS = 30.0
MESSAGE_LIMIT = 500

# Request timeout, too early, too many requests: the request itself is fine.
TRY_AGAIN = frozenset({408, 425, 429})


async def post(url: str, *, headers: Mapping[str, str], **body: Any) -> httpx.Response:
    import httpx

    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
            return await client.post(url, headers=dict(headers), **body)
    except httpx.HTTPError as error:
        raise Unavailable(f"{httpx.URL(url).host} gave no answer: {str(error) or type(error).__name__}") from error


def check(response: httpx.Response, service: str, message: str) -> None:
    """A request that is refused will be refused again; a server that is busy or broken may recover."""
    if response.is_success:
        return
    said = f"{service} answered {response.status_code}: {message[:MESSAGE_LIMIT] or response.reason_phrase}"
    if response.is_client_error and response.status_code not in TRY_AGAIN:
        raise PermanentFailure(said)
    wait = response.headers.get("retry-after")
    raise Unavailable(f"{said} (asks to wait {wait})" if wait else said)


def document_of(response: httpx.Response) -> dict[str, Any]:
    """What the answer says; nothing if that is not a JSON object."""
    try:
        document = response.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
