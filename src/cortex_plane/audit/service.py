"""`plane.audit`: list, verify, seal and export the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import structlog

from cortex_plane.agents.directory import Directory
from cortex_plane.audit.model import (
    BEFORE_ALL,
    PRUNED,
    AuditEntry,
    AuditFilter,
    AuditPage,
    AuditRecord,
    FindingKind,
    PruningMark,
    Seal,
    SealFinding,
    added_to,
    check_link,
    compare,
    fingerprint,
    range_begins_after,
    seal_after,
)
from cortex_plane.audit.store import record_audit
from cortex_plane.errors import InvalidInput
from cortex_plane.wiring import seal_target

if TYPE_CHECKING:
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


LONGEST_PAGE = 10_000


class AuditWish(TypedDict, total=False):
    actor: str | None
    action: str | None
    object_id: str | None
    tenant: str | None
    since: datetime | None
    until: datetime | None


async def page_audit(
    store: Store,
    *,
    actor: str | None = None,
    action: str | None = None,
    object_id: str | None = None,
    tenant: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: int | None = None,
    limit: int = 50,
) -> AuditPage:
    """`before` is where the page before says that the next one begins."""
    for name, number, most in (("limit", limit, LONGEST_PAGE), ("before", before, 2**63 - 1)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most):
            raise InvalidInput(f"{name} must be a whole number from 1 to {most:,}, not {number!r}.", field=name)
    wanted = AuditFilter(
        actor=actor,
        action=action,
        object_id=object_id,
        tenant_id=None if tenant is None else await Directory(store).tenant(tenant),
        since=_moment(since, "since"),
        until=_moment(until, "until"),
    )
    return await store.audit.page(wanted, before=before, limit=limit)


async def list_audit(
    store: Store, *, before: int | None = None, limit: int = 50, **wanted: Unpack[AuditWish]
) -> list[AuditRecord]:
    """However long it takes to find so many. `before` is the number of the last entry that is known already."""
    page = await page_audit(store, before=before, limit=limit, **wanted)
    found = page.records
    while page.next_before is not None and len(found) < limit:
        page = await page_audit(store, before=page.next_before, limit=limit - len(found), **wanted)
        found += page.records
    return found


def _moment(moment: datetime | None, name: str) -> datetime | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{name} must be a datetime, not {moment!r:.60}.", field=name)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# -- verify audit ------------------------------------------------------------------------------
# Checks the audit log against its seals, from the first to the last, and tells everything that does not fit.
#
# What it finds: every change of a sealed entry or of a seal, unless whoever made it also made anew every seal from there on.
# Entries that retention has pruned are told, not missed: the mark up to which they went is compared with its record in
# the log.
# What it cannot find by itself: an end that was cut off, or made anew. For that, keep the name of a seal where the database's
# owner cannot reach it, and give it here as `known`. Entries that are not sealed yet prove nothing.


SEALS_AT_A_TIME = 50
ENTRIES_AT_A_TIME = 1000


@dataclass(frozen=True, slots=True)
class PrunedPart:
    """What retention has deleted: so many entries, of so many seals up to `last_seal`, the last of them at this time."""

    entries: int
    seals: int
    last_seal: str
    at: datetime


@dataclass(frozen=True, slots=True)
class AuditReport:
    """`sealed` counts the entries that sound seals cover and that are kept, `unsealed` those that came after the last seal.
    `seals` counts all, with those whose entries were pruned."""

    findings: list[SealFinding]
    seals: int
    sealed: int
    unsealed: int
    last_seal: str | None
    pruned: PrunedPart | None = None

    @property
    def sound(self) -> bool:
        return not self.findings


async def verify_audit(store: Store, known: str | Sequence[str] | None = None) -> AuditReport:
    """`known` is the name of a seal as an earlier report, a log or an export gave it: number, colon, digest; or many of them."""
    names = [known] if isinstance(known, str) else known or ()
    kept: dict[int, set[str]] = {}
    for number, digest in map(_parsed, names):
        kept.setdefault(number, set()).add(digest)
    check = _Check(store, await store.seals.pruned())
    if check.mark.number:
        kept.setdefault(check.mark.number, set()).add(check.mark.digest)
    findings: list[SealFinding] = []
    last: Seal | None = None
    async for seal in _all_seals(store):
        findings += check_link(last, seal)
        findings += await check.seal(last, seal)
        if kept.get(seal.number, {seal.digest}) != {seal.digest}:
            findings.append(SealFinding(FindingKind.SEAL_REPLACED, seal.number))
        last = seal
    end = last.number if last else 0
    if (newest := max(kept, default=0)) > end:
        findings.append(SealFinding(FindingKind.SEAL_MISSING, end + 1, last_seal=newest))
    findings += await check.record_of_pruning()
    unsealed = await store.seals.count_after(last.last_seq if last else BEFORE_ALL)
    return AuditReport(findings, check.seals, check.kept, unsealed, last.name if last else None, check.pruned_part)


class _Check:
    """Compares seal after seal with its entries, and counts. Entries may be pruned meanwhile, so the mark is read again before
    any is called missing."""

    def __init__(self, store: Store, mark: PruningMark) -> None:
        self._store, self.mark = store, mark
        self.seals = self.kept = 0
        self._pruned_seals = self._pruned = 0

    async def seal(self, previous: Seal | None, seal: Seal) -> list[SealFinding]:
        self.seals += 1
        findings = await self._compare(previous, seal)
        if findings and not self._is_pruned(seal):
            self.mark = await self._store.seals.pruned()
            if self._is_pruned(seal):
                findings = await self._compare(previous, seal)
        if self._is_pruned(seal):
            self._pruned_seals, self._pruned = self._pruned_seals + 1, self._pruned + seal.entries
        elif seal.holds:
            self.kept += seal.entries
        return findings

    async def record_of_pruning(self) -> list[SealFinding]:
        """The record of the newest pruning is never pruned itself: without it, somebody else has moved the mark."""
        mark = None
        while mark != self.mark and self.mark.number:
            mark = self.mark
            if any(record.entry.action == PRUNED for record in await self._store.audit.list(mark.name)):
                return []
            self.mark = await self._store.seals.pruned()
        return [SealFinding(FindingKind.PRUNING_UNRECORDED, mark.number)] if mark else []

    @property
    def pruned_part(self) -> PrunedPart | None:
        if not self._pruned_seals:
            return None
        return PrunedPart(self._pruned, self._pruned_seals, self.mark.name, self.mark.at)

    def _is_pruned(self, seal: Seal) -> bool:
        return seal.number <= self.mark.number

    async def _compare(self, previous: Seal | None, seal: Seal) -> list[SealFinding]:
        if not seal.holds:
            return [SealFinding(FindingKind.SEAL_CHANGED, seal.number)]
        begin = range_begins_after(previous, seal)
        found = [found async for found in fingerprints_between(self._store, begin, seal.last_seq)]
        return added_to(seal, found) if self._is_pruned(seal) else compare(seal, found)


async def _all_seals(store: Store) -> AsyncIterator[Seal]:
    after = 0
    while page := await store.seals.list(after, SEALS_AT_A_TIME):
        for seal in page:
            yield seal
        after = page[-1].number


async def fingerprints_between(store: Store, after: int, through: int) -> AsyncIterator[bytes]:
    """Of the entries with a number above `after` and up to `through`."""
    while page := await store.seals.entries(after, through, ENTRIES_AT_A_TIME):
        for entry in page:
            yield fingerprint(entry)
        after = page[-1].seq


def _parsed(known: str) -> tuple[int, str]:
    number, _, digest = known.strip().lower().partition(":")
    if not (number.isascii() and number.isdigit() and int(number) > 0 and len(digest) == 64):
        raise InvalidInput(
            f"{known!r:.90} is not the name of a seal. It is a number, a colon and 64 hexadecimal digits, as verify prints it.",
            field="seal",
        )
    return int(number), digest


# -- seal audit --------------------------------------------------------------------------------
# Seals what was recorded: one seal for each batch of entries, each bound to the one before.


log = structlog.get_logger()

BATCH = 500


async def seal_audit(store: Store, through: int, now: datetime, most: int | None = None, *, batch: int | None = None) -> int:
    """Up to an entry below which nothing can appear any more, or about `most` of them, `batch` with each seal; returns how many
    were sealed."""
    sealed = 0
    last = await store.seals.last()
    while entries := await store.seals.entries(last.last_seq if last else BEFORE_ALL, through, batch or BATCH):
        seal = seal_after(last, entries, now)
        if not await store.seals.add(seal):
            break  # Another sealer was faster; its seals are as good as ours.
        # Where logs are kept elsewhere, this line is a witness that nobody with the database alone can change.
        log.info("audit_sealed", seal=seal.name, entries=seal.entries, last_seq=seal.last_seq)
        last, sealed = seal, sealed + seal.entries
        if most is not None and sealed >= most:
            break
    return sealed


# -- export seals ------------------------------------------------------------------------------
# Sends the seals of the audit log where the owner of the database cannot change them, so that a cut-off end is noticed.
#
# Each is sent at least once, in order. What was sent is noted for each target, by the digest of its address.


SendSeal = Callable[[Seal], Awaitable[None]]
EXPORT_BATCH = 100


async def export_seals(store: Store, target: str, send: SendSeal) -> int:
    """Those that were not sent yet; returns how many. Raises what `send` raises: the rest is sent the next time."""
    key = key_of(target)
    sent, after = 0, await store.seals.exported(key)
    while seals := await store.seals.list(after, EXPORT_BATCH):
        for seal in seals:
            await send(seal)
            await store.seals.note_exported(key, seal.number)
            sent, after = sent + 1, seal.number
    return sent


def key_of(target: str) -> str:
    """Under which the store notes what was sent there: an address may hold a secret."""
    return sha256(target.encode()).hexdigest()


def document_of(seal: Seal) -> dict[str, Any]:
    """Nothing of the entries but their number: it may be kept by others."""
    return {
        "seal": seal.name,
        "previous_digest": seal.previous_digest,
        "entries": seal.entries,
        "first_seq": seal.first_seq,
        "last_seq": seal.last_seq,
        "sealed_at": seal.sealed_at.isoformat(),
    }


# -- auditing ----------------------------------------------------------------------------------
# The audit log as a plane offers it: `plane.audit.list()`, `plane.audit.verify()`, `plane.audit.record(...)`.


class AuditLog:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def record(
        self,
        action: str,
        object_type: str,
        object_id: str,
        *,
        actor: str | None = None,
        reason: str | None = None,
        source: str | None = None,
        tenant: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        """Adds an entry of your own, such as what a person did in your program. It can never be changed."""
        store = self._plane.store
        tenant_id = None if tenant is None else await Directory(store).tenant(tenant)
        await record_audit(store, AuditEntry(action, object_type, object_id, actor, reason, source, tenant_id, details or {}))

    async def verify(self, *, known: str | Sequence[str] | None = None) -> AuditReport:
        """Checks every sealed entry. `known` is the name of a seal that you kept elsewhere, or those of many: they must still
        be there."""
        return await verify_audit(self._plane.store, known)

    async def export_seals(self, target: str, *, authorization: str = "") -> int:
        """Sends the seals that were not sent there yet, and returns how many: to `file:PATH`, `https://…` (each is posted) or
        `s3+https://…/` (each is put as NUMBER.json). Workers do so by themselves where CORTEX_SEAL_EXPORT is set."""
        return await export_seals(self._plane.store, target, seal_target(target, authorization))

    async def list(self, *, before: int | None = None, limit: int = 50, **wanted: Unpack[AuditWish]) -> list[AuditRecord]:
        """Newest first. `before` is the number of the last entry of the page before; `until` is not included."""
        return await list_audit(self._plane.store, before=before, limit=limit, **wanted)

    async def page(self, *, before: int | None = None, limit: int = 50, **wanted: Unpack[AuditWish]) -> AuditPage:
        """The same in steps that never take long: a page may be short and still have a next one, at its `next_before`."""
        return await page_audit(self._plane.store, before=before, limit=limit, **wanted)
