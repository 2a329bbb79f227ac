"""The seals of the audit log: what is hashed, how seals hang together, and what a broken one tells.

    entry ──▶ fingerprint: seq, SHA-256 of everything else          (in a form that is the same on both stores)
    seal  ──▶ digest: SHA-256 over number, previous digest, time, and the fingerprints of its entries, in order

    seal 1 ◀── seal 2 ◀── seal 3 …   each names the digest of the one before

A seal keeps its fingerprints, so that a mismatch names the entry. What a seal covers begins after the one before it, so a
gap that a rolled-back transaction left in the numbers cannot be filled later without notice.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.instants import Instant, instant
from cortex_plane.core.normal_json import normal

BEFORE_ALL = -(2**63)
FIRST_PREVIOUS = "0" * 64
FINGERPRINT = struct.Struct(">q32s")


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A row of the log, with its details as the text that the database holds."""

    seq: int
    at: Instant
    tenant_id: str | None
    actor: str | None
    action: str
    object_type: str
    object_id: str
    reason: str | None
    source: str | None
    details: str | None


@dataclass(frozen=True, slots=True)
class Seal:
    number: int
    first_seq: int
    last_seq: int
    entries: int
    fingerprints: bytes
    previous_digest: str
    digest: str
    sealed_at: datetime

    @property
    def holds(self) -> bool:
        """Its own fields agree with its digest."""
        return len(self.fingerprints) % FINGERPRINT.size == 0 and self == _sealed(
            self.number, self.previous_digest, self.fingerprints, self.sealed_at
        )

    @property
    def name(self) -> str:
        """What to keep elsewhere, to recognise this seal again."""
        return f"{self.number}:{self.digest}"


@dataclass(frozen=True, slots=True)
class Look:
    """The newest entry at one moment. Transactions are numbered as they begin to write: all that wrote before this look are
    below `horizon`, and all below `oldest` have ended."""

    seq: int
    horizon: int
    oldest: int
    at: datetime

    def is_settled_by(self, later: Look) -> bool:
        """Nothing can appear any more at or before `seq`."""
        return later.oldest > self.horizon


class FindingKind(StrEnum):
    ENTRY_CHANGED = "entry_changed"
    ENTRY_MISSING = "entry_missing"
    ENTRY_ADDED = "entry_added"
    ENTRY_MOVED = "entry_moved"
    SEAL_CHANGED = "seal_changed"
    SEAL_MISSING = "seal_missing"
    SEAL_REPLACED = "seal_replaced"
    LINK_BROKEN = "link_broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """`seal` and `seq` say where; `was_seq` is the number under which a moved entry was sealed, `last_seal` the last of
    several seals that are missing."""

    kind: FindingKind
    seal: int
    seq: int | None = None
    was_seq: int | None = None
    last_seal: int | None = None


# -- making seals ----------------------------------------------------------------------------------


def fingerprint(entry: StoredEntry) -> bytes:
    return FINGERPRINT.pack(entry.seq, sha256(canonical(entry)).digest())


def canonical(entry: StoredEntry) -> bytes:
    """Everything but the number. Equal for equal entries, whichever database they were read from."""
    fields = [
        entry.at,
        entry.tenant_id,
        entry.actor,
        entry.action,
        entry.object_type,
        entry.object_id,
        entry.reason,
        entry.source,
        _canonical_details(entry.details),
    ]
    return _text(fields).encode()


def seal_after(previous: Seal | None, entries: Sequence[StoredEntry], now: datetime) -> Seal:
    """Entries by ascending seq, at least one."""
    number, digest = (1, FIRST_PREVIOUS) if previous is None else (previous.number + 1, previous.digest)
    return _sealed(number, digest, b"".join(map(fingerprint, entries)), now)


def _sealed(number: int, previous_digest: str, fingerprints: bytes, at: datetime) -> Seal:
    head = _text([number, previous_digest, instant(at)]).encode()
    digest = sha256(head + b"\n" + fingerprints).hexdigest()
    seqs = [seq for seq, _ in FINGERPRINT.iter_unpack(fingerprints)] or [0]
    return Seal(number, seqs[0], seqs[-1], len(fingerprints) // FINGERPRINT.size, fingerprints, previous_digest, digest, at)


def _canonical_details(text: str | None) -> Any:
    """In normal form, because databases write the same number in more than one way. What has none is taken as it is."""
    if text is None:
        return None
    try:
        return ["json", normal(json.loads(text, object_pairs_hook=_without_doubles))]
    except (ValueError, RecursionError, InvalidInput):
        return ["text", text]


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key that is there twice, one reader would see the first value and another the last."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key is there twice")
    return members


_text = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


# -- checking them ---------------------------------------------------------------------------------


def compare(seal: Seal, found: Iterable[bytes]) -> list[Finding]:
    """What became of the entries of a seal that holds; `found` are the fingerprints of what is in its range now."""
    sealed, present = _by_seq(seal.fingerprints), _by_seq(b"".join(found))
    lost = {seq: content for seq, content in sealed.items() if present.get(seq) != content}
    strange = {seq: content for seq, content in present.items() if sealed.get(seq) != content}
    moved = _moved(lost, strange)
    for seq, was_seq in moved.items():
        del strange[seq], lost[was_seq]
    findings = [Finding(FindingKind.ENTRY_MOVED, seal.number, seq, was_seq) for seq, was_seq in moved.items()]
    findings += [
        Finding(FindingKind.ENTRY_CHANGED if seq in strange else FindingKind.ENTRY_MISSING, seal.number, seq) for seq in lost
    ]
    findings += [Finding(FindingKind.ENTRY_ADDED, seal.number, seq) for seq in strange if seq not in lost]
    return sorted(findings, key=lambda finding: finding.seq or 0)


def check_link(previous: Seal | None, seal: Seal) -> list[Finding]:
    """Whether a seal follows the one that was found before it."""
    expected = 1 if previous is None else previous.number + 1
    if seal.number != expected:
        return [Finding(FindingKind.SEAL_MISSING, expected, last_seal=seal.number - 1)]
    digest = FIRST_PREVIOUS if previous is None else previous.digest
    return [] if seal.previous_digest == digest else [Finding(FindingKind.LINK_BROKEN, seal.number)]


def range_begins_after(previous: Seal | None, seal: Seal) -> int:
    """Right after the seal before it, as far as that one can be trusted."""
    if seal.number == 1:
        return BEFORE_ALL
    if previous is not None and previous.number == seal.number - 1 and previous.holds:
        return previous.last_seq
    return seal.first_seq - 1


def _moved(lost: dict[int, bytes], strange: dict[int, bytes]) -> dict[int, int]:
    """Contents that are there still, under another number: where they are now, and where they were."""
    places: dict[bytes, list[int]] = {}
    for seq, content in lost.items():
        places.setdefault(content, []).append(seq)
    return {seq: places[content].pop(0) for seq, content in strange.items() if places.get(content)}


def _by_seq(fingerprints: bytes) -> dict[int, bytes]:
    return dict(FINGERPRINT.iter_unpack(fingerprints))
