"""The database keeps its word against raw SQL: what a job was born with, how it ended, its history, requests and slots."""

from __future__ import annotations

import pytest

from cortex_plane.jobs.outcomes import Done
from cortex_plane.testing import TestPlane
from tests.contract.schedule_scene import reporting, settle
from tests.contract.support import Raw, Refused, Scene
from tests.contract.test_execution_races import starter

pytestmark = pytest.mark.anyio

OTHER = "'01990000-0000-7000-8000-000000000001'"


@pytest.mark.parametrize(
    "change",
    [
        "job_type = 'other'",
        f"template_id = {OTHER}",
        f"group_id = {OTHER}",
        f"retry_of = {OTHER}",
        f"tenant_id = {OTHER}",
        f"agent_id = {OTHER}",
        "created_at = {later}",
    ],
)
async def test_what_a_job_was_born_with_never_changes(scene: Scene, raw: Raw, change: str) -> None:
    job_id = await scene.submit()

    with pytest.raises(Refused, match="born with"):
        await raw(f"update cortex.job set {change.format(later=_later(raw))} where id = '{job_id}'")


@pytest.mark.parametrize("change", ["output = '7'", "started_at = {later}", "finished_at = {later}", "error_message = 'x'"])
async def test_how_a_job_ended_never_changes(scene: Scene, raw: Raw, change: str) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Done("1"))

    with pytest.raises(Refused):
        await raw(f"update cortex.job set {change.format(later=_later(raw))} where id = '{claimed.job_id}'")


async def test_the_arguments_of_an_open_run_never_change(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()

    with pytest.raises(Refused, match="never changed"):
        await raw(f"""update cortex.job_run set params_snapshot = '{{"a":1}}' where job_id = '{claimed.job_id}'""")


@pytest.mark.parametrize("revision", ["revision + 2", "revision - 1", "1000"])
async def test_a_forged_revision_is_refused(scene: Scene, raw: Raw, revision: str) -> None:
    job_id = await scene.submit()

    with pytest.raises(Refused, match="revision"):
        await raw(f"update cortex.job set revision = {revision} where id = '{job_id}'")


async def test_history_is_written_by_the_database_only(scene: Scene, raw: Raw) -> None:
    job_id = await scene.submit()
    for forged, revision in ((OTHER, 1), (f"'{job_id}'", 7)):
        with pytest.raises(Refused, match="written by the database only"):
            await raw(
                "insert into cortex.job_history (job_id, revision, new_status, cause, created_at) "
                f"values ({forged}, {revision}, 'PENDING', 'sql', {_later(raw)})"
            )


@pytest.mark.parametrize("column", ["tenant_id", "agent_id"])
async def test_a_job_of_an_unknown_tenant_or_agent_is_refused(scene: Scene, raw: Raw, column: str) -> None:
    job_id = await scene.submit()
    times = ["created_at", "updated_at", "queued_at"] if raw.kind == "sqlite" else []
    names = ["id", "tenant_id", "agent_id", "job_type", "queue", *times]
    values = [OTHER if name in ("id", column) else name for name in names]
    if raw.kind == "sqlite":
        names, values = [*names, "position"], [*values, "position + 1"]

    with pytest.raises(Refused, match="tenant and an agent"):
        await raw(f"insert into cortex.job ({', '.join(names)}) select {', '.join(values)} from cortex.job where id = '{job_id}'")


@pytest.mark.parametrize("change", ["priority = 5", "created_by = 'x'", "run_at = {later}", "tags = '[\"a\"]'"])
async def test_updated_at_moves_with_every_change(scene: Scene, raw: Raw, change: str) -> None:
    job_id = await scene.submit()
    before = (await scene.job(job_id)).updated_at

    await raw(f"update cortex.job set {change.format(later=_later(raw))} where id = '{job_id}'")

    assert (await scene.job(job_id)).updated_at > before


async def test_a_request_and_its_outcome_never_change(plane: TestPlane, raw: Raw) -> None:
    reporting(plane)
    grant = await plane.grants.add(["agent:run:report"])
    await (await starter(plane, grant.id))("the-key")
    for change in ("graph_id = 'other'", f"run_id = {OTHER}", "idempotency_key = 'other'", f"created_at = {_later(raw)}"):
        with pytest.raises(Refused, match="never changed"):
            await raw(f"update cortex.execution_request set {change}")
    await plane.work()
    for change in ("outcome = 'FAILED'", "outcome_message = 'x'", f"finished_at = {_later(raw)}"):
        with pytest.raises(Refused, match="never changed"):
            await raw(f"update cortex.execution_request set {change}")


async def test_which_slot_it_was_never_changes(plane: TestPlane, raw: Raw) -> None:
    reporting(plane)
    await plane.schedules.add("nightly", "agent:report", "0 3 * * *")
    await plane.schedules.trigger("nightly")
    [(count,)] = await raw("select count(*) from cortex.schedule_run")
    assert count

    for change in (
        f"scheduled_for = {_later(raw)}",
        "local_time = 'x'",
        "timezone = 'x'",
        "origin = 'backfill'",
        f"created_at = {_later(raw)}",
    ):
        with pytest.raises(Refused, match="never changed"):
            await raw(f"update cortex.schedule_run set {change}")


@pytest.mark.parametrize(
    "change",
    [
        "status = 'error', error_code = 'x'",
        "status = 'skipped', reason = 'x', started_at = null",
        "status = 'pending', completed_at = null, started_at = null",
        f"job_id = {OTHER}",
        f"run_id = {OTHER}",
        "trace_id = 'x'",
        "started_at = {later}",
        "completed_at = {later}",
    ],
)
async def test_how_a_slot_ended_never_changes(plane: TestPlane, raw: Raw, change: str) -> None:
    reporting(plane)
    await plane.schedules.add("nightly", "agent:report", "0 3 * * *")
    await plane.schedules.trigger("nightly")
    await settle(plane)

    with pytest.raises(Refused, match="never changed"):
        await raw(f"update cortex.schedule_run set {change.format(later=_later(raw))} where status = 'success'")


def _later(raw: Raw) -> str:
    return "cortex.now() + interval '1 hour'" if raw.kind == "postgres" else "1999999999000000"
