"""Background loops that seal the audit log and export seals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from cortex_plane.audit.model import BEFORE_ALL, Look
from cortex_plane.audit.service import SendSeal, export_seals, seal_audit
from cortex_plane.errors import CortexError

if TYPE_CHECKING:
    from cortex_plane.stores import Store

REST_SECONDS = 1.0
MOST_AT_ONCE = 500
# A short backlog is sealed in small batches, each followed by a rest of so many times what it took: the jobs that wrote the
# entries go first. The longer the backlog, the shorter the rest.
RESTS_FOR_WORK = ((10_000, 10.0), (30_000, 2.0))
# Beyond that the sealer does not rest and seals more at once: it must be faster than any drain, or the backlog grows for as long
# as the work lasts.
FAR_BEHIND = 30_000
MOST_WHEN_FAR_BEHIND = 10_000
BATCH_WHEN_FAR_BEHIND = 2_000


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
            backlog = settled.seq - (last.last_seq if last else 0)
            most, batch = (MOST_WHEN_FAR_BEHIND, BATCH_WHEN_FAR_BEHIND) if backlog >= FAR_BEHIND else (MOST_AT_ONCE, None)
            sealed = await seal_audit(self._store, settled.seq, look.at, most=most, batch=batch)
            if sealed >= MOST_AT_ONCE:
                return min(_rests(backlog - sealed) * (_now() - began), REST_SECONDS)
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


def _rests(left: int) -> float:
    return next((rests for most, rests in RESTS_FOR_WORK if left < most), 0.0)


def _now() -> float:
    return asyncio.get_running_loop().time()


# -- seal exporter -----------------------------------------------------------------------------
# A duty of workers, where CORTEX_SEAL_EXPORT names a target: sends new seals there.


log = structlog.get_logger()

EXPORT_REST_SECONDS, REST_AFTER_TROUBLE_SECONDS = 5.0, 60.0


class SealExporter:
    def __init__(self, store: Store, target: str, send: SendSeal) -> None:
        self._store, self._target, self._send = store, target, send

    async def once(self) -> float:
        try:
            await export_seals(self._store, self._target, self._send)
        except CortexError as error:
            log.warning("seals_not_exported", error=str(error))
            return REST_AFTER_TROUBLE_SECONDS
        return EXPORT_REST_SECONDS
