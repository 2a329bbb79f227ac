"""Prunes the audit log: deletes the entries of whole seals that the retention rule no longer keeps, oldest first.

    seal 1 ◀── seal 2 ◀── seal 3 ◀── seal 4        the seals stay, so the chain can still be verified
    pruned     pruned  ▲  entries    entries       not sealed yet: never pruned
                       mark: seal 2, recorded as AUDIT_LOG_PRUNED in the log itself

A batch is compared with its seals first. One that does not fit is evidence of tampering: it stays, with everything after it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING

import structlog

from cortex_plane.audit.model import AuditEntry, PruningMark, Seal, compare
from cortex_plane.audit.service import fingerprints_between, key_of

if TYPE_CHECKING:
    from cortex_plane.retention.model import RetentionRule
    from cortex_plane.stores import Store

log = structlog.get_logger()

BATCH = 500
"""Entries. A batch ends with a seal, so it may hold more by what one seal covers."""
SEALS_AT_A_TIME = 50
LONGEST_WAIT = timedelta(days=1)
"""Each pruning is itself an entry, which is pruned in its turn. Workers therefore wait for a full batch, but no longer than this:
with a record for every few entries, the log would never become smaller."""


async def prune_audit(
    store: Store, rule: RetentionRule, now: datetime, *, actor: str, exported_to: str = "", at_once: bool = False
) -> int:
    """Deletes one batch and returns how many entries it had. `exported_to`: only entries whose seals were sent to this target.
    `at_once`: a batch that is not full as well."""
    mark = await store.seals.pruned()
    due = await _due_seals(store, mark, now - timedelta(seconds=rule.keep_seconds), exported_to)
    full = sum(seal.entries for seal in due) >= BATCH
    if not (full or at_once or now - mark.at >= min(timedelta(seconds=rule.keep_seconds), LONGEST_WAIT)):
        return 0
    seals = await _that_fit(store, mark, due)
    if not seals:
        return 0
    details = {
        "rule_id": rule.id,
        "keep_seconds": rule.keep_seconds,
        "first_seal": seals[0].number,
        "last_seal": seals[-1].number,
        "entries": sum(seal.entries for seal in seals),
    }
    entry = AuditEntry("AUDIT_LOG_PRUNED", "audit_seal", seals[-1].name, actor, details=details)
    return await store.seals.prune(mark, seals[-1], entry)


async def _due_seals(store: Store, mark: PruningMark, sealed_before: datetime, exported_to: str) -> list[Seal]:
    """Reads one seal when nothing is due."""
    last_sent = await store.seals.exported(key_of(exported_to)) if exported_to else inf
    due: list[Seal] = []
    entries = 0
    while page := await store.seals.list(due[-1].number if due else mark.number, SEALS_AT_A_TIME if due else 1):
        for seal in page:
            if seal.sealed_at > sealed_before or seal.number > last_sent or entries >= BATCH:
                return due
            due.append(seal)
            entries += seal.entries
    return due


async def _that_fit(store: Store, mark: PruningMark, due: list[Seal]) -> list[Seal]:
    """Up to the first that does not follow the one before it, or does not match its entries."""
    previous: PruningMark | Seal = mark
    for index, seal in enumerate(due):
        follows = seal.holds and seal.number == previous.number + 1 and seal.previous_digest == previous.digest
        if not follows or compare(seal, [found async for found in fingerprints_between(store, previous.last_seq, seal.last_seq)]):
            log.warning("audit_not_pruned", seal=seal.number, why="Its entries do not fit it: cortex audit verify")
            return due[:index]
        previous = seal
    return due
