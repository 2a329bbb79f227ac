"""A rule prunes whole sealed batches of the audit log. Verification still holds, and tells a pruned entry from a removed one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cortex_plane.agents.directory import Directory
from cortex_plane.audit import pruning
from cortex_plane.audit import service as sealing
from cortex_plane.audit import service as verifying
from cortex_plane.audit.cli import _exported
from cortex_plane.audit.export import seal_target
from cortex_plane.audit.model import PRUNED, AuditEntry, AuditFilter, FindingKind, SealFinding, StoredEntry
from cortex_plane.audit.service import AuditReport, export_seals, seal_audit, verify_audit
from cortex_plane.clock import as_datetime
from cortex_plane.ids import new_id
from cortex_plane.retention.model import RecordKind, RetentionRule
from cortex_plane.retention.service import add_rule, prune_records
from cortex_plane.testing import TestPlane
from tests.contract.support import Raw, Refused, Scene
from tests.contract.test_verify_audit import corrupt, insertion

pytestmark = pytest.mark.anyio

K = FindingKind
KEEP = timedelta(days=400)


@pytest.fixture
async def log(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Seal 1: entries 1 to 3. Seal 2: 4 to 6. A year later seal 3: 7 to 9. Not sealed: 10."""
    monkeypatch.setattr(sealing, "BATCH", 3)
    monkeypatch.setattr(verifying, "SEALS_AT_A_TIME", 2)
    monkeypatch.setattr(verifying, "ENTRIES_AT_A_TIME", 2)
    await record(scene, 6)
    await seal(scene)
    await scene.clock.advance(timedelta(days=365))
    await record(scene, 3)
    await seal(scene)
    await record(scene, 1)
    return scene


async def record(scene: Scene, entries: int) -> None:
    for number in range(entries):
        await scene.store.audit.record([AuditEntry("DONE", "job", str(number), "ada", "because", details={"number": 7})])


async def seal(scene: Scene) -> None:
    await seal_audit(scene.store, 10_000, scene.now)


async def rule(scene: Scene, keep: timedelta = KEEP) -> RetentionRule:
    return await add_rule(scene.store, Directory(scene.store), new_id, keep, record=RecordKind.AUDIT)


async def prune(scene: Scene, raw: Raw) -> AuditReport:
    """With a rule that no longer keeps seals 1 and 2."""
    await rule(scene)
    await scene.clock.advance(timedelta(days=36))
    assert await prune_records(scene.store, actor="ada") == 6
    return await verify_audit(scene.store)


async def numbers(raw: Raw) -> list[int]:
    return [row[0] for row in await raw("select seq from cortex.audit_log order by seq")]


async def records(scene: Scene) -> list[AuditEntry]:
    page = await scene.store.audit.page(AuditFilter(action=PRUNED))
    return [found.entry for found in reversed(page.records)]


# -- what goes -------------------------------------------------------------------------------------


async def test_without_a_rule_nothing_goes(log: Scene, raw: Raw) -> None:
    await log.clock.advance(timedelta(days=36_500))

    assert await prune_records(log.store, at_once=True) == 0
    assert await numbers(raw) == list(range(1, 11))


async def test_entries_of_seals_that_are_older_than_the_rule_go_and_the_seals_stay(log: Scene, raw: Raw) -> None:
    seals = await log.store.seals.list(0, 10)

    report = await prune(log, raw)

    assert await numbers(raw) == [7, 8, 9, 10, 11, 12]  # 11 records the rule, 12 the pruning
    assert await log.store.seals.list(0, 10) == seals
    assert (report.findings, report.sealed, report.unsealed, report.seals) == ([], 3, 3, 3)
    assert report.pruned is not None
    assert (report.pruned.entries, report.pruned.seals, report.pruned.last_seal) == (6, 2, seals[1].name)
    assert report.pruned.at == log.now


async def test_what_is_younger_than_the_rule_stays_with_its_whole_seal(log: Scene, raw: Raw) -> None:
    await rule(log)
    await log.clock.advance(timedelta(days=34))

    assert await prune_records(log.store, at_once=True) == 0
    assert await numbers(raw) == list(range(1, 12))


async def test_what_is_not_sealed_stays_however_old(log: Scene, raw: Raw) -> None:
    await rule(log, timedelta(0))
    await log.clock.advance(timedelta(days=3650))

    assert await prune_records(log.store) == 9
    assert await numbers(raw) == [10, 11, 12]
    assert (await verify_audit(log.store)).sound


async def test_each_batch_is_an_entry_with_the_rule_the_count_and_the_seals(
    log: Scene, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "BATCH", 4)
    wanted = await rule(log, timedelta(days=1))
    await log.clock.advance(timedelta(days=2))
    names = [one.name for one in await log.store.seals.list(0, 10)]

    assert [await prune_records(log.store, actor="ada", at_once=True) for _ in range(3)] == [6, 3, 0]

    first, second = await records(log)
    assert (first.actor, first.object_type, first.object_id) == ("ada", "audit_seal", names[1])
    assert first.details == {"rule_id": wanted.id, "keep_seconds": 86_400, "first_seal": 1, "last_seal": 2, "entries": 6}
    assert (second.object_id, second.details["first_seal"], second.details["entries"]) == (names[2], 3, 3)


async def test_records_of_pruning_go_in_their_turn_and_never_pile_up(log: Scene, raw: Raw) -> None:
    """Otherwise each pass would leave a record, and the next one would prune that, for ever."""
    await rule(log, timedelta(days=10))
    for _ in range(400):
        await log.clock.advance(timedelta(hours=6))
        await record(log, 1)
        await seal(log)
        await prune_records(log.store)

    assert len(await records(log)) <= 12
    assert len(await numbers(raw)) <= 4 * 11 + 12
    report = await verify_audit(log.store)
    assert report.sound, report.findings
    assert report.pruned is not None
    assert report.pruned.entries > 360


async def test_numbers_are_not_used_again_after_everything_was_pruned(log: Scene, raw: Raw) -> None:
    await rule(log, timedelta(0))
    for _ in range(3):
        await seal(log)
        await prune_records(log.store, at_once=True)
    await record(log, 1)
    await seal(log)

    assert min(await numbers(raw)) > 10
    assert (await verify_audit(log.store)).sound


async def test_where_seals_are_exported_only_what_was_sent_goes(log: Scene, raw: Raw, tmp_path: Path) -> None:
    target = f"file:{tmp_path / 'seals.jsonl'}"
    await rule(log)
    await log.clock.advance(timedelta(days=3650))

    before = await prune_records(log.store, exported_to=target, at_once=True)
    await export_seals(log.store, target, seal_target(target))
    after = await prune_records(log.store, exported_to=target, at_once=True)

    assert (before, after) == (0, 9)
    assert (await verify_audit(log.store, _exported(tmp_path / "seals.jsonl"))).sound


async def test_two_pruners_at_once_delete_and_record_a_batch_once(log: Scene, raw: Raw) -> None:
    await rule(log)
    await log.clock.advance(timedelta(days=36))

    pruned = await asyncio.gather(*(prune_records(log.store) for _ in range(4)))

    assert sorted(pruned) == [0, 0, 0, 6]
    assert len(await records(log)) == 1


async def test_a_page_goes_on_where_its_last_entry_was_pruned(log: Scene, raw: Raw) -> None:
    await prune(log, raw)

    assert (await log.store.audit.page(AuditFilter(), before=5)).records == []


async def test_a_plane_prunes_at_once_when_asked_and_heeds_its_setting(plane: TestPlane, raw: Raw, tmp_path: Path) -> None:
    await plane.audit.record("DONE", "thing", "7", actor="ada")
    await seal_audit(plane.store, 10_000, as_datetime(plane.clock.now()))
    await plane.retention.add(KEEP, record="audit-log")
    await plane.clock.advance(KEEP)
    plane.settings = replace(plane.settings, seal_export=f"file:{tmp_path / 'seals'}")

    await plane.retention.run(actor="ada")
    held = await plane.audit.verify()
    await plane.audit.export_seals(plane.settings.seal_export)
    await plane.retention.run(actor="ada")
    report = await plane.audit.verify()

    assert held.pruned is None
    assert report.sound
    assert report.pruned is not None
    assert report.pruned.entries == 1


# -- what is noticed -------------------------------------------------------------------------------


@pytest.mark.parametrize("seq", [7, 9])
async def test_an_entry_that_was_removed_by_hand_is_still_found(log: Scene, raw: Raw, seq: int) -> None:
    await prune(log, raw)
    await corrupt(raw, f"delete from cortex.audit_log where seq = {seq}")

    assert (await verify_audit(log.store)).findings == [SealFinding(K.ENTRY_MISSING, 3, seq)]


async def test_an_entry_in_a_pruned_place_is_found(log: Scene, raw: Raw) -> None:
    await prune(log, raw)
    await corrupt(raw, insertion(raw, 5, "forged").replace("where seq = 1", "where seq = 7"))

    assert (await verify_audit(log.store)).findings == [SealFinding(K.ENTRY_ADDED, 2, 5)]


async def test_a_pruned_seal_that_was_changed_is_found(log: Scene, raw: Raw) -> None:
    await prune(log, raw)
    await corrupt(raw, "update cortex.audit_seal set first_seq = 2 where number = 1")

    assert (await verify_audit(log.store)).findings == [SealFinding(K.SEAL_CHANGED, 1)]


async def test_a_removal_that_is_passed_off_as_pruning_is_found(log: Scene, raw: Raw) -> None:
    await prune(log, raw)
    await corrupt(
        raw,
        "delete from cortex.audit_log where seq between 7 and 9",
        "update cortex.audit_pruned set (seal, digest, last_seq) = "
        "(select number, digest, last_seq from cortex.audit_seal where number = 3)",
    )

    assert (await verify_audit(log.store)).findings == [SealFinding(K.PRUNING_UNRECORDED, 3)]


async def test_a_mark_that_was_taken_away_is_found(log: Scene, raw: Raw) -> None:
    await prune(log, raw)
    await corrupt(raw, "delete from cortex.audit_pruned")

    assert [finding.kind for finding in (await verify_audit(log.store)).findings] == [K.ENTRY_MISSING] * 6


async def test_a_cut_off_end_is_still_found_against_exported_seals(log: Scene, raw: Raw, tmp_path: Path) -> None:
    target = f"file:{tmp_path / 'seals'}"
    await export_seals(log.store, target, seal_target(target))
    await prune(log, raw)
    assert (await verify_audit(log.store, _exported(tmp_path / "seals"))).sound

    await corrupt(raw, "delete from cortex.audit_seal where number = 3")

    assert (await verify_audit(log.store, _exported(tmp_path / "seals"))).findings == [
        SealFinding(K.SEAL_MISSING, 3, last_seal=3)
    ]


async def test_a_cut_off_end_below_the_mark_is_found_without_any_export(log: Scene, raw: Raw) -> None:
    await prune(log, raw)
    await corrupt(raw, "delete from cortex.audit_seal where number >= 2")

    assert SealFinding(K.SEAL_MISSING, 2, last_seal=2) in (await verify_audit(log.store)).findings


FORGED = {
    "changed": ("update cortex.audit_log set actor = 'eve' where seq = 5", SealFinding(K.ENTRY_CHANGED, 2, 5)),
    "removed": ("delete from cortex.audit_log where seq = 5", SealFinding(K.ENTRY_MISSING, 2, 5)),
    "seal": ("update cortex.audit_seal set last_seq = 5 where number = 2", SealFinding(K.SEAL_CHANGED, 2)),
}


@pytest.mark.parametrize("what", FORGED)
async def test_a_batch_that_does_not_fit_its_seal_is_evidence_and_stays(log: Scene, raw: Raw, what: str) -> None:
    statement, finding = FORGED[what]
    await corrupt(raw, statement)
    await rule(log, timedelta(0))

    pruned = [await prune_records(log.store, at_once=True) for _ in range(2)]

    assert pruned == [3, 0]
    assert (await verify_audit(log.store)).findings == [finding]


async def test_verifying_while_entries_are_pruned_finds_nothing(log: Scene, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    await rule(log)
    await log.clock.advance(timedelta(days=36))
    read = log.store.seals.entries
    done: list[bool] = []

    async def entries(after: int, through: int, limit: int) -> list[StoredEntry]:
        found = await read(after, through, limit)
        if not done:
            done.append(True)
            assert await prune_records(log.store) == 6
        return found

    monkeypatch.setattr(log.store.seals, "entries", entries)
    report = await verify_audit(log.store)

    assert report.findings == []
    assert report.pruned is not None
    assert report.pruned.entries == 6


# -- what the database refuses ----------------------------------------------------------------------


async def test_entries_above_the_mark_cannot_be_deleted_by_hand(log: Scene, raw: Raw) -> None:
    await prune(log, raw)
    before = await numbers(raw)

    for condition in ("true", "seq = 7", "seq = 12", "action = 'DONE'"):
        with pytest.raises(Refused, match="never changed or deleted"):
            await raw(f"delete from cortex.audit_log where {condition}")
    assert await numbers(raw) == before


MOVE = (
    "update cortex.audit_pruned set pruned_at = {now}, (seal, digest, last_seq) = "
    "(select number, digest, last_seq from cortex.audit_seal where number = {seal})"
)
MARKS = {
    "without a record of it": MOVE.replace("{seal}", "3"),
    "back": MOVE.replace("{seal}", "1"),
    "beyond every seal": "update cortex.audit_pruned set seal = 9, last_seq = 1000",
    "within a seal": "update cortex.audit_pruned set last_seq = 8",
    "away": "delete from cortex.audit_pruned",
    "another": "insert into cortex.audit_pruned select 2, 3, digest, 9, pruned_at from cortex.audit_pruned",
}


@pytest.mark.parametrize("move", MARKS)
async def test_the_mark_cannot_be_moved_by_hand(log: Scene, raw: Raw, move: str) -> None:
    await prune(log, raw)
    await log.clock.advance(timedelta(days=3650))
    before = await raw("select * from cortex.audit_pruned")

    with pytest.raises(Refused, match="audit_pruned"):
        await raw(MARKS[move].replace("{now}", raw.now))
    assert await raw("select * from cortex.audit_pruned") == before


@pytest.mark.parametrize("keep", [None, timedelta(days=36_000)], ids=["no rule", "a rule that keeps them"])
async def test_a_recorded_mark_needs_a_rule_that_no_longer_keeps_the_seal(log: Scene, raw: Raw, keep: timedelta | None) -> None:
    if keep is not None:
        await rule(log, keep)
    name = (await log.store.seals.list(0, 10))[0].name
    await log.store.audit.record([AuditEntry(PRUNED, "audit_seal", name, "eve")])

    with pytest.raises(Refused, match="audit_pruned"):
        await raw(MOVE.format(now=raw.now, seal=1))
    if keep is None:
        await rule(log)
        await log.clock.advance(timedelta(days=36))
        await raw(MOVE.format(now=raw.now, seal=1))


# -- erasing ---------------------------------------------------------------------------------------


async def test_people_and_tenants_are_erased_from_a_log_that_was_pruned(plane: TestPlane, raw: Raw) -> None:
    store = plane.store
    await plane.tenants.add("acme", actor="user:quentin")
    await plane.access.add_user("quentin", actor="user:bob")
    await seal_audit(store, 10_000, as_datetime(plane.clock.now()))
    await plane.retention.add(timedelta(days=1), record="audit_log", actor="user:quentin")
    await plane.clock.advance(days=2)
    await plane.retention.run(actor="user:quentin")
    await seal_audit(store, 10_000, as_datetime(plane.clock.now()))

    erased = await plane.people.erase("quentin", actor="user:bob")
    await plane.tenants.erase("acme", actor="user:bob")

    report = await plane.audit.verify()
    assert report.sound, report.findings
    assert report.pruned is not None
    assert [one.entry.actor for one in await plane.audit.list(action=PRUNED)] == [f"user:{erased.pseudonym}"]
    await plane.clock.advance(days=2)
    await plane.retention.run()
    assert (await plane.audit.verify()).sound
