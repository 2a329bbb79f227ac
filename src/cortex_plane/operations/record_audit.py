"""Records what somebody did. What the plane does by itself is recorded where it does it, in the same transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.normal_json import normal
from cortex_plane.ports.json_text import dumps
from cortex_plane.ports.store import Store

REQUIRED = ("action", "object_type", "object_id")
OPTIONAL = ("actor", "reason", "source")
TEXT_LIMIT = 2000
DETAILS_LIMIT_BYTES = 64 * 1024


async def record_audit(store: Store, entry: AuditEntry) -> None:
    for name in (*REQUIRED, *OPTIONAL):
        _check_text(name, getattr(entry, name))
    await store.audit.record([replace(entry, details=_checked_details(entry.details))])


def _check_text(name: str, value: Any) -> None:
    if value is None and name in OPTIONAL:
        return
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{name} must be text that is not empty, not {value!r:.60}.", field=name)
    if len(value) > TEXT_LIMIT:
        raise InvalidInput(f"{name} has {len(value):,} characters; up to {TEXT_LIMIT:,} fit. Use details for more.", field=name)
    normal(value, name)


def _checked_details(details: Any) -> dict[str, Any]:
    if not isinstance(details, dict):
        raise InvalidInput(f"details must be a dict, not {details!r:.60}.", field="details")
    stored = cast(dict[str, Any], normal(details, "details"))
    size = len(dumps(stored).encode())
    if size > DETAILS_LIMIT_BYTES:
        raise InvalidInput(
            f"details has {size:,} bytes; up to {DETAILS_LIMIT_BYTES:,} fit. Store the rest elsewhere and name the place.",
            field="details",
        )
    return stored
