"""Seals the audit log behind those who write it, who never wait for that."""

from __future__ import annotations

import asyncio

from cortex_plane.core.audit_chain import BEFORE_ALL, Look
from cortex_plane.operations.seal_audit import seal_audit
from cortex_plane.ports.store import Store

REST_SECONDS = 1.0
MOST_AT_ONCE = 500
# A crowd of entries is sealed in small transactions, each followed by a rest of so many times what it took: the jobs that made
# them go first, and a worker that is idle otherwise still catches up at thousands in a second.
RESTS_FOR_WORK = 10.0


class Sealer:
    """Remembers one look at the log, until a later one shows that nothing can appear any more below what it saw."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._earlier: Look | None = None

    async def once(self) -> float:
        began = _now()
        last = await self._store.seals.last()
        look = await self._store.seals.look(last.last_seq if last else BEFORE_ALL)
        if look is not None and (settled := self._settled(look)):
            sealed = await seal_audit(self._store, settled.seq, look.at, most=MOST_AT_ONCE)
            if sealed >= MOST_AT_ONCE:
                return min(RESTS_FOR_WORK * (_now() - began), REST_SECONDS)
        return REST_SECONDS

    def _settled(self, look: Look) -> Look | None:
        """The newest look that is settled by now."""
        if look.is_settled_by(look):
            return look
        earlier = self._earlier
        if earlier is not None and not earlier.is_settled_by(look):
            return None
        self._earlier = look
        return earlier


def _now() -> float:
    return asyncio.get_running_loop().time()
