"""Lists that the API gives a page at a time, read until there are enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cortex_plane.adapters.remote.server import Server

Item = TypeVar("Item")

LARGEST_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    items: list[Item]
    next: str | None = None


async def read_pages(
    server: Server, kind: type[Item], *path: str, limit: int, cursor: str | None = None, tenant: str | None = None, **query: Any
) -> list[Item]:
    """At most `limit` items. A page may be short and still have a next one."""
    found: list[Item] = []
    while True:
        wanted = min(limit - len(found), LARGEST_PAGE)
        page = await server.get(Page[kind], *path, tenant=tenant, limit=wanted, cursor=cursor, **query)  # type: ignore[valid-type]
        found += page.items
        if page.next is None or len(found) >= limit:
            return found[:limit]
        cursor = page.next
