"""Stores audit entries and their seals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from cortex_plane.audit.model import (
    BEFORE_ALL,
    FIRST_PREVIOUS,
    AuditEntry,
    AuditFilter,
    AuditPage,
    AuditRecord,
    Look,
    PruningMark,
    Seal,
    StoredEntry,
)
from cortex_plane.clock import instant
from cortex_plane.errors import InvalidInput
from cortex_plane.json import dumps, normal, refuse_larger
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.storage.database import Database
    from cortex_plane.stores import Store

FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
LOOKED_THROUGH = 5_000
"""So many entries are looked at for one page of completions at most: no index tells whose they are."""
COMPLETIONS = "audit/page_of_completions"


class AuditStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        await self._database.write_once("audit/record", entries=dumps([entry.to_json() for entry in entries]))

    async def page(self, wanted: AuditFilter, *, before: int | None = None, limit: int = 50) -> AuditPage:
        """Newest first; `before` is `next_before` of the page before."""
        upper_at, upper_seq = await self._upper(wanted.until or LAST_MOMENT, before)
        since = self._database.instant(wanted.since or FIRST_MOMENT)
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
        end = self._database.instant(until), BEFORE_ALL
        if before is None:
            return end
        for row in await self._database.read("audit/place", seq=before):
            return min(end, (row["at"], row["seq"]))
        if any(before <= row["last_seq"] for row in await self._database.read("seals/pruned")):
            return self._database.instant(FIRST_MOMENT), BEFORE_ALL  # It was pruned, and so was everything before it.
        raise InvalidInput(f"There is no audit entry {before} to go on from.", field="before")

    async def list(self, object_id: str) -> list[AuditRecord]:
        """What was recorded about one object, oldest first."""
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


class SealStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def last(self) -> Seal | None:
        for row in await self._database.read("seals/last"):
            return rows.seal(row)
        return None

    async def look(self, after: int) -> Look | None:
        """The newest entry whose number is higher than `after`, and by what to tell that nothing can appear below it."""
        for row in await self._database.read("seals/look", after=after):
            return Look(row["seq"], row["horizon"], row["oldest"], rows.moment(row["at"]))
        return None

    async def entries(self, after: int, through: int, limit: int) -> list[StoredEntry]:
        """Those with a number above `after` and up to `through`, in order."""
        found = await self._database.read("seals/entries", after=after, through=through, limit=limit)
        return [rows.stored_entry(row) for row in found]

    async def add(self, seal: Seal) -> bool:
        """False when another sealer was faster: the seal must follow the last one, so the chain cannot fork."""
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
        """Those with a higher number, in order."""
        return [rows.seal(row) for row in await self._database.read("seals/list", after=after, limit=limit)]

    async def exported(self, target: str) -> int:
        """The number of the last seal that was sent there."""
        return max((int(row["number"]) for row in await self._database.read("seals/exported", target=target)), default=0)

    async def note_exported(self, target: str, number: int) -> None:
        await self._database.write("seals/note_exported", target=target, number=number)

    async def pruned(self) -> PruningMark:
        """How far the log was pruned."""
        for row in await self._database.read("seals/pruned"):
            return PruningMark(row["seal"], row["digest"], row["last_seq"], rows.moment(row["pruned_at"]))
        return PruningMark(0, FIRST_PREVIOUS, BEFORE_ALL, FIRST_MOMENT)

    async def prune(self, before: PruningMark, last: Seal, entry: AuditEntry) -> int:
        """Deletes the entries after the mark and up to the end of a seal, moves the mark there and records it; returns how many
        went. 0 when another pruner was faster. The database refuses a mark that no retention rule allows."""
        return await self._database.transact(lambda: _prune(before, last, entry))

    async def count_after(self, seq: int) -> int:
        """How many entries have a higher number."""
        [row] = await self._database.read("seals/count_after", after=seq)
        return int(row["entries"])


def _prune(before: PruningMark, last: Seal, entry: AuditEntry) -> Transaction[int]:
    """In this order: the database lets the mark move only when that is recorded, and entries go only below the mark."""
    if not (yield from query("seals/hold_mark", seal=before.number)):
        return 0
    yield from query("audit/record", entries=dumps([entry.to_json()]))
    yield from query("seals/move_mark", seal=last.number, digest=last.digest, last_seq=last.last_seq)
    return len((yield from query("seals/delete_entries", after=before.last_seq, through=last.last_seq)))


# -- record audit ------------------------------------------------------------------------------
# Records what somebody did. What the plane does by itself is recorded where it does it, in the same transaction.


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
    refuse_larger(details, DETAILS_LIMIT_BYTES, "details", " Store the rest elsewhere and name the place.")
    stored = cast(dict[str, Any], normal(details, "details"))
    size = len(dumps(stored).encode())
    if size > DETAILS_LIMIT_BYTES:
        raise InvalidInput(
            f"details has {size:,} bytes; up to {DETAILS_LIMIT_BYTES:,} fit. Store the rest elsewhere and name the place.",
            field="details",
        )
    return stored
