"""Checks the audit log against its seals, from the first to the last, and tells everything that does not fit.

What it finds: every change of a sealed entry or of a seal, unless whoever made it also made anew every seal from there on.
What it cannot find by itself: an end that was cut off, or made anew. For that, keep the name of a seal where the database's
owner cannot reach it, and give it here as `known`. Entries that are not sealed yet prove nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from cortex_plane.core.audit_chain import (
    BEFORE_ALL,
    Finding,
    FindingKind,
    Seal,
    check_link,
    compare,
    fingerprint,
    range_begins_after,
)
from cortex_plane.core.errors import InvalidInput
from cortex_plane.ports.store import Store

SEALS_AT_A_TIME = 50
ENTRIES_AT_A_TIME = 1000


@dataclass(frozen=True, slots=True)
class AuditReport:
    """`sealed` counts the entries that sound seals cover, `unsealed` those that came after the last seal."""

    findings: list[Finding]
    seals: int
    sealed: int
    unsealed: int
    last_seal: str | None

    @property
    def sound(self) -> bool:
        return not self.findings


async def verify_audit(store: Store, known: str | None = None) -> AuditReport:
    """`known` is the name of a seal as an earlier report or a log gave it: number, colon, digest."""
    number, digest = _parsed(known)
    findings: list[Finding] = []
    seals = sealed = 0
    last: Seal | None = None
    async for seal in _all_seals(store):
        findings += check_link(last, seal)
        findings += await _check_entries(store, last, seal)
        if seal.number == number and seal.digest != digest:
            findings.append(Finding(FindingKind.SEAL_REPLACED, number))
        seals, sealed, last = seals + 1, sealed + (seal.entries if seal.holds else 0), seal
    end = last.number if last else 0
    if number > end:
        findings.append(Finding(FindingKind.SEAL_MISSING, end + 1, last_seal=number))
    unsealed = await store.seals.count_after(last.last_seq if last else BEFORE_ALL)
    return AuditReport(findings, seals, sealed, unsealed, last.name if last else None)


async def _check_entries(store: Store, previous: Seal | None, seal: Seal) -> list[Finding]:
    if not seal.holds:
        return [Finding(FindingKind.SEAL_CHANGED, seal.number)]
    return compare(seal, [found async for found in _fingerprints(store, range_begins_after(previous, seal), seal.last_seq)])


async def _all_seals(store: Store) -> AsyncIterator[Seal]:
    after = 0
    while page := await store.seals.list(after, SEALS_AT_A_TIME):
        for seal in page:
            yield seal
        after = page[-1].number


async def _fingerprints(store: Store, after: int, through: int) -> AsyncIterator[bytes]:
    while page := await store.seals.entries(after, through, ENTRIES_AT_A_TIME):
        for entry in page:
            yield fingerprint(entry)
        after = page[-1].seq


def _parsed(known: str | None) -> tuple[int, str]:
    if known is None:
        return 0, ""
    number, _, digest = known.strip().lower().partition(":")
    if not (number.isascii() and number.isdigit() and int(number) > 0 and len(digest) == 64):
        raise InvalidInput(
            f"{known!r:.90} is not the name of a seal. It is a number, a colon and 64 hexadecimal digits, as verify prints it.",
            field="seal",
        )
    return int(number), digest
