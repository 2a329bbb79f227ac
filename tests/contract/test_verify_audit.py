"""Whatever is done to sealed rows behind the database's back is found; what cannot be found is said."""

from __future__ import annotations

import pytest

from cortex_plane.audit import service as sealing
from cortex_plane.audit import service as verifying
from cortex_plane.audit.model import AuditEntry, FindingKind, Seal, SealFinding, seal_after
from cortex_plane.audit.service import seal_audit, verify_audit
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from tests.contract.support import Raw, Scene
from tests.contract.test_repair import triggers_off

pytestmark = pytest.mark.anyio

K = FindingKind


@pytest.fixture
async def log(scene: Scene, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Seal 1: entries 1 to 3. Seal 2: 5 to 7; 4 was never there. Seal 3: 8 to 10. Not sealed: 11 and 12."""
    monkeypatch.setattr(sealing, "BATCH", 3)
    monkeypatch.setattr(verifying, "SEALS_AT_A_TIME", 2)
    monkeypatch.setattr(verifying, "ENTRIES_AT_A_TIME", 2)
    for number in range(1, 13):
        details = {"number": 7, "nested": {"list": [1.5, None, "ü"]}}
        await scene.store.audit.record(
            [AuditEntry("DONE", "job", str(number), "ada", "because", "cli", DEFAULT_TENANT_ID, details)]
        )
    await corrupt(raw, "delete from cortex.audit_log where seq = 4")
    assert await seal_audit(scene.store, 10, scene.now) == 9
    return scene


async def corrupt(raw: Raw, *statements: str) -> None:
    async with triggers_off(raw):
        for statement in statements:
            await raw(statement)


def insertion(raw: Raw, seq: int, object_id: str) -> str:
    """A copy of an entry, under another number and for another object."""
    overriding = "overriding system value" if raw.kind == "postgres" else ""
    words = "actor, action, object_type, {}, reason, source, details"
    salt = f"coalesce((select o.salt from cortex.audit_log o where o.object_id = '{object_id}'), salt)"
    return (
        f"insert into cortex.audit_log (seq, at, tenant_id, {words.format('object_id')}, salt) {overriding} "
        f"select {seq}, at, tenant_id, {words.format(repr(object_id))}, {salt} from cortex.audit_log where seq = 1"
    )


async def findings(scene: Scene, known: str | None = None) -> list[SealFinding]:
    return (await verify_audit(scene.store, known)).findings


async def names(scene: Scene) -> list[str]:
    return [seal.name for seal in await scene.store.seals.list(0, 10)]


async def test_an_untouched_log_is_sound(log: Scene) -> None:
    report = await verify_audit(log.store)

    assert (report.findings, report.sound, report.seals, report.sealed, report.unsealed) == ([], True, 3, 9, 2)
    assert report.last_seal == (await names(log))[-1]


async def test_a_log_that_nobody_has_written_to_is_sound(scene: Scene) -> None:
    report = await verify_audit(scene.store)

    assert (report.sound, report.seals, report.sealed, report.unsealed, report.last_seal) == (True, 0, 0, 0, None)


# -- entries ---------------------------------------------------------------------------------------

CHANGES = {
    "actor": "actor = 'eve'",
    "actor to nobody": "actor = null",
    "action": "action = 'UNDONE'",
    "object_type": "object_type = 'run'",
    "object_id": "object_id = '99'",
    "reason": "reason = 'Because'",
    "source": "source = null",
    "tenant_id": "tenant_id = null",
    "details to none": "details = null",
    "details": 'details = \'{"number": 8, "nested": {"list": [1.5, null, "ü"]}}\'',
    "a number inside details": 'details = \'{"number": 7, "nested": {"list": [1.50001, null, "ü"]}}\'',
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_entry_is_found(log: Scene, raw: Raw, change: str) -> None:
    await corrupt(raw, f"update cortex.audit_log set {CHANGES[change]} where seq = 6")

    assert await findings(log) == [SealFinding(K.ENTRY_CHANGED, 2, 6)]


async def test_a_time_that_was_moved_by_one_microsecond_is_found(log: Scene, raw: Raw) -> None:
    later = "at + 1" if raw.kind == "sqlite" else "at + interval '1 microsecond'"
    await corrupt(raw, f"update cortex.audit_log set at = {later} where seq = 1")

    assert await findings(log) == [SealFinding(K.ENTRY_CHANGED, 1, 1)]


async def test_details_that_say_the_same_in_other_words_are_the_same(log: Scene, raw: Raw) -> None:
    same = '{"nested": {"list": [15e-1, null, "\\u00fc"]}, "number": 7.0}'
    await corrupt(raw, f"update cortex.audit_log set details = '{same}' where seq = 6")

    assert await findings(log) == []


@pytest.mark.parametrize(("seq", "seal"), [(1, 1), (3, 1), (6, 2), (10, 3)])
async def test_a_deleted_entry_is_found(log: Scene, raw: Raw, seq: int, seal: int) -> None:
    await corrupt(raw, f"delete from cortex.audit_log where seq = {seq}")

    assert await findings(log) == [SealFinding(K.ENTRY_MISSING, seal, seq)]


async def test_a_whole_seal_of_deleted_entries_is_found(log: Scene, raw: Raw) -> None:
    await corrupt(raw, "delete from cortex.audit_log where seq between 5 and 7")

    assert await findings(log) == [SealFinding(K.ENTRY_MISSING, 2, seq) for seq in (5, 6, 7)]


async def test_two_entries_that_changed_places_are_found(log: Scene, raw: Raw) -> None:
    await corrupt(
        raw,
        "with old as materialized (select seq, salt from cortex.audit_log) update cortex.audit_log set "
        "object_id = case seq when 5 then '6' else '5' end, salt = (select o.salt from old o where o.seq = 11 - audit_log.seq) "
        "where seq in (5, 6)",
    )

    assert await findings(log) == [SealFinding(K.ENTRY_MOVED, 2, 5, 6), SealFinding(K.ENTRY_MOVED, 2, 6, 5)]


async def test_a_renumbered_entry_is_found(log: Scene, raw: Raw) -> None:
    await corrupt(raw, insertion(raw, 4, "6"), "delete from cortex.audit_log where seq = 6")

    assert await findings(log) == [SealFinding(K.ENTRY_MOVED, 2, 4, 6)]


@pytest.mark.parametrize(("seq", "seal"), [(4, 2), (0, 1), (-5, 1)])
async def test_an_entry_that_was_put_into_a_gap_of_a_sealed_range_is_found(log: Scene, raw: Raw, seq: int, seal: int) -> None:
    await corrupt(raw, insertion(raw, seq, "forged"))

    assert await findings(log) == [SealFinding(K.ENTRY_ADDED, seal, seq)]


async def test_an_entry_that_left_its_seal_for_another_is_missed_there_and_strange_here(log: Scene, raw: Raw) -> None:
    await corrupt(raw, insertion(raw, 4, "10"), "delete from cortex.audit_log where seq = 10")

    assert await findings(log) == [SealFinding(K.ENTRY_ADDED, 2, 4), SealFinding(K.ENTRY_MISSING, 3, 10)]


# -- seals -----------------------------------------------------------------------------------------

ZEROS = "0" * 64
SEAL_CHANGES: dict[str, tuple[str, list[SealFinding]]] = {
    "first_seq": ("first_seq = 4", [SealFinding(K.SEAL_CHANGED, 2)]),
    "last_seq": ("last_seq = 6", [SealFinding(K.SEAL_CHANGED, 2)]),
    "last_seq further": ("last_seq = 100", [SealFinding(K.SEAL_CHANGED, 2)]),
    "digest": (f"digest = '{ZEROS}'", [SealFinding(K.SEAL_CHANGED, 2), SealFinding(K.LINK_BROKEN, 3)]),
    "previous_digest": (f"previous_digest = '{ZEROS}'", [SealFinding(K.LINK_BROKEN, 2), SealFinding(K.SEAL_CHANGED, 2)]),
    "number": (
        "number = 9",
        [
            SealFinding(K.SEAL_MISSING, 2, last_seal=2),
            SealFinding(K.SEAL_MISSING, 4, last_seal=8),
            SealFinding(K.SEAL_CHANGED, 9),
        ],
    ),
}


@pytest.mark.parametrize("change", SEAL_CHANGES)
async def test_a_changed_seal_is_found(log: Scene, raw: Raw, change: str) -> None:
    columns, expected = SEAL_CHANGES[change]
    await corrupt(raw, f"update cortex.audit_seal set {columns} where number = 2")

    assert await findings(log) == expected


@pytest.mark.parametrize(
    "columns",
    [
        {"sqlite": "sealed_at = sealed_at - 1", "postgres": "sealed_at = sealed_at - interval '1 microsecond'"},
        {"sqlite": "fingerprints = zeroblob(120)", "postgres": "fingerprints = set_byte(fingerprints, 119, 0)"},
    ],
    ids=["sealed_at", "fingerprints"],
)
async def test_time_and_fingerprints_of_a_seal_are_sealed_too(log: Scene, raw: Raw, columns: dict[str, str]) -> None:
    await corrupt(raw, f"update cortex.audit_seal set {columns[raw.kind]} where number = 2")

    assert await findings(log) == [SealFinding(K.SEAL_CHANGED, 2)]


@pytest.mark.parametrize("number", [1, 2])
async def test_a_deleted_seal_is_found_and_the_others_still_prove_theirs(log: Scene, raw: Raw, number: int) -> None:
    await corrupt(
        raw,
        f"delete from cortex.audit_seal where number = {number}",
        "update cortex.audit_log set actor = 'eve' where seq = 9",
    )

    assert await findings(log) == [SealFinding(K.SEAL_MISSING, number, last_seal=number), SealFinding(K.ENTRY_CHANGED, 3, 9)]


async def test_everything_is_found_not_only_the_first(log: Scene, raw: Raw) -> None:
    await corrupt(
        raw,
        "delete from cortex.audit_log where seq = 2",
        insertion(raw, 4, "forged"),
        "update cortex.audit_log set actor = 'eve' where seq in (3, 7)",
        "update cortex.audit_seal set first_seq = 1 where number = 3",
    )

    assert await findings(log) == [
        SealFinding(K.ENTRY_MISSING, 1, 2),
        SealFinding(K.ENTRY_CHANGED, 1, 3),
        SealFinding(K.ENTRY_ADDED, 2, 4),
        SealFinding(K.ENTRY_CHANGED, 2, 7),
        SealFinding(K.SEAL_CHANGED, 3),
    ]


# -- those who make seals anew, and those who cut off the end ----------------------------------------


async def make_anew(scene: Scene, raw: Raw, first: int, last: int) -> None:
    """What somebody does who knows how seals are made."""
    old = await scene.store.seals.list(0, 10)
    made: Seal | None = old[first - 2] if first > 1 else None
    for seal in old[first - 1 : last]:
        entries = await scene.store.seals.entries(seal.first_seq - 1, seal.last_seq, 10)
        made = seal_after(made, entries, seal.sealed_at)
        blob = f"x'{made.fingerprints.hex()}'" if raw.kind == "sqlite" else f"'\\x{made.fingerprints.hex()}'::bytea"
        await corrupt(
            raw,
            f"update cortex.audit_seal set digest = '{made.digest}', previous_digest = '{made.previous_digest}', "
            f"fingerprints = {blob} where number = {made.number}",
        )


async def test_a_seal_that_was_made_anew_no_longer_fits_the_next(log: Scene, raw: Raw) -> None:
    await corrupt(raw, "update cortex.audit_log set actor = 'eve' where seq = 6")
    await make_anew(log, raw, 2, 2)

    assert await findings(log) == [SealFinding(K.LINK_BROKEN, 3)]


async def test_an_end_that_was_made_anew_shows_only_against_a_seal_that_was_kept(log: Scene, raw: Raw) -> None:
    *_, kept = await names(log)
    await corrupt(raw, "update cortex.audit_log set actor = 'eve' where seq = 6")
    await make_anew(log, raw, 2, 3)

    assert await findings(log) == []
    assert await findings(log, kept) == [SealFinding(K.SEAL_REPLACED, 3)]


async def test_a_cut_off_end_shows_only_against_a_seal_that_was_kept(log: Scene, raw: Raw) -> None:
    *_, middle, kept = await names(log)
    await corrupt(raw, "delete from cortex.audit_seal where number = 3", "delete from cortex.audit_log where seq > 8")
    report = await verify_audit(log.store)

    assert (report.findings, report.sealed, report.unsealed) == ([], 6, 1)
    assert await findings(log, middle) == []
    assert await findings(log, kept) == [SealFinding(K.SEAL_MISSING, 3, last_seal=3)]


async def test_a_cut_off_end_that_was_sealed_again_shows_against_a_seal_that_was_kept(log: Scene, raw: Raw) -> None:
    *_, kept = await names(log)
    await corrupt(raw, "delete from cortex.audit_seal where number = 3", "delete from cortex.audit_log where seq = 8")
    await seal_audit(log.store, 12, log.now)

    assert await findings(log) == []
    assert await findings(log, kept) == [SealFinding(K.SEAL_REPLACED, 3)]


async def test_a_kept_seal_is_recognised(log: Scene) -> None:
    for name in await names(log):
        assert await findings(log, name.upper()) == []


@pytest.mark.parametrize(
    "name", ["", "3", "3:", ":" + ZEROS, "0:" + ZEROS, "-1:" + ZEROS, "3:abc", f"drei:{ZEROS}", "²:" + ZEROS]
)
async def test_what_is_not_the_name_of_a_seal_is_refused(scene: Scene, name: str) -> None:
    with pytest.raises(InvalidInput, match="name of a seal") as refused:
        await verify_audit(scene.store, name)
    assert refused.value.field == "seal"
