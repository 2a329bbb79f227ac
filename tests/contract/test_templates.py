"""Templates: one for each tenant and name, with a version that counts changes."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.fields import Submission, template_json
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, TenantId
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.json import dumps
from cortex_plane.templates.model import NewTemplate, TemplateId
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

OTHER = TenantId("00000000-0000-7000-8000-00000000000a")


def template(
    *,
    tenant_id: TenantId = DEFAULT_TENANT_ID,
    name: str = "nightly",
    params: str = '{"word":"a"}',
    created_by: str | None = None,
    **options: Any,
) -> NewTemplate:
    return NewTemplate(
        id=TemplateId(new_id()),
        tenant_id=tenant_id,
        name=name,
        job_type="echo",
        params=params,
        options=dumps(template_json(Submission("echo", **options))),
        created_by=created_by,
    )


FULL: dict[str, Any] = {
    "queue": "side",
    "priority": 3,
    "max_retries": 5,
    "retry": RetryPolicy("chain", 4, Backoff(base_seconds=7)),
    "run_timeout": 2.5,
    "deadline": 60,
    "tags": ("x", "y"),
    "created_by": "ada",
}


async def test_a_template_is_kept_as_it_was_saved(scene: Scene) -> None:
    new = template(**FULL)

    saved = await scene.store.templates.put(new, "ada")

    assert saved == await scene.store.templates.get(DEFAULT_TENANT_ID, "nightly")
    assert (saved.id, saved.version, saved.params, saved.tags) == (new.id, 1, {"word": "a"}, ["x", "y"])
    assert (saved.name, saved.job_type, saved.created_by) == ("nightly", "echo", "ada")
    assert (saved.queue, saved.priority, saved.max_retries) == ("side", 3, 5)
    assert (saved.retry_policy, saved.run_timeout_seconds, saved.deadline_seconds) == (FULL["retry"], 2.5, 60)
    assert saved.created_at == saved.updated_at == scene.now


@pytest.mark.parametrize("change", [{"params": "{}"}, {"queue": None}, {"tags": ()}, {"retry": None}, {"max_retries": 6}])
async def test_a_change_counts_the_version_up_and_keeps_the_rest(scene: Scene, change: dict[str, Any]) -> None:
    first = await scene.store.templates.put(template(**FULL), "ada")
    await scene.clock.advance(minutes=1)

    second = await scene.store.templates.put(template(**{**FULL, **change, "created_by": "bob"}), "bob")

    assert (second.id, second.version, second.created_by) == (first.id, 2, "ada")
    assert (second.created_at, second.updated_at) == (first.created_at, scene.now)


@pytest.mark.parametrize("fields", [{}, FULL])
async def test_saving_the_same_again_changes_nothing(scene: Scene, fields: dict[str, Any]) -> None:
    first = await scene.store.templates.put(template(**fields), "ada")
    await scene.clock.advance(minutes=1)

    assert await scene.store.templates.put(template(**fields), "ada") == first
    assert [record.entry.action for record in await scene.store.audit.list(first.id)] == ["TEMPLATE_SAVED"]


async def test_names_are_a_tenants_own(scene: Scene) -> None:
    await scene.store.tenants.add(OTHER, "other")
    ours = await scene.store.templates.put(template(), None)
    theirs = await scene.store.templates.put(template(tenant_id=OTHER, params="{}"), None)
    await scene.store.templates.put(template(name="daily"), None)

    assert ours.id != theirs.id
    assert [one.name for one in await scene.store.templates.list(DEFAULT_TENANT_ID)] == ["daily", "nightly"]
    assert await scene.store.templates.list(OTHER) == [theirs]


async def test_a_removed_template_is_gone_and_its_name_is_free(scene: Scene) -> None:
    first = await scene.store.templates.put(template(), None)

    assert await scene.store.templates.remove(DEFAULT_TENANT_ID, "nightly", "ada")
    assert not await scene.store.templates.remove(DEFAULT_TENANT_ID, "nightly", "ada")
    assert await scene.store.templates.get(DEFAULT_TENANT_ID, "nightly") is None
    again = await scene.store.templates.put(template(), None)

    assert (again.version, again.id == first.id) == (1, False)
    records = [(record.entry.action, record.entry.actor) for record in await scene.store.audit.list(first.id)]
    assert records == [("TEMPLATE_SAVED", None), ("TEMPLATE_REMOVED", "ada")]
