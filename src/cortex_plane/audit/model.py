"""Audit entries, and the hash chain that seals them."""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from cortex_plane.clock import Instant, instant
from cortex_plane.errors import InvalidInput
from cortex_plane.json import HIGHEST_INTEGER, LOWEST_INTEGER, normal


@dataclass(frozen=True, slots=True)
class AuditEntry:
    action: str
    object_type: str
    object_id: str
    actor: str | None = None
    reason: str | None = None
    source: str | None = None
    tenant_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """With its details in normal form: jsonb would round a number that is not, and the seals of two stores would differ."""
        return {
            "action": self.action,
            "object_type": self.object_type,
            "object_id": self.object_id,
            "actor": self.actor,
            "reason": self.reason,
            "source": self.source,
            "tenant_id": self.tenant_id,
            "details": normal(self.details, "details") or None,
        }


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry as it is stored: `seq` is the order in which entries were written."""

    seq: int
    at: datetime
    entry: AuditEntry


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries somebody asks for; None asks for all. `since` is included, `until` is not."""

    actor: str | None = None
    action: str | None = None
    object_id: str | None = None
    tenant_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """`next_before` is where the next page begins; None when everything was looked at. A page may be short, or empty, and still
    not be the last: what is rare is looked for in steps."""

    records: list[AuditRecord]
    next_before: int | None


# -- audit chain -------------------------------------------------------------------------------
# The seals of the audit log: what is hashed, how seals hang together, and what a broken one tells.
#
#     entry ──▶ fingerprint: seq, SHA-256 of everything else          (in a form that is the same on both stores)
#               actor, reason, source and details enter it as salted digests, so that they can be erased and leave it as it was
#     seal  ──▶ digest: SHA-256 over number, previous digest, time, and the fingerprints of its entries, in order
#
#     seal 1 ◀── seal 2 ◀── seal 3 …   each names the digest of the one before
#
# A seal keeps its fingerprints, so that a mismatch names the entry. What a seal covers begins after the one before it, so a
# gap that a rolled-back transaction left in the numbers cannot be filled later without notice.


BEFORE_ALL = -(2**63)
FIRST_PREVIOUS = "0" * 64
PRUNED = "AUDIT_LOG_PRUNED"
"""The action of the entry that records a pruning. Its object is the name of the last seal whose entries went."""
FINGERPRINT = struct.Struct(">q32s")
ERASABLE = ("actor", "reason", "source", "details")


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
    salt: str | None = None
    kept: str | None = None
    """JSON, of an entry from which something was erased: `{"digest": …}` of what went, `{"salt": …}` for what did not."""


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
class PruningMark:
    """The last seal whose entries were pruned. Number 0: none were."""

    number: int
    digest: str
    last_seq: int
    at: datetime

    @property
    def name(self) -> str:
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
    PRUNING_UNRECORDED = "pruning_unrecorded"


@dataclass(frozen=True, slots=True)
class SealFinding:
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
    fields = (entry.tenant_id, entry.action, entry.object_type, entry.object_id, *(_digest_of(entry, name) for name in ERASABLE))
    texts = ",".join("null" if field is None else _quoted(field) for field in fields)
    return f"[{_text(entry.at)},{texts}]".encode()


def erased(entry: StoredEntry, words: Collection[str], pseudonym: str | None = None) -> StoredEntry:
    """Without these of its fields, and with the same fingerprint. An actor that goes becomes the pseudonym."""
    kept = {name: _left_of(entry, name, goes=name in words) for name in ERASABLE if _digest_of(entry, name) is not None}
    gone: dict[str, Any] = {name: pseudonym if name == "actor" else None for name in words if name in kept}
    return replace(entry, **gone, salt=None, kept=_text(kept))


def _left_of(entry: StoredEntry, name: str, *, goes: bool) -> dict[str, str]:
    before = _kept(entry).get(name, {})
    if goes or "digest" in before:
        return {"digest": str(_digest_of(entry, name))}
    return {"salt": _salt_for(entry, name)}


def _digest_of(entry: StoredEntry, name: str) -> str | None:
    """Nobody finds out by guessing what an erased text was: its salt is gone."""
    if entry.kept is not None and "digest" in (known := _kept(entry).get(name, {})):
        return str(known["digest"])
    value = getattr(entry, name)
    if value is None:
        return None
    content = _text(_canonical_details(value) if name == "details" else value)
    return sha256(f"{_salt_for(entry, name)} {content}".encode()).hexdigest()


def _salt_for(entry: StoredEntry, name: str) -> str:
    known: dict[str, str] = _kept(entry).get(name, {}) if entry.kept is not None else {}
    return known["salt"] if "salt" in known else sha256(f"{entry.salt or ''} {name}".encode()).hexdigest()


def _kept(entry: StoredEntry) -> dict[str, Any]:
    if entry.kept is None:
        return {}
    try:
        found = json.loads(entry.kept)
    except ValueError:
        return {}
    return {name: left for name, left in found.items() if isinstance(left, dict)} if isinstance(found, dict) else {}


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
        return ["json", normal(json.loads(text, object_pairs_hook=_without_doubles, parse_int=_number))]
    except (ValueError, RecursionError, InvalidInput):
        return ["text", text]


def _number(digits: str) -> int | float:
    """An integer beyond 64 bits was a float when it was stored: jsonb writes those without their exponent."""
    number = int(digits)
    return number if LOWEST_INTEGER <= number <= HIGHEST_INTEGER else float(digits)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key that is there twice, one reader would see the first value and another the last."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key is there twice")
    return members


_text = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_quoted = json.encoder.encode_basestring_ascii


# -- checking them ---------------------------------------------------------------------------------
def compare(seal: Seal, found: Iterable[bytes]) -> list[SealFinding]:
    """What became of the entries of a seal that holds; `found` are the fingerprints of what is in its range now."""
    sealed, present = _by_seq(seal.fingerprints), _by_seq(b"".join(found))
    lost = {seq: content for seq, content in sealed.items() if present.get(seq) != content}
    strange = {seq: content for seq, content in present.items() if sealed.get(seq) != content}
    moved = _moved(lost, strange)
    for seq, was_seq in moved.items():
        del strange[seq], lost[was_seq]
    findings = [SealFinding(FindingKind.ENTRY_MOVED, seal.number, seq, was_seq) for seq, was_seq in moved.items()]
    findings += [
        SealFinding(FindingKind.ENTRY_CHANGED if seq in strange else FindingKind.ENTRY_MISSING, seal.number, seq) for seq in lost
    ]
    findings += [SealFinding(FindingKind.ENTRY_ADDED, seal.number, seq) for seq in strange if seq not in lost]
    return sorted(findings, key=lambda finding: finding.seq or 0)


def check_link(previous: Seal | None, seal: Seal) -> list[SealFinding]:
    """Whether a seal follows the one that was found before it."""
    expected = 1 if previous is None else previous.number + 1
    if seal.number != expected:
        return [SealFinding(FindingKind.SEAL_MISSING, expected, last_seal=seal.number - 1)]
    digest = FIRST_PREVIOUS if previous is None else previous.digest
    return [] if seal.previous_digest == digest else [SealFinding(FindingKind.LINK_BROKEN, seal.number)]


def added_to(seal: Seal, found: Iterable[bytes]) -> list[SealFinding]:
    """What was put into the range of a seal whose entries were pruned."""
    return [SealFinding(FindingKind.ENTRY_ADDED, seal.number, seq) for seq in sorted(_by_seq(b"".join(found)))]


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
