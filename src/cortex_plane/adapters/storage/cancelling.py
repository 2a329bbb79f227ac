"""Cancels many jobs at once, as a part of whatever asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.adapters.storage.database import Row
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.jobs import JobId
from cortex_plane.ports.json_text import dumps


def cancel_many(found: Sequence[Row], cause: str, actor: str | None, reason: str | None) -> Script[int]:
    """Of rows with an `id`, those that have not ended meanwhile; how many they were."""
    ids = [str(row["id"]) for row in found]
    if not ids:
        return 0
    note = dumps({"reason": reason}) if reason else None
    return len((yield from ask("jobs/cancel_many", ids=dumps(ids), cause=cause, actor=actor, note=note)))


def cancel_children(parent_id: JobId, actor: str | None, reason: str | None) -> Script[int]:
    """Those that end with their parent, unless it goes on or completed."""
    if (yield from ask("jobs/live_parent", parent_id=parent_id)):
        return 0
    children = yield from ask("jobs/live_children", parent_id=parent_id)
    return (yield from cancel_many(children, "cancel", actor, reason))
