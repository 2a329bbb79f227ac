"""Seals are added one after the other, never changed, and never over an entry that may still appear."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cortex_plane.audit import sealer as sealer_module
from cortex_plane.audit import service as sealing
from cortex_plane.audit.model import BEFORE_ALL, AuditEntry, Seal, seal_after
from cortex_plane.audit.sealer import MOST_AT_ONCE, REST_SECONDS, RESTS_FOR_WORK, Sealer
from cortex_plane.audit.service import verify_audit
from cortex_plane.audit.store import SealStore
from cortex_plane.stores import Store
from tests.contract.sessions import Four, Session
from tests.contract.support import Raw, Refused, Scene

pytestmark = pytest.mark.anyio

ALL = 2**62
only_postgres = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)


async def record(store: Store, *names: str) -> None:
    await store.audit.record([AuditEntry("DONE", "job", name, actor="ada") for name in names])


async def make_seal(store: Store, *, add: bool = True) -> Seal:
    last = await store.seals.last()
    look = await store.seals.look(BEFORE_ALL)
    assert look is not None
    entries = await store.seals.entries(last.last_seq if last else BEFORE_ALL, ALL, 100)
    seal = seal_after(last, entries, look.at)
    assert not add or await store.seals.add(seal)
    return seal


async def sealed(store: Store) -> list[int]:
    """The number of entries in each seal."""
    return [seal.entries for seal in await store.seals.list(0, 100)]


# -- seals -----------------------------------------------------------------------------------------


async def test_a_seal_comes_back_as_it_was_made(scene: Scene) -> None:
    await record(scene.store, "1", "2")
    assert await scene.store.seals.last() is None
    seal = await make_seal(scene.store)

    assert await scene.store.seals.last() == seal
    assert seal.holds
    assert (seal.number, seal.entries, seal.sealed_at) == (1, 2, scene.now)


async def test_seals_and_entries_come_in_pages(scene: Scene) -> None:
    made = []
    for names in (["1", "2"], ["3"], ["4"]):
        await record(scene.store, *names)
        made.append(await make_seal(scene.store))
    seals = scene.store.seals

    assert await seals.list(0, 2) == made[:2]
    assert await seals.list(2, 2) == made[2:]
    assert [entry.object_id for entry in await seals.entries(1, 3, 10)] == ["2", "3"]
    assert [entry.object_id for entry in await seals.entries(BEFORE_ALL, ALL, 2)] == ["1", "2"]
    assert [await seals.count_after(seq) for seq in (BEFORE_ALL, 3, 4)] == [4, 1, 0]


async def test_only_the_seal_that_follows_the_last_one_is_added(scene: Scene) -> None:
    await record(scene.store, "1")
    first = await make_seal(scene.store)
    await record(scene.store, "2")
    second = await make_seal(scene.store, add=False)
    wrong: Sequence[Seal] = [
        first,
        replace(second, number=1),
        replace(second, number=3),
        replace(second, previous_digest="0" * 64),
        replace(second, first_seq=first.last_seq),
    ]

    for seal in wrong:
        assert not await scene.store.seals.add(seal)
    assert await scene.store.seals.list(0, 10) == [first]
    assert await scene.store.seals.add(second)


async def test_the_first_seal_is_number_one(scene: Scene) -> None:
    await record(scene.store, "1")
    seal = await make_seal(scene.store, add=False)

    assert not await scene.store.seals.add(replace(seal, number=2))
    assert await scene.store.seals.add(seal)


FORGERIES: dict[str, Any] = {
    "update": "update cortex.audit_seal set digest = previous_digest",
    "delete": "delete from cortex.audit_seal",
    "replace": {
        "sqlite": "replace into audit_seal select number, first_seq, last_seq, entries, fingerprints, previous_digest, "
        "previous_digest, sealed_at from audit_seal",
        "postgres": "insert into cortex.audit_seal select * from cortex.audit_seal "
        "on conflict (number) do update set digest = excluded.previous_digest",
    },
    "truncate": {"sqlite": "delete from audit_seal where true", "postgres": "truncate cortex.audit_seal"},
}


@pytest.mark.parametrize("how", FORGERIES)
async def test_a_seal_can_be_neither_changed_nor_removed(scene: Scene, raw: Raw, how: str) -> None:
    await record(scene.store, "1")
    seal = await make_seal(scene.store)
    forgery = FORGERIES[how]

    with pytest.raises(Refused, match="Rows of audit_seal are never changed or deleted"):
        await raw(forgery if isinstance(forgery, str) else forgery[raw.kind])
    assert await scene.store.seals.list(0, 10) == [seal]


async def test_details_that_are_no_json_are_refused(raw: Raw, scene: Scene) -> None:
    at = raw.now
    with pytest.raises(Refused, match=r"must be JSON|type json"):
        await raw(
            f"insert into cortex.audit_log (at, action, object_type, object_id, details) values ({at}, 'A', 'b', 'c', 'no')"
        )


# -- the sealer ------------------------------------------------------------------------------------


async def test_the_sealer_seals_everything_within_two_looks(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "BATCH", 2)
    await record(scene.store, *"abcde")
    sealer = Sealer(scene.store)

    assert [await sealer.once(), await sealer.once()] == [1.0, 1.0]
    assert await sealed(scene.store) == [2, 2, 1]
    assert (await verify_audit(scene.store)).sound


class Stopwatch:
    """Every look at it takes a hundredth of a second."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        self.at += 0.01
        return self.at


async def next_seal(store: Store, sealer: Sealer) -> float:
    """How long the sealer rests after it has made one more seal. On PostgreSQL a first look settles nothing."""
    before = await sealed(store)
    while True:
        rest = await sealer.once()
        if await sealed(store) != before:
            return rest


async def test_a_sealer_goes_on_soon_after_a_full_batch_and_rests_longer_than_it_worked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer_module, "_now", Stopwatch())
    names = [str(number) for number in range(MOST_AT_ONCE)]
    sealer = Sealer(scene.store)
    await record(scene.store, *names, *names, "last")

    [(_, rests), *_] = RESTS_FOR_WORK
    assert await next_seal(scene.store, sealer) == pytest.approx(rests * 0.01)
    assert await next_seal(scene.store, sealer) == pytest.approx(rests * 0.01)
    assert await next_seal(scene.store, sealer) == REST_SECONDS
    assert await sealed(scene.store) == [MOST_AT_ONCE] * 2 + [1]


async def test_a_sealer_that_falls_behind_rests_less_and_then_not_at_all(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer_module, "_now", Stopwatch())
    monkeypatch.setattr(sealer_module, "RESTS_FOR_WORK", ((MOST_AT_ONCE, 10.0), (2 * MOST_AT_ONCE, 2.0)))
    monkeypatch.setattr(sealer_module, "FAR_BEHIND", 10 * MOST_AT_ONCE)
    names = [str(number) for number in range(MOST_AT_ONCE)]
    sealer = Sealer(scene.store)
    await record(scene.store, *names, *names, *names, "last")

    rests = [await next_seal(scene.store, sealer) for _ in range(4)]
    assert rests == [0.0, pytest.approx(0.02), pytest.approx(0.1), REST_SECONDS]


async def test_a_sealer_that_is_far_behind_seals_more_at_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer_module, "FAR_BEHIND", 2 * MOST_AT_ONCE)
    monkeypatch.setattr(sealer_module, "BATCH_WHEN_FAR_BEHIND", 2 * MOST_AT_ONCE)
    monkeypatch.setattr(sealer_module, "MOST_WHEN_FAR_BEHIND", 2 * MOST_AT_ONCE)
    names = [str(number) for number in range(MOST_AT_ONCE)]
    sealer = Sealer(scene.store)
    await record(scene.store, *names, *names, *names)

    for _ in range(2):
        await next_seal(scene.store, sealer)

    assert await sealed(scene.store) == [2 * MOST_AT_ONCE, MOST_AT_ONCE]
    assert (await verify_audit(scene.store)).sound


async def test_a_sealer_with_nothing_to_do_writes_nothing(scene: Scene) -> None:
    sealer = Sealer(scene.store)
    for _ in range(3):
        await sealer.once()
    await record(scene.store, "1")
    for _ in range(5):
        await sealer.once()

    assert await sealed(scene.store) == [1]


async def test_a_new_sealer_goes_on_where_another_one_ended(scene: Scene) -> None:
    for name in "abc":
        await record(scene.store, name)
        sealer = Sealer(scene.store)
        for _ in range(2):
            await sealer.once()

    assert await sealed(scene.store) == [1, 1, 1]
    assert (await verify_audit(scene.store)).sound


async def test_many_sealers_make_one_chain(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "BATCH", 7)
    sealers = [Sealer(scene.store) for _ in range(6)]
    for _ in range(10):
        await asyncio.gather(record(scene.store, *"abcdefghij"), *(sealer.once() for sealer in sealers))
    for _ in range(2):
        await asyncio.gather(*(sealer.once() for sealer in sealers))

    report = await verify_audit(scene.store)
    assert (report.findings, report.sealed, report.unsealed) == ([], 100, 0)


# -- entries that appear late ------------------------------------------------------------------------


async def insert(session: Session, name: str, actor: str = "ada") -> None:
    await session.connection.execute(
        f"insert into cortex.audit_log (action, object_type, object_id, actor) values ('DONE', 'job', '{name}', '{actor}')"
    )


async def look_often(sealer: Sealer) -> None:
    for _ in range(4):
        await sealer.once()


async def all_is_sealed(store: Store, sealer: Sealer, entries: int) -> None:
    await look_often(sealer)
    report = await verify_audit(store)
    assert (report.findings, report.sealed, report.unsealed) == ([], entries, 0)


@only_postgres
async def test_nothing_is_sealed_over_a_transaction_that_drew_a_lower_number(scene: Scene, four: Four) -> None:
    early, late, *_ = four
    sealer = Sealer(scene.store)
    await early.begin()
    await insert(early, "1")
    await insert(late, "2")

    await look_often(sealer)
    assert await sealed(scene.store) == []
    await early.commit()
    await all_is_sealed(scene.store, sealer, 2)


@only_postgres
async def test_a_transaction_that_is_newer_than_all_that_ended_is_waited_for_too(scene: Scene, four: Four) -> None:
    """It is above the xmax of every snapshot, and still drew the lower number."""
    early, late, bystander, _ = four
    sealer = Sealer(scene.store)
    for session in (late, bystander, early):
        await session.begin()
        await session.connection.fetchval("select pg_current_xact_id()")
    await insert(early, "1")
    await insert(late, "2")
    await late.commit()
    await sealer.once()
    await bystander.commit()

    await look_often(sealer)
    assert await sealed(scene.store) == []
    await early.commit()
    await all_is_sealed(scene.store, sealer, 2)


@only_postgres
async def test_a_writer_that_halts_right_after_it_drew_its_number_is_waited_for(scene: Scene, raw: Raw, four: Four) -> None:
    """Without a transaction id from the start, no snapshot would show it."""
    slow, quick, holder, _ = four
    await raw(
        "create function cortex.halt() returns trigger language plpgsql as "
        "$$ begin perform pg_advisory_xact_lock(4711); return new; end $$"
    )
    await raw(
        "create trigger halt before insert on cortex.audit_log "
        "for each row when (new.actor = 'slow') execute function cortex.halt()"
    )
    await insert(quick, "1")  # The first number of a sequence is logged, and that would give an id.
    sealer = Sealer(scene.store)
    await holder.begin()
    await holder.connection.fetchval("select pg_advisory_xact_lock(4711)")
    writing = asyncio.create_task(insert(slow, "2", actor="slow"))
    await slow.waits(writing)
    await insert(quick, "3")

    await look_often(sealer)
    assert [entry.object_id for entry in await scene.store.seals.entries(BEFORE_ALL, ALL, 10)] == ["1", "3"]
    assert await sealed(scene.store) == []
    await holder.commit()
    await writing
    await all_is_sealed(scene.store, sealer, 3)


@only_postgres
async def test_a_number_that_a_transaction_gave_up_does_not_hold_the_sealer_up(scene: Scene, four: Four) -> None:
    early, late, *_ = four
    sealer = Sealer(scene.store)
    await early.begin()
    await insert(early, "1")
    await insert(late, "2")
    await look_often(sealer)
    await early.rollback()

    await all_is_sealed(scene.store, sealer, 1)


@only_postgres
async def test_nobody_who_writes_waits_for_a_sealer(scene: Scene, four: Four) -> None:
    await record(scene.store, "1")
    seal = await make_seal(scene.store, add=False)
    other, writer, *_ = four
    await other.begin()
    assert await SealStore(other).add(seal)  # type: ignore[arg-type]

    await asyncio.wait_for(insert(writer, "2"), 10)
    losing = asyncio.create_task(scene.store.seals.add(seal))
    await other.commit()
    assert not await losing


@only_postgres
async def test_looking_takes_a_transaction_id_only_when_there_is_something_to_seal(scene: Scene, raw: Raw) -> None:
    async def next_id() -> int:
        [[number]] = await raw("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        return int(number)

    await record(scene.store, "1")
    sealer = Sealer(scene.store)
    await look_often(sealer)
    before = await next_id()
    await look_often(sealer)

    assert await next_id() == before
