"""Templates, from the plane: what is checked, what a job takes over, and what a caller may replace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cortex_plane import Backoff, Context, InvalidInput, RetryPolicy
from cortex_plane.errors import UnknownAgent
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import TenantId
from cortex_plane.templates.model import TemplateNotFound
from cortex_plane.templates.service import TemplateService
from cortex_plane.testing import TestPlane
from tests.end_to_end.inspection import query

pytestmark = pytest.mark.anyio

POLICY = RetryPolicy("chain", 4, Backoff(base_seconds=7))


@pytest.fixture
def templates(plane: TestPlane) -> TemplateService:
    @plane.agent("report", queue="reports", max_retries=2, run_timeout=60)
    async def report(ctx: Context, kind: str = "", size: int = 0, deep: dict[str, Any] | None = None) -> list[Any]:
        return [kind, size, deep]

    return TemplateService(plane)


async def test_a_job_is_what_its_template_says(plane: TestPlane, templates: TemplateService, database_url: str) -> None:
    template = await templates.save(
        "nightly", "report", {"kind": "full"}, queue="slow", priority=4, max_retries=1, retry=POLICY, run_timeout=9, tags=["x"]
    )

    job = await (await templates.submit("nightly", created_by="ada")).job()

    assert (job.job_type, job.payload, job.queue, job.priority) == ("report", {"kind": "full"}, "slow", 4)
    assert (job.max_retries, job.tags, job.created_by) == (1, ["x"], "ada")
    [(template_id, timeout)] = await query(
        database_url, f"select cast(template_id as text), timeout_seconds from cortex.job where id = '{job.id}'"
    )
    assert (template_id, timeout) == (template.id, 9.0)


async def test_what_a_template_leaves_out_is_as_the_agent_says(templates: TemplateService) -> None:
    await templates.save("plain", "report")

    job = await (await templates.submit("plain")).job()

    assert (job.payload, job.queue, job.priority, job.max_retries) == ({}, "reports", 0, 2)


async def test_a_caller_replaces_single_keys_and_options(templates: TemplateService) -> None:
    await templates.save("nightly", "report", {"kind": "full", "size": 1, "deep": {"a": 1}}, queue="slow", priority=4, tags=["x"])

    job = await (
        await templates.submit(
            "nightly", {"size": 2, "deep": {"b": 2}}, queue="fast", priority=0, max_retries=0, tags=[], delay=timedelta(hours=1)
        )
    ).job()

    assert job.payload == {"kind": "full", "size": 2, "deep": {"b": 2}}
    assert (job.queue, job.priority, job.max_retries, job.tags) == ("fast", 0, 0, [])
    assert job.run_at is not None


async def test_a_callers_retry_policy_also_says_how_often(templates: TemplateService) -> None:
    await templates.save("nightly", "report", max_retries=9)

    job = await (await templates.submit("nightly", retry=POLICY)).job()

    assert job.max_retries == 4


async def test_later_changes_of_a_template_do_not_reach_its_jobs(plane: TestPlane, templates: TemplateService) -> None:
    await templates.save("nightly", "report", {"kind": "old"})
    job = await templates.submit("nightly")
    changed = await templates.save("nightly", "report", {"kind": "new"}, queue="elsewhere")
    await templates.remove("nightly")

    await plane.work()

    assert changed.version == 2
    assert await job.result() == ["old", 0, None]
    [run] = await job.runs()
    assert run.params_snapshot == {"kind": "old"}


async def test_a_run_remembers_the_template(plane: TestPlane, templates: TemplateService, database_url: str) -> None:
    template = await templates.save("nightly", "report")
    job = await templates.submit("nightly")

    await plane.work()

    [(template_id,)] = await query(
        database_url, f"select cast(template_id as text) from cortex.job_run where job_id = '{job.id}'"
    )
    assert template_id == template.id


async def test_an_unknown_template_is_answered_with_the_nearest_name(templates: TemplateService) -> None:
    with pytest.raises(TemplateNotFound, match="No template has been saved yet"):
        await templates.submit("nightly")
    await templates.save("nightly", "report")

    for attempt in (templates.submit("nigthly"), templates.get("nigthly"), templates.remove("nigthly")):
        with pytest.raises(TemplateNotFound, match='Did you mean "nightly"'):
            await attempt


@pytest.mark.parametrize(
    ("name", "agent", "fields", "field"),
    [
        ("", "report", {}, "name"),
        ("x" * 201, "report", {}, "name"),
        ("x", "report", {"params": [1]}, "payload"),
        ("x", "report", {"params": {"kind": float("inf")}}, "payload.kind"),
        ("x", "report", {"params": {"kind": "y" * 2_000_000}}, "payload"),
        ("x", "report", {"queue": "cortex"}, "queue"),
        ("x", "report", {"queue": ""}, "queue"),
        ("x", "report", {"priority": 10**9}, "priority"),
        ("x", "report", {"max_retries": -1}, "max_retries"),
        ("x", "report", {"retry": "chain"}, "retry"),
        ("x", "report", {"run_timeout": 0}, "run_timeout"),
        ("x", "report", {"tags": "abc"}, "tags"),
    ],
)
async def test_what_no_job_could_be_is_refused_at_once(
    templates: TemplateService, name: str, agent: str, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await templates.save(name, agent, **fields)

    assert refused.value.field == field
    assert await templates.list() == []


async def test_a_template_needs_an_agent_that_is_known(templates: TemplateService) -> None:
    with pytest.raises(UnknownAgent, match='Did you mean "report"'):
        await templates.save("x", "reprot")


ONE_JOB: dict[str, Any] = {
    "run_at": datetime(2026, 1, 5, tzinfo=UTC),
    "delay": 5,
    "job_key": "k",
    "key_mode": "replace",
    "serial_key": "k",
    "session": new_id(),
    "cancel_with_parent": True,
    "connection": object(),
}


@pytest.mark.parametrize("field", ONE_JOB)
async def test_what_belongs_to_a_single_job_is_not_part_of_a_template(templates: TemplateService, field: str) -> None:
    options: dict[str, Any] = {field: ONE_JOB[field]}

    with pytest.raises(InvalidInput, match="belongs to a single job") as refused:
        await templates.save("x", "report", **options)

    assert refused.value.field == field


async def test_a_template_takes_a_deadline_as_a_length_of_time(templates: TemplateService) -> None:
    options: dict[str, Any] = {"deadline": datetime(2026, 1, 5, tzinfo=UTC)}

    with pytest.raises(InvalidInput, match="as a length of time") as refused:
        await templates.save("x", "report", **options)

    assert refused.value.field == "deadline"


async def test_an_option_that_there_is_not_is_refused(templates: TemplateService) -> None:
    options: dict[str, Any] = {"prioriti": 3}

    with pytest.raises(InvalidInput, match='Did you mean "priority"'):
        await templates.save("x", "report", **options)


async def test_overrides_are_checked_as_a_payload_is(templates: TemplateService) -> None:
    await templates.save("nightly", "report")

    with pytest.raises(InvalidInput, match="must be a dict"):
        await templates.submit("nightly", [1])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="kind"):
        await templates.submit("nightly", {"kind": float("nan")})


async def test_templates_are_a_tenants_own(plane: TestPlane, templates: TemplateService) -> None:
    tenant_id = TenantId(new_id())
    await plane.store.tenants.add(tenant_id, "other")
    await templates.save("nightly", "report", tenant="other")

    with pytest.raises(TemplateNotFound):
        await templates.submit("nightly")
    job = await (await templates.submit("nightly", tenant="other")).job()

    assert job.tenant_id == tenant_id
