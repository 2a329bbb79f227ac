"""Pruning deletes exactly what the rules say, never what is still needed; what must outlive a job does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cortex_plane.agents.directory import Directory
from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import AmbiguousRule, InvalidInput, RuleExists, RuleNotFound, TenantNotFound, UnknownAgent
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, JobId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.retention import service as pruning
from cortex_plane.retention.model import ExpiredJob, RetentionRule
from cortex_plane.retention.service import add_rule, prune_jobs, remove_rule
from tests.contract.support import Raw, Scene, into
from tests.contract.test_repair import triggers_off

pytestmark = pytest.mark.anyio

ENDED = (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)


async def rule(scene: Scene, keep: float | timedelta, **what: Any) -> RetentionRule:
    return await add_rule(scene.store, Directory(scene.store), new_id, keep, actor="ada", **what)


async def prune(scene: Scene) -> int:
    """A whole pass."""
    deleted, after = 0, None
    while True:
        batch = await prune_jobs(scene.store, after)
        deleted += batch.deleted
        if batch.after is None:
            return deleted
        after = batch.after


async def kept(scene: Scene) -> set[JobId]:
    return {job.id for job in await scene.store.jobs.list(limit=1000)}


async def ended_job(scene: Scene, raw: Raw, status: JobStatus = JobStatus.COMPLETED, **fields: Any) -> JobId:
    job_id = await scene.submit(**fields)
    await bring(raw, job_id, status)
    return job_id


async def bring(raw: Raw, job_id: JobId, status: JobStatus) -> None:
    """Into a state, by legal steps."""
    if status is JobStatus.PENDING:
        return
    await raw(f"update cortex.job set {into(JobStatus.RUNNING, raw)} where id = '{job_id}'")
    if status is not JobStatus.RUNNING:
        await raw(f"update cortex.job set {into(status, raw)} where id = '{job_id}'")


async def epitaphs(scene: Scene, job_id: JobId) -> list[AuditEntry]:
    return [record.entry for record in await scene.store.audit.list(job_id) if record.entry.action == "JOB_DELETED"]


# -- rules ---------------------------------------------------------------------------------------


async def test_without_a_rule_nothing_is_deleted(scene: Scene, raw: Raw) -> None:
    job_id = await ended_job(scene, raw)
    await scene.clock.advance(days=10_000)

    assert await prune(scene) == 0
    assert await kept(scene) == {job_id}


async def test_a_job_is_kept_so_long_after_its_end_and_not_a_moment_longer(scene: Scene, raw: Raw) -> None:
    await rule(scene, timedelta(minutes=1))
    job_id = await scene.submit()
    await scene.clock.advance(hours=1)
    await bring(raw, job_id, JobStatus.COMPLETED)
    await scene.clock.advance(timedelta(seconds=60, microseconds=-1))
    assert await prune(scene) == 0

    await scene.clock.advance(timedelta(microseconds=1))

    assert await prune(scene) == 1
    assert await kept(scene) == set()


@pytest.mark.parametrize("status", [status for status in JobStatus if status not in ENDED])
async def test_a_job_that_has_not_ended_is_never_deleted(scene: Scene, raw: Raw, status: JobStatus) -> None:
    await rule(scene, 0)
    job_id = await scene.in_state(status, raw)
    await scene.clock.advance(days=10_000)

    assert await prune(scene) == 0
    assert await kept(scene) == {job_id}


async def test_the_most_specific_rule_wins_whichever_way_it_points(scene: Scene, raw: Raw) -> None:
    acme = await scene.tenant("acme")
    short = await ended_job(scene, raw)
    long = await ended_job(scene, raw, tenant_id=acme)
    longest = await ended_job(scene, raw, JobStatus.FAILED, tenant_id=acme)
    await rule(scene, 10)
    await rule(scene, 100, tenant="acme")
    await rule(scene, 0, agent="echo", status="COMPLETED", tenant="acme")
    await rule(scene, 1000, status=JobStatus.FAILED, tenant="acme")
    assert await prune(scene) == 1
    assert await kept(scene) == {short, longest}
    assert long not in await kept(scene)

    await scene.clock.advance(seconds=999)

    assert await prune(scene) == 1
    assert await kept(scene) == {longest}


async def test_rules_are_listed_audited_and_removed(scene: Scene) -> None:
    await scene.tenant("acme")
    await scene.agent()
    first = await rule(scene, timedelta(days=30))
    second = await rule(scene, 1.5, tenant="acme", agent="echo", status="FAILED")
    found = await scene.store.retention.list()
    assert [(r.id, r.keep_seconds, r.tenant, r.job_type, r.status, r.created_by) for r in found] == [
        (first.id, 2_592_000, None, None, None, "ada"),
        (second.id, 2, "acme", "echo", "FAILED", "ada"),
    ]
    assert found[0].created_at == scene.now

    assert (await remove_rule(scene.store, first.id, actor="bob", reason="keep all")).id == first.id

    assert [r.id for r in await scene.store.retention.list()] == [second.id]
    entries = [record.entry for record in await scene.store.audit.list(first.id)]
    assert [(entry.action, entry.actor, entry.reason) for entry in entries] == [
        ("RETENTION_RULE_ADDED", "ada", None),
        ("RETENTION_RULE_REMOVED", "bob", "keep all"),
    ]


async def test_there_is_one_rule_for_the_same_jobs(scene: Scene) -> None:
    await scene.agent()
    await rule(scene, 10)
    await rule(scene, 10, agent="echo")

    for what in ({}, {"agent": "echo"}):
        with pytest.raises(RuleExists, match="retention rule for the same jobs already"):
            await rule(scene, 20, **what)

    assert len(await scene.store.retention.list()) == 2


async def test_a_rule_is_removed_by_the_first_part_of_its_id_if_that_is_enough(scene: Scene) -> None:
    await scene.agent()
    rules = [await rule(scene, 10), await rule(scene, 10, agent="echo")]
    with pytest.raises(AmbiguousRule):
        await remove_rule(scene.store, rules[0].id[:4])
    for unknown in ("ffffffff", "", "%"):
        with pytest.raises(RuleNotFound):
            await remove_rule(scene.store, unknown)

    await remove_rule(scene.store, rules[0].id[:-1].upper())

    assert [r.id for r in await scene.store.retention.list()] == [rules[1].id]


@pytest.mark.parametrize("keep", [-1, float("nan"), float("inf"), "30d", True, None, timedelta(days=40_000)])
async def test_how_long_must_be_a_time(scene: Scene, keep: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        await rule(scene, keep)

    assert refused.value.field == "keep"


async def test_what_a_rule_names_must_exist(scene: Scene) -> None:
    with pytest.raises(UnknownAgent):
        await rule(scene, 1, agent="nobody")
    with pytest.raises(TenantNotFound):
        await rule(scene, 1, tenant="nobody")
    for status in ("RUNNING", "completed", "lost"):
        with pytest.raises(InvalidInput) as refused:
            await rule(scene, 1, status=status)
        assert refused.value.field == "status"


# -- what goes, what stays -----------------------------------------------------------------------


async def test_runs_and_history_go_with_the_job_and_nothing_of_others(scene: Scene, raw: Raw) -> None:
    await ended_job(scene, raw)
    other = await ended_job(scene, raw, JobStatus.FAILED)
    await rule(scene, 0, status="COMPLETED")

    assert await prune(scene) == 1

    for table in ("job_history", "job_run"):
        assert {str(row[0]) for row in await raw(f"select job_id from cortex.{table}")} == {other}


async def test_audit_key_and_cost_outlive_the_job(scene: Scene, raw: Raw) -> None:
    job_id = await ended_job(scene, raw, job_key="daily")
    await raw(f"update cortex.job set cost_cents = 5 where id = '{job_id}'")
    await scene.clock.advance(seconds=3)
    made = await rule(scene, 3)
    await prune(scene)

    assert await kept(scene) == set()
    [entry] = await epitaphs(scene, job_id)
    assert (entry.object_type, entry.actor, entry.tenant_id) == ("job", "retention", DEFAULT_TENANT_ID)
    assert (entry.details["rule_id"], entry.details["job_type"], entry.details["status"]) == (made.id, "echo", "COMPLETED")
    assert [(row[0], str(row[1])) for row in await raw("select job_key, job_id from cortex.job_key")] == [("daily", job_id)]
    assert [total.cents for total in await scene.store.costs.totals()] == [5]


async def test_a_key_whose_job_was_deleted_can_be_used_again(scene: Scene, raw: Raw) -> None:
    await ended_job(scene, raw, job_key="daily")
    await rule(scene, 0)
    await prune(scene)

    again = await scene.submit(job_key="daily", key_mode="unsafe_dedupe")

    assert await kept(scene) == {again}


async def test_a_live_retry_keeps_its_whole_chain(scene: Scene, raw: Raw) -> None:
    """Deleting in the middle of a chain is refused until its end has ended; then all of it goes in one pass."""
    first = await ended_job(scene, raw, JobStatus.FAILED)
    second, third = JobId(new_id()), JobId(new_id())
    await scene.store.jobs.retry(first, second, "ada")
    await bring(raw, second, JobStatus.FAILED)
    await scene.store.jobs.retry(second, third, "ada")
    await rule(scene, 0)
    assert await prune(scene) == 0

    await bring(raw, third, JobStatus.COMPLETED)

    assert await prune(scene) == 3


async def test_a_chain_goes_from_its_beginning(scene: Scene, raw: Raw) -> None:
    """Were its retry deleted first, the job would seem never retried, and could be retried a second time."""
    first = await ended_job(scene, raw, JobStatus.FAILED)
    second = JobId(new_id())
    await scene.store.jobs.retry(first, second, "ada")
    await bring(raw, second, JobStatus.COMPLETED)
    await rule(scene, 0, status="COMPLETED")
    assert await prune(scene) == 0

    await rule(scene, 0, status="FAILED")

    assert await prune(scene) == 2


async def test_a_parent_and_its_child_wait_for_each_other(scene: Scene, raw: Raw) -> None:
    await rule(scene, 0)
    for live_one in ("parent", "child"):
        parent, child = await scene.submit(), await scene.submit()
        await raw(f"update cortex.job set parent_id = '{parent}' where id = '{child}'")
        await bring(raw, child if live_one == "parent" else parent, JobStatus.COMPLETED)
        assert await prune(scene) == 0

        await bring(raw, parent if live_one == "parent" else child, JobStatus.COMPLETED)

        assert await prune(scene) == 2


async def test_members_wait_until_their_group_has_finished(scene: Scene, raw: Raw) -> None:
    group = await a_group(raw)
    members = [await scene.submit() for _ in range(2)]
    for member in members:
        async with triggers_off(raw):
            await raw(f"update cortex.job set group_id = '{group}' where id = '{member}'")
        await bring(raw, member, JobStatus.COMPLETED)
    await rule(scene, 0)
    assert await prune(scene) == 0  # Its callback has not been made yet.

    await raw(f"update cortex.job_group set finished_at = {raw.now} where id = '{group}'")

    assert await prune(scene) == 2


async def test_a_member_that_goes_on_keeps_the_others_of_a_group_that_had_finished(scene: Scene, raw: Raw) -> None:
    """As an operator's retry of a member does."""
    group = await a_group(raw, finished=True)
    ended, live = await ended_job(scene, raw), await scene.submit()
    async with triggers_off(raw):
        await raw(f"update cortex.job set group_id = '{group}' where id in ('{ended}', '{live}')")
    await rule(scene, 0)
    assert await prune(scene) == 0

    await bring(raw, live, JobStatus.FAILED)

    assert await prune(scene) == 2


async def a_group(raw: Raw, finished: bool = False) -> str:
    group = new_id()
    ended_at = raw.now if finished else "null"
    await raw(
        "insert into cortex.job_group (id, tenant_id, mode, on_failure, created_at, finished_at) "
        f"values ('{group}', '{DEFAULT_TENANT_ID}', 'parallel', 'continue', {raw.now}, {ended_at})"
    )
    return group


# -- batches -------------------------------------------------------------------------------------


async def test_a_batch_deletes_at_most_so_many_and_the_next_goes_on_there(
    scene: Scene, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "BATCH", 3)
    monkeypatch.setattr(pruning, "LOOKED_AT", 5)
    jobs = [await ended_job(scene, raw) for _ in range(8)]
    await rule(scene, 0)

    first = await prune_jobs(scene.store)
    second = await prune_jobs(scene.store, first.after)
    third = await prune_jobs(scene.store, second.after)

    assert (first, second, third) == ((3, jobs[2]), (3, jobs[5]), (2, None))


async def test_a_pass_ends_where_jobs_are_too_young_for_any_rule(scene: Scene, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "LOOKED_AT", 2)
    await rule(scene, 60)
    for _ in range(10):
        await ended_job(scene, raw)

    assert await prune_jobs(scene.store) == (0, None)


async def test_what_is_deleted_meanwhile_is_neither_counted_nor_recorded(scene: Scene, raw: Raw) -> None:
    """Two workers prune at once."""
    job_id = await ended_job(scene, raw)
    made = await rule(scene, 0)
    [looked_at] = await scene.store.retention.window(None, 10)
    assert await prune(scene) == 1

    assert await scene.store.retention.delete([ExpiredJob(looked_at, made)], "test") == 0
    assert len(await epitaphs(scene, job_id)) == 1
