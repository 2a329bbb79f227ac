"""Seals of the audit log, as pure values; and that both stores give the same to hash."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cortex_plane.audit.model import (
    BEFORE_ALL,
    FIRST_PREVIOUS,
    AuditEntry,
    FindingKind,
    Look,
    Seal,
    SealFinding,
    StoredEntry,
    canonical,
    check_link,
    compare,
    erased,
    fingerprint,
    range_begins_after,
    seal_after,
)
from cortex_plane.clock import Instant
from cortex_plane.errors import InvalidInput
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from cortex_plane.json import dumps
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock, PostgresCluster
from cortex_plane.testing.clock import START
from cortex_plane.wiring import open_store
from tests.core.values import json_values, texts

ENTRY = StoredEntry(1, Instant(5), None, "ada", "DONE", "job", "7", None, None, '{"a": 1}')
OTHER: dict[str, Any] = {
    "at": 6,
    "tenant_id": DEFAULT_TENANT_ID,
    "actor": None,
    "action": "DONE ",
    "object_type": "jobs",
    "object_id": "8",
    "reason": "",
    "source": "ada",
    "details": '{"a": 2}',
    "salt": "another",
    "kept": '{"actor": {"digest": "another"}}',
}
K = FindingKind


def entries(*names: str, first: int = 1) -> list[StoredEntry]:
    return [replace(ENTRY, seq=seq, object_id=name) for seq, name in enumerate(names, first)]


def chain(*batches: list[StoredEntry]) -> list[Seal]:
    seals: list[Seal] = []
    for batch in batches:
        seals.append(seal_after(seals[-1] if seals else None, batch, START))
    return seals


# -- what is hashed --------------------------------------------------------------------------------


def test_every_field_counts() -> None:
    assert set(OTHER) | {"seq"} == {field.name for field in fields(StoredEntry)}
    changed = [replace(ENTRY, **{name: value}) for name, value in OTHER.items()]

    assert len({canonical(entry) for entry in [ENTRY, *changed]}) == 1 + len(OTHER)
    assert fingerprint(replace(ENTRY, seq=2)) != fingerprint(ENTRY)


@pytest.mark.parametrize("words", [("actor",), ("reason", "source"), ("actor", "reason", "source", "details")])
def test_what_was_erased_leaves_the_fingerprint_as_it_was(words: tuple[str, ...]) -> None:
    entry = replace(ENTRY, reason="ada asked", source="192.0.2.1", salt="salt", details='{"name": "ada"}')
    once = erased(entry, words, "user:erased-1")
    twice = erased(once, ("details",), "user:erased-2")

    assert fingerprint(once) == fingerprint(twice) == fingerprint(entry)
    assert [getattr(once, word) for word in words] == ["user:erased-1" if word == "actor" else None for word in words]
    assert (once.salt, twice.details) == (None, None)
    assert all(fingerprint(_with(once, name)) != fingerprint(entry) for name in ("action", "object_id"))
    left = [name for name in ("reason", "source", "details") if name not in words]
    assert all(fingerprint(_with(once, name)) != fingerprint(entry) for name in left)


def _with(entry: StoredEntry, name: str) -> StoredEntry:
    other: dict[str, Any] = {name: "other"}
    return replace(entry, **other)


def test_a_text_cannot_slip_from_one_field_into_the_next() -> None:
    one = replace(ENTRY, actor='ada","DONE', action="x")
    other = replace(ENTRY, actor="ada", action='DONE","x')

    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ('{"b": 1, "a": [1.0, -0.0]}', '{"a":[1,0],"b":1}'),
        ('{"x": 1e2}', '{"x": 100}'),
        ('{"x": 18446744073709551616}', '{"x": 1.8446744073709552e19}'),
        ('{"x": "\\u00e9"}', '{"x": "é"}'),
        ("null", " null "),
    ],
)
def test_details_count_by_their_value(one: str, same: str) -> None:
    assert canonical(replace(ENTRY, details=one)) == canonical(replace(ENTRY, details=same))


@pytest.mark.parametrize(
    "details",
    ["{}", "null", '{"a":1,"a":2}', '{"a":2,"a":2}', "no json", '"no json"', "", "1e999", "NaN", "9" * 5000, "[" * 9000],
    ids=lambda text: text[:12],
)
def test_details_of_any_kind_can_be_sealed_and_differ_from_none(details: str) -> None:
    """Also what only raw SQL can have written: the sealer must never be stuck."""
    simple = [None, "{}", "null", '{"a":2}', '["text","no json"]']
    others = {canonical(replace(ENTRY, details=text)) for text in simple if text != details}

    assert canonical(replace(ENTRY, details=details)) not in others


# -- the same on both stores -----------------------------------------------------------------------


@pytest.fixture(scope="module")
async def both(
    cluster: PostgresCluster, tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[list[Store]]:
    clock = ManualClock()
    file: Path = tmp_path_factory.mktemp("audit") / "test.db"
    url = cluster.create_database("test_audit_chain", template="cortex_template")
    await clock.rule(url)
    stores: list[Any] = [open_store(f"sqlite:///{file}", clock, new_id), open_store(url, clock, new_id)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()
    cluster.drop_database("test_audit_chain")


@pytest.mark.anyio
@settings(max_examples=100, deadline=None)
@given(
    action=texts,
    object_id=texts,
    maybe=st.lists(st.none() | texts, min_size=3, max_size=3),
    tenant=st.sampled_from([None, DEFAULT_TENANT_ID]),
    details=st.dictionaries(texts, json_values, max_size=4),
)
@example("A", "1", [None] * 3, None, {"x": [-0.0, 1.0, 1e16, 1e22, 5e-324, 2.0**63, 2**53 + 1, -(2**63), 0.1, 1e300]})
@example("A", "1", [None] * 3, None, {"x": 5.772057928792834e16})
@example("\u2028", "\ufeff", ["\x01", "", "\U0001f600"], None, {"": None, "e\u0301": {"b": [], "a": {}}})
async def test_an_entry_has_one_fingerprint_whichever_store_it_was_read_from(
    both: list[Store], action: str, object_id: str, maybe: list[str | None], tenant: str | None, details: dict[str, Any]
) -> None:
    actor, reason, source = maybe
    entry = AuditEntry(action, "job", object_id, actor, reason, source, tenant, details)
    try:
        dumps(entry.to_json())
    except InvalidInput:
        assume(False)
    read = []
    for store in both:
        look = await store.seals.look(BEFORE_ALL)
        before = look.seq if look else BEFORE_ALL
        await store.audit.record([entry])
        read += await store.seals.entries(before, 2**62, 2)

    sqlite, postgres = (replace(one, salt="the same") for one in read)
    assert canonical(sqlite) == canonical(postgres)
    assert fingerprint(replace(sqlite, seq=1)) == fingerprint(replace(postgres, seq=1))


# -- the chain -------------------------------------------------------------------------------------


def test_a_seal_names_its_entries_and_the_seal_before() -> None:
    first, second = chain(entries("a", "b"), entries("c", first=5))

    assert (first.number, first.first_seq, first.last_seq, first.entries, first.previous_digest) == (1, 1, 2, 2, FIRST_PREVIOUS)
    assert (second.number, second.first_seq, second.last_seq, second.entries) == (2, 5, 5, 1)
    assert second.previous_digest == first.digest
    assert first.holds
    assert second.holds


@pytest.mark.parametrize(
    "change",
    [
        {"number": 2},
        {"first_seq": 0},
        {"last_seq": 3},
        {"entries": 3},
        {"fingerprints": b"\0" * 80},
        {"fingerprints": b"\0" * 79},
        {"fingerprints": b""},
        {"previous_digest": "1" * 64},
        {"digest": "1" * 64},
        {"sealed_at": START + timedelta(microseconds=1)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_seal_holds_only_as_it_was_made(change: dict[str, Any]) -> None:
    [seal] = chain(entries("a", "b"))

    assert not replace(seal, **change).holds


def test_links_are_checked_from_the_first_seal_on() -> None:
    one, two, three = chain(entries("a"), entries("b", first=2), entries("c", first=3))
    [other] = chain(entries("x"))

    assert check_link(None, one) == check_link(one, two) == check_link(two, three) == []
    assert check_link(None, three) == [SealFinding(K.SEAL_MISSING, 1, last_seal=2)]
    assert check_link(one, three) == [SealFinding(K.SEAL_MISSING, 2, last_seal=2)]
    assert check_link(other, two) == [SealFinding(K.LINK_BROKEN, 2)]
    assert check_link(None, replace(one, previous_digest=two.digest)) == [SealFinding(K.LINK_BROKEN, 1)]


def test_a_range_begins_right_after_the_seal_before_if_that_one_can_be_trusted() -> None:
    one, two = chain(entries("a", "b"), entries("c", first=9))

    assert range_begins_after(None, one) == BEFORE_ALL
    assert range_begins_after(one, two) == 2
    assert range_begins_after(None, two) == 8
    assert range_begins_after(replace(one, last_seq=7), two) == 8


# -- what became of the entries --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "findings"),
    [
        ({1: "a", 2: "b", 3: "c"}, []),
        ({1: "a", 2: "x", 3: "c"}, [(K.ENTRY_CHANGED, 2, None)]),
        ({1: "a", 3: "c"}, [(K.ENTRY_MISSING, 2, None)]),
        ({}, [(K.ENTRY_MISSING, 1, None), (K.ENTRY_MISSING, 2, None), (K.ENTRY_MISSING, 3, None)]),
        ({0: "a", 1: "a", 2: "b", 3: "c"}, [(K.ENTRY_ADDED, 0, None)]),
        ({1: "b", 2: "a", 3: "c"}, [(K.ENTRY_MOVED, 1, 2), (K.ENTRY_MOVED, 2, 1)]),
        ({0: "b", 1: "a", 3: "c"}, [(K.ENTRY_MOVED, 0, 2)]),
        ({1: "b", 2: "b", 3: "c"}, [(K.ENTRY_CHANGED, 1, None)]),
        ({1: "b", 3: "c"}, [(K.ENTRY_MISSING, 1, None), (K.ENTRY_MOVED, 1, 2)]),
        ({1: "c", 2: "a", 3: "b"}, [(K.ENTRY_MOVED, 1, 3), (K.ENTRY_MOVED, 2, 1), (K.ENTRY_MOVED, 3, 2)]),
        ({0: "z", 1: "a", 2: "y"}, [(K.ENTRY_ADDED, 0, None), (K.ENTRY_CHANGED, 2, None), (K.ENTRY_MISSING, 3, None)]),
    ],
    ids=str,
)
def test_each_entry_is_told_apart(now: dict[int, str], findings: list[tuple[FindingKind, int, int | None]]) -> None:
    [seal] = chain(entries("a", "b", "c"))
    found = [fingerprint(replace(ENTRY, seq=seq, object_id=name)) for seq, name in now.items()]

    told = [(finding.kind, finding.seq, finding.was_seq) for finding in compare(seal, found)]
    assert sorted(told, key=str) == sorted(findings, key=str)


@given(st.dictionaries(st.integers(-2, 8), st.sampled_from("abcdex"), max_size=9))
def test_nothing_is_found_exactly_when_all_is_as_it_was(now: dict[int, str]) -> None:
    sealed = dict(enumerate("abcde", 1))
    [seal] = chain(entries(*sealed.values()))
    found = [fingerprint(replace(ENTRY, seq=seq, object_id=name)) for seq, name in now.items()]

    assert (compare(seal, found) == []) == (now == sealed)


def test_a_look_is_settled_when_all_transactions_up_to_its_horizon_have_ended() -> None:
    look = Look(seq=7, horizon=100, oldest=90, at=START)

    assert not look.is_settled_by(look)
    assert not look.is_settled_by(replace(look, oldest=100))
    assert look.is_settled_by(replace(look, oldest=101))
