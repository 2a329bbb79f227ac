"""Seals what was recorded: one seal for each batch of entries, each bound to the one before."""

from __future__ import annotations

from datetime import datetime

import structlog

from cortex_plane.core.audit_chain import BEFORE_ALL, seal_after
from cortex_plane.ports.store import Store

log = structlog.get_logger()

BATCH = 500


async def seal_audit(store: Store, through: int, now: datetime, most: int | None = None) -> int:
    """Up to an entry below which nothing can appear any more, or about `most` of them; returns how many were sealed."""
    sealed = 0
    last = await store.seals.last()
    while entries := await store.seals.entries(last.last_seq if last else BEFORE_ALL, through, BATCH):
        seal = seal_after(last, entries, now)
        if not await store.seals.add(seal):
            break  # Another sealer was faster; its seals are as good as ours.
        # Where logs are kept elsewhere, this line is a witness that nobody with the database alone can change.
        log.info("audit_sealed", seal=seal.name, entries=seal.entries, last_seq=seal.last_seq)
        last, sealed = seal, sealed + seal.entries
        if most is not None and sealed >= most:
            break
    return sealed
