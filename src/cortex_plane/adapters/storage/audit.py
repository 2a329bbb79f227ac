"""The audit log: what was done, and the seals that prove that it was not changed since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.core.audit import AuditEntry, AuditFilter, AuditPage, AuditRecord
from cortex_plane.core.audit_chain import BEFORE_ALL, Look, Seal, StoredEntry
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.instants import instant
from cortex_plane.ports.json_text import dumps

FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
LOOKED_THROUGH = 5_000
"""So many entries are looked at for one page of completions at most: no index tells whose they are."""
COMPLETIONS = "audit/page_of_completions"


class SqlAudit:
    """`as_parameter` gives an instant in the form in which the database takes one."""

    def __init__(self, database: Database, as_parameter: Callable[[datetime], Any]) -> None:
        self._database = database
        self._as_parameter = as_parameter

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        await self._database.write_once("audit/record", entries=dumps([entry.to_json() for entry in entries]))

    async def page(self, wanted: AuditFilter, *, before: int | None = None, limit: int = 50) -> AuditPage:
        upper_at, upper_seq = await self._upper(wanted.until or LAST_MOMENT, before)
        since = self._as_parameter(wanted.since or FIRST_MOMENT)
        place = {"since": since, "upper_at": upper_at, "upper_seq": upper_seq, "looked_through": LOOKED_THROUGH}
        statement = _page_for(wanted)
        found = await self._database.read(
            statement,
            object_id=wanted.object_id,
            actor=wanted.actor,
            action=wanted.action,
            tenant_id=wanted.tenant_id,
            limit=limit,
            **place,
        )
        records = [rows.audit_record(row) for row in found]
        if len(records) == limit:
            return AuditPage(records, records[-1].seq)
        if statement != COMPLETIONS:
            return AuditPage(records, None)
        [looked] = await self._database.read("audit/looked_through", **place)
        return AuditPage(records, looked["last"] if looked["entries"] == LOOKED_THROUGH else None)

    async def _upper(self, until: datetime, before: int | None) -> tuple[Any, int]:
        """Everything that is asked for comes before this place in the order of time and number."""
        end = self._as_parameter(until), BEFORE_ALL
        if before is None:
            return end
        for row in await self._database.read("audit/place", seq=before):
            return min(end, (row["at"], row["seq"]))
        raise InvalidInput(f"There is no audit entry {before} to go on from.", field="before")

    async def list(self, object_id: str) -> list[AuditRecord]:
        return [rows.audit_record(row) for row in await self._database.read("audit/list", object_id=object_id)]


def _page_for(wanted: AuditFilter) -> str:
    """The statement that begins with the condition which leaves the fewest entries."""
    if wanted.object_id is not None:
        return "audit/page_of_object"
    if wanted.action == "JOB_COMPLETED":
        return COMPLETIONS
    if wanted.actor is not None:
        return "audit/page_of_actor"
    if wanted.action is not None:
        return "audit/page_of_action"
    return "audit/page" if wanted.tenant_id is None else "audit/page_of_tenant"


class SqlAuditSeals:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def last(self) -> Seal | None:
        for row in await self._database.read("seals/last"):
            return rows.seal(row)
        return None

    async def look(self, after: int) -> Look | None:
        for row in await self._database.read("seals/look", after=after):
            return Look(row["seq"], row["horizon"], row["oldest"], rows.moment(row["at"]))
        return None

    async def entries(self, after: int, through: int, limit: int) -> list[StoredEntry]:
        found = await self._database.read("seals/entries", after=after, through=through, limit=limit)
        return [rows.stored_entry(row) for row in found]

    async def add(self, seal: Seal) -> bool:
        added = await self._database.write(
            "seals/add",
            number=seal.number,
            first_seq=seal.first_seq,
            last_seq=seal.last_seq,
            entries=seal.entries,
            fingerprints=seal.fingerprints,
            digest=seal.digest,
            previous_digest=seal.previous_digest,
            sealed_at=instant(seal.sealed_at),
        )
        return bool(added)

    async def list(self, after: int, limit: int) -> list[Seal]:
        return [rows.seal(row) for row in await self._database.read("seals/list", after=after, limit=limit)]

    async def count_after(self, seq: int) -> int:
        [row] = await self._database.read("seals/count_after", after=seq)
        return int(row["entries"])
