"""Tenants: added once, listed by name, shown with what they do and cost."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.errors import InvalidInput, TenantExists, TenantNotFound
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, INTERNAL_QUEUE
from cortex_plane.jobs.outcomes import Done
from cortex_plane.people.tenants import add_tenant, list_tenants, show_tenant
from cortex_plane.queues import controls
from cortex_plane.queues.model import Scope
from tests.contract.support import Scene, ended

pytestmark = pytest.mark.anyio


async def test_a_tenant_is_added_and_audited(scene: Scene) -> None:
    tenant_id = await add_tenant(scene.store, new_id, "acme", actor="ada", reason="new customer")

    assert await scene.store.tenants.find("acme") == tenant_id
    [record] = await scene.store.audit.list(tenant_id)
    entry = record.entry
    assert (entry.action, entry.actor, entry.reason, entry.tenant_id) == ("TENANT_ADDED", "ada", "new customer", tenant_id)


async def test_a_name_is_given_once_however_many_ask(scene: Scene) -> None:
    answers = await asyncio.gather(*(add_tenant(scene.store, new_id, "acme") for _ in range(8)), return_exceptions=True)

    assert sum(isinstance(answer, str) for answer in answers) == 1
    assert sum(isinstance(answer, TenantExists) for answer in answers) == 7
    with pytest.raises(TenantExists, match='Tenant "default" already exists'):
        await add_tenant(scene.store, new_id, "default")


@pytest.mark.parametrize("name", ["", " ", " acme", "x" * 201, "a\nb", "a\x00b", 7, None])
async def test_a_name_is_text_that_can_be_read(scene: Scene, name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await add_tenant(scene.store, new_id, name)

    assert refused.value.field == "name"
    assert [tenant.name for tenant in await list_tenants(scene.store)] == ["default"]


async def test_tenants_are_listed_by_name(scene: Scene) -> None:
    for name in ("zebra", "acme"):
        await add_tenant(scene.store, new_id, name)

    assert [tenant.name for tenant in await list_tenants(scene.store)] == ["acme", "default", "zebra"]
    assert (await list_tenants(scene.store))[0].created_at == scene.now


async def test_a_tenant_is_shown_with_what_runs_waits_and_was_spent(scene: Scene) -> None:
    acme = await scene.tenant("acme")
    for _ in range(3):
        await scene.submit(tenant_id=acme)
    await scene.submit(tenant_id=acme, delay_seconds=60.0)
    await scene.submit()
    first, _ = await scene.claim(await scene.worker(), 2)
    await scene.store.queue.finish([ended(first, Done("1"))._replace(cost_cents=12)], "test")
    await controls.limit(scene.store, Scope.TENANT, acme, 4, actor="ada")

    shown = await show_tenant(scene.store, "acme")

    assert (shown.tenant.id, shown.running, shown.waiting) == (acme, 1, {"ready": 1, "later": 1})
    assert (shown.spent_cents, shown.control.max_running) == (12, 4)
    assert (await show_tenant(scene.store, "default")).waiting == {"ready": 1}
    assert (await show_tenant(scene.store, "default")).tenant.id == DEFAULT_TENANT_ID


async def test_an_unknown_tenant_is_not_found(scene: Scene) -> None:
    with pytest.raises(TenantNotFound):
        await show_tenant(scene.store, "nobody")


async def test_the_planes_own_work_is_no_work_of_a_tenant(scene: Scene) -> None:
    acme = await scene.tenant("acme")
    for _ in range(2):
        await scene.submit("cortex.notify", tenant_id=acme, queue=INTERNAL_QUEUE)
    [_] = await scene.claim(await scene.worker(), 1, queues=[INTERNAL_QUEUE], job_types=["cortex.notify"])

    assert await scene.store.tenants.count_jobs(acme) == (0, {})
