"""Whether this process can do its work: the database answers, its tables are ours, and every loop has gone well lately."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from cortex_plane.core.errors import CortexError, WrongDatabase
from cortex_plane.ports.store import Store
from cortex_plane.runtime.duty import Duty

OK = "ok"
ANSWER_SECONDS = 5.0
STALE_SECONDS = 300.0
"""A loop waits a minute at the longest, and gives a try two."""


async def look_at_database(store: Store) -> str:
    """`ok`, or what is wrong with it; never more than that, as anybody may ask."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            status = await store.schema.status()
    except WrongDatabase:
        return "cannot be used by this version: cortex db status"
    except (CortexError, TimeoutError):
        return "does not answer"
    return OK if not status.pending else f"lacks {len(status.pending)} migrations: cortex db upgrade"


def look_at_loops(duties: Iterable[Duty]) -> dict[str, str]:
    """Of several loops with one duty, the one that is worst off counts."""
    found: dict[str, str] = {}
    for duty in duties:
        seconds = duty.seconds_since_good()
        if seconds >= STALE_SECONDS:
            found[f"loop {duty.name}"] = f"last went well {seconds:.0f} s ago"
        else:
            found.setdefault(f"loop {duty.name}", OK)
    return found
