"""The whole id of what people name by the first part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cortex_plane.adapters.remote.server import Server
from cortex_plane.operations.find_grant import is_id

Kind = Literal["job", "run", "group", "grant", "approval", "schedule"]


@dataclass(frozen=True, slots=True)
class FoundId:
    id: str


async def whole_id(server: Server, kind: Kind, beginning: str, *, tenant: str | None = None) -> str:
    """Of a schedule also by its name."""
    wanted = beginning.strip()
    if is_id(wanted.lower()) and kind != "schedule":
        return wanted.lower()
    path = ("approval-ids",) if kind == "approval" else ("ids", kind)
    return (await server.get(FoundId, *path, wanted or "-", tenant=tenant)).id
