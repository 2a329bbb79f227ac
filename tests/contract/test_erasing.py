"""Data of a person or a tenant can be removed; the audit log keeps pseudonyms, and its seals still verify."""

from __future__ import annotations

import pytest

from cortex_plane import Context
from cortex_plane.audit.service import seal_audit
from cortex_plane.clock import as_datetime
from cortex_plane.errors import InvalidInput, TenantNotFound
from cortex_plane.grants.execution import RunWish, start_run
from cortex_plane.people.model import UserNotFound
from cortex_plane.testing import TestPlane
from tests.contract.support import Raw

pytestmark = pytest.mark.anyio

NAMES = ("quentin", "quentin@example.com", "Lovelace", "192.0.2.7")


async def _everything(raw: Raw) -> str:
    """All rows of all tables, as text."""
    if raw.kind == "postgres":
        tables = [row[0] for row in await raw("select tablename from pg_tables where schemaname = 'cortex'")]
    else:
        tables = [row[0] for row in await raw("select name from sqlite_master where type = 'table' and name not like 'sqlite%'")]
    return "\n".join([f"{table}: {[tuple(row) for row in await raw(f'select * from cortex.{table}')]}" for table in tables])


async def _seal(plane: TestPlane) -> None:
    await seal_audit(plane.store, 10_000, as_datetime(plane.clock.now()))


async def _a_life(plane: TestPlane, tenant: str = "default") -> str:
    """Quentin signs in, works, decides, and is written about. The id of a job of theirs that has not ended."""

    @plane.agent("echo")
    async def echo(ctx: Context, word: str = "hello") -> str:
        return word

    await plane.access.add_user("quentin", display_name="Quentin Lovelace", email="quentin@example.com", actor="user:bob")
    await plane.access.set_password("quentin", "correct horse battery", actor="user:bob")
    await plane.access.give_role("quentin", "operator", tenant=tenant, actor="user:bob")
    await plane.access.add_key("quentin's key", ["viewer"], tenant=tenant, user="quentin", actor="user:quentin")
    await plane.people.link("quentin", "email", "quentin@example.com")
    await plane.people.add_group("deciders", tenant=tenant)
    await plane.people.join("deciders", "quentin", tenant=tenant)
    await plane.access.sign_in("quentin", "correct horse battery", "192.0.2.7")
    await plane.submit("echo", {"word": "quentin's secret"}, created_by="user:quentin", tenant=tenant)
    other = await plane.submit("echo", created_by="user:bob", tenant=tenant, delay=3_600)
    await plane.jobs.cancel(other.id, actor="user:quentin", reason="quentin says so")
    await plane.queues.pause(queue="default", actor="user:quentin", reason="quentin's lunch")
    await plane.queues.resume(queue="default", actor="user:quentin")
    await plane.queues.pause(agent="echo", actor="user:bob")
    await plane.queues.pause(queue="other", actor="user:quentin", reason="quentin's holiday")
    await _runs_and_grants(plane, tenant)
    await plane.queues.resume(agent="echo", actor="user:bob")
    await plane.work()
    waiting = await plane.submit("echo", created_by="user:quentin", tenant=tenant, delay=3_600)
    await plane.audit.record("NOTED", "thing", "7", actor="user:bob", reason="quentin asked", details={"who": "quentin"})
    return waiting.id


async def _runs_and_grants(plane: TestPlane, tenant: str) -> None:
    used, revoked = [await plane.grants.add(["agent:run:echo"], tenant=tenant, user="quentin") for _ in range(2)]
    wish = RunWish("agent:echo", "of bob", used.id, {}, service_name="user:quentin", requested_by=["user:quentin"])
    await start_run(plane.store, plane.directory, plane.clock, plane._ids, wish)
    await plane.grants.revoke(revoked.id, actor="user:quentin", reason="quentin has left")
    await plane.schedules.add("nightly", "agent:echo", "0 3 * * *", tenant=tenant, created_by="user:quentin")
    await plane.schedules.pause("nightly", tenant=tenant, actor="user:quentin", reason="quentin's holiday")


async def test_nothing_of_an_erased_person_is_left_but_a_pseudonym(plane: TestPlane, raw: Raw) -> None:
    waiting = await _a_life(plane)
    await _seal(plane)
    assert (await plane.audit.verify()).sealed > 5

    erased = await plane.people.erase("quentin", actor="user:bob", reason="asked for it")

    left = await _everything(raw)
    assert not [line[:300] for line in left.splitlines() if "quentin" in line and not line.startswith("worker")]
    assert not [name for name in NAMES if f"{name}'" in left or f'"{name}' in left or f":{name}" in left]
    assert "quentin" not in left
    assert erased.pseudonym in left
    assert erased.jobs == 1
    report = await plane.audit.verify()
    assert report.sound, report.findings
    with pytest.raises(UserNotFound):
        await plane.people.get("quentin")
    assert waiting in left
    entries = await plane.audit.list(actor=f"user:{erased.pseudonym}", limit=50)
    assert {record.entry.action for record in entries} >= {"SIGNED_IN", "QUEUE_PAUSED"}
    assert next(iter(await plane.audit.list(actor="user:bob", limit=1))).entry.action == "USER_ERASED"


async def test_what_is_left_of_an_entry_still_cannot_be_changed(plane: TestPlane, raw: Raw) -> None:
    await _a_life(plane)
    await plane.audit.record("UNTOUCHED", "thing", "8", actor="user:bob")
    await _seal(plane)
    await plane.people.erase("quentin")
    [seq] = [row[0] for row in await raw("select seq from cortex.audit_log where action = 'SIGNED_IN'")]

    for change in ("action = 'OTHER'", "actor = 'user:eve'", "object_id = '7'", "reason = 'new'", "kept = null", "source = 'x'"):
        with pytest.raises(Exception, match="never changed"):
            await raw(f"update cortex.audit_log set {change} where seq = {seq}")
    with pytest.raises(Exception, match="never changed"):
        await raw("update cortex.audit_log set actor = 'user:erased-1' where action = 'UNTOUCHED'")


async def test_erasing_twice_and_before_sealing_is_fine(plane: TestPlane) -> None:
    await _a_life(plane)

    first = await plane.people.erase("quentin")
    await plane.people.erase(first.pseudonym)
    await _seal(plane)

    assert (await plane.audit.verify()).sound


async def test_nothing_of_an_erased_tenant_is_left_but_its_id(plane: TestPlane, raw: Raw) -> None:
    tenant_id = await plane.tenants.add("acme-secret")
    await plane.tenants.add("neighbour")
    waiting = await _a_life(plane, "acme-secret")
    await plane.templates.save("nightly", "echo", tenant="acme-secret")
    await plane.webhooks.add("https://example.com/acme-secret", tenant="acme-secret")
    kept = await plane.submit("echo", tenant="neighbour", delay=3_600)
    await _seal(plane)

    erased = await plane.tenants.erase("acme-secret", actor="user:bob")

    left = await _everything(raw)
    assert "acme-secret" not in left
    assert waiting not in left.split("audit_log:")[0]
    assert erased.jobs == 5
    assert tenant_id in left
    assert kept.id in left
    report = await plane.audit.verify()
    assert report.sound, report.findings
    with pytest.raises(TenantNotFound):
        await plane.submit("echo", tenant="acme-secret")


async def test_the_default_tenant_and_strangers_cannot_be_erased(plane: TestPlane) -> None:
    with pytest.raises(InvalidInput, match="default tenant"):
        await plane.tenants.erase("default")
    with pytest.raises(TenantNotFound):
        await plane.tenants.erase("nobody")
    with pytest.raises(UserNotFound):
        await plane.people.erase("nobody")
