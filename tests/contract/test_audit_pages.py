"""The audit log for people: newest first, filtered, a page at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cortex_plane.audit import store as audit
from cortex_plane.audit.model import AuditEntry, AuditFilter
from cortex_plane.audit.sealer import Sealer
from cortex_plane.audit.service import AuditLog, list_audit
from cortex_plane.audit.store import DETAILS_LIMIT_BYTES
from cortex_plane.errors import InvalidInput, TenantNotFound
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import TenantId
from cortex_plane.testing import TestPlane
from cortex_plane.testing.clock import START
from tests.contract.support import Raw, Scene
from tests.contract.test_repair import triggers_off

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def log(scene: Scene) -> Scene:
    """Eight entries, two in each minute: by ada and eve in turn, a GATE entry in each second minute, two objects."""
    tenant = TenantId(new_id())
    await scene.store.tenants.add(tenant, "acme")
    for minute in range(4):
        action = "GATE" if minute % 2 else "MOVE"
        await scene.store.audit.record(
            [
                AuditEntry(action, "job", "one" if minute < 2 else "two", actor, tenant_id=tenant if minute == 3 else None)
                for actor in ("ada", "eve")
            ]
        )
        await scene.clock.advance(minutes=1)
    return scene


async def page(scene: Scene, before: int | None = None, limit: int = 50, **wanted: Any) -> list[int]:
    if wanted.get("tenant_id") == "acme":
        wanted["tenant_id"] = await scene.store.tenants.find("acme")
    return [record.seq for record in (await scene.store.audit.page(AuditFilter(**wanted), before=before, limit=limit)).records]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [8, 7, 6, 5, 4, 3, 2, 1]),
        ({"actor": "ada"}, [7, 5, 3, 1]),
        ({"action": "GATE"}, [8, 7, 4, 3]),
        ({"object_id": "one"}, [4, 3, 2, 1]),
        ({"tenant_id": "acme"}, [8, 7]),
        ({"actor": "ada", "action": "GATE"}, [7, 3]),
        ({"object_id": "two", "actor": "eve", "action": "GATE"}, [8]),
        ({"object_id": "two", "tenant_id": "acme"}, [8, 7]),
        ({"actor": "eve", "tenant_id": "acme"}, [8]),
        ({"action": "GATE", "tenant_id": "acme"}, [8, 7]),
        ({"since": START + MINUTE}, [8, 7, 6, 5, 4, 3]),
        ({"until": START + MINUTE}, [2, 1]),
        ({"since": START + MINUTE, "until": START + 2 * MINUTE}, [4, 3]),
        ({"actor": "ada", "since": START + MINUTE, "until": START + 3 * MINUTE}, [5, 3]),
        ({"object_id": "one", "until": START + MINUTE}, [2, 1]),
        ({"actor": "nobody"}, []),
        ({"actor": "ada", "until": START}, []),
    ],
    ids=str,
)
async def test_every_filter_leaves_what_fits_newest_first(log: Scene, wanted: dict[str, Any], found: list[int]) -> None:
    assert await page(log, **wanted) == found


@pytest.mark.parametrize(
    "wanted", [{}, {"actor": "ada"}, {"object_id": "one"}, {"action": "GATE"}, {"tenant_id": "acme"}], ids=str
)
@pytest.mark.parametrize("limit", [1, 3])
async def test_pages_put_together_are_the_whole(log: Scene, wanted: dict[str, Any], limit: int) -> None:
    pages: list[int] = []
    while found := await page(log, pages[-1] if pages else None, limit, **wanted):
        assert len(found) <= limit
        pages += found

    assert pages == await page(log, **wanted)


async def test_a_page_goes_on_before_whichever_comes_first(log: Scene) -> None:
    assert await page(log, before=6, until=START + MINUTE) == [2, 1]
    assert await page(log, before=2, until=START + 3 * MINUTE) == [1]


async def test_there_is_no_page_before_an_entry_that_does_not_exist(log: Scene) -> None:
    with pytest.raises(InvalidInput, match="no audit entry 99") as refused:
        await page(log, before=99)
    assert refused.value.field == "before"


async def test_entries_of_any_time_are_listed(scene: Scene, raw: Raw) -> None:
    """A clock may have been wrong for a while."""
    await scene.store.audit.record([AuditEntry("DONE", "job", "1")])
    year_1900 = "-2208988800000000" if raw.kind == "sqlite" else "timestamptz '1900-01-01 00:00:00+00'"
    async with triggers_off(raw):
        await raw(f"update cortex.audit_log set at = {year_1900}")

    assert await page(scene) == [1]


# -- as a plane offers it ----------------------------------------------------------------------------


async def test_a_plane_records_lists_and_verifies(plane: TestPlane) -> None:
    audit = AuditLog(plane)
    await audit.record("LOGIN", "user", "ada", actor="ada", reason="works", source="web", tenant="default", details={"n": 1.0})
    await audit.record("LOGOUT", "user", "ada")
    sealer = Sealer(plane.store)
    await sealer.once()
    await sealer.once()

    newest, oldest = await audit.list()
    assert (newest.entry.action, newest.entry.details, newest.entry.tenant_id) == ("LOGOUT", {}, None)
    assert (oldest.entry.reason, oldest.entry.source, oldest.entry.details) == ("works", "web", {"n": 1})
    assert await audit.list(tenant="default", actor="ada") == [oldest]
    report = await audit.verify()
    assert (report.sound, report.sealed, report.unsealed) == (True, 2, 0)
    assert (await audit.verify(known=report.last_seal)).sound


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"action": ""}, "action"),
        ({"object_type": " "}, "object_type"),
        ({"object_id": 7}, "object_id"),
        ({"actor": ""}, "actor"),
        ({"reason": "x" * 3000}, "reason"),
        ({"source": "a\x00b"}, "source"),
        ({"details": [1]}, "details"),
        ({"details": {"a": [float("nan")]}}, "details.a[0]"),
        ({"details": {"a": "x" * DETAILS_LIMIT_BYTES}}, "details"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_what_cannot_be_recorded_is_refused_by_name(plane: TestPlane, given: dict[str, Any], field: str) -> None:
    audit = AuditLog(plane)
    with pytest.raises(InvalidInput) as refused:
        await audit.record(**{"action": "DONE", "object_type": "job", "object_id": "1", **given})

    assert refused.value.field == field
    assert await audit.list() == []


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 10_001}, "limit"),
        ({"limit": True}, "limit"),
        ({"before": 0}, "before"),
        ({"before": "7"}, "before"),
        ({"since": "yesterday"}, "since"),
        ({"until": 7}, "until"),
    ],
    ids=str,
)
async def test_a_question_that_makes_no_sense_is_refused_by_name(plane: TestPlane, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await AuditLog(plane).list(**given)
    assert refused.value.field == field


async def test_a_tenant_must_exist(plane: TestPlane) -> None:
    for asked in (AuditLog(plane).list(tenant="nobody"), AuditLog(plane).record("DONE", "job", "1", tenant="nobody")):
        with pytest.raises(TenantNotFound):
            await asked


async def test_completions_that_are_rare_are_looked_for_in_steps(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "LOOKED_THROUGH", 3)
    entries = [AuditEntry("JOB_COMPLETED", "job", "one", actor) for actor in ("ada", "eve", "eve", "eve", "eve")]
    for entry in entries:
        await scene.store.audit.record([entry])
    wanted = AuditFilter(actor="ada", action="JOB_COMPLETED")

    first = await scene.store.audit.page(wanted, limit=1)
    second = await scene.store.audit.page(wanted, before=first.next_before, limit=2)
    found = await list_audit(scene.store, actor="ada", action="JOB_COMPLETED", limit=2)

    assert (first.records, first.next_before) == ([], 3)
    assert ([record.seq for record in second.records], second.next_before) == ([1], None)
    assert [record.seq for record in found] == [1]
