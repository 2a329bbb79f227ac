"""What a job that is made of another takes over. Every column of `job` is in one of the lists below, or the test fails."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.clock import after, as_datetime
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import BornWith, JobId
from cortex_plane.jobs.outcomes import Failed
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus
from tests.contract.support import BOOM, FATAL, Raw, Scene, snapshot
from tests.contract.test_repair import triggers_off

pytestmark = pytest.mark.anyio

KINDS = ("chain", "resume", "retry", "fork")
LINKED = {"chain", "resume", "retry"}

CARRIED = {
    "tenant_id": set(KINDS),
    "agent_id": set(KINDS),
    "job_type": set(KINDS),
    "queue": set(KINDS),
    "priority": set(KINDS),
    "payload": set(KINDS),
    "max_retries": set(KINDS),
    "retry_policy": set(KINDS),
    "timeout_seconds": set(KINDS),
    "deadline_seconds": set(KINDS),
    "serial_key": set(KINDS),
    "template_id": set(KINDS),
    "session_id": set(KINDS),
    "tags": set(KINDS),
    "created_by": set(KINDS),
    "group_id": LINKED,
    "parent_id": LINKED,
    "cancel_with_parent": LINKED,
    "schedule_id": LINKED,
    "request_id": LINKED,
    "trace_id": LINKED,
    "checkpoint": {"chain", "resume"},
    "checkpoint_id": {"chain", "resume"},
}
"""Which kinds of successor have the job's own value."""

LEFT = {
    "id",
    "retry_of",
    "status",
    "position",
    "worker_job_id",
    "job_key",
    "run_at",
    "retry_count",
    "attempt",
    "crash_count",
    "failed_runs",
    "cancel_requested_at",
    "cancel_request",
    "cleanup_seconds",
    "next_retry_at",
    "wait_reason",
    "run_id",
    "worker_id",
    "approval_token",
    "approval_expires_at",
    "output",
    "output_blob",
    "error",
    "error_message",
    "cost_cents",
    "revision",
    "cause",
    "actor",
    "note",
    "created_at",
    "queued_at",
    "started_at",
    "updated_at",
    "finished_at",
}
"""What belongs to the one job: its identity, its place, its progress and its outcome."""

BY_RULE = {"effect_root", "deadline_at", "submitters"}
"""What depends on how and when the job ended, too: see the tests below."""

UNSET = {
    "tenant_id": None,  # These have a value anyway.
    "agent_id": None,
    "job_type": None,
    "payload": None,
    "group_id": "01890000-0000-7000-8000-0000000000a1",
    "template_id": "01890000-0000-7000-8000-0000000000a2",
    "schedule_id": "01890000-0000-7000-8000-0000000000a3",
    "parent_id": "01890000-0000-7000-8000-0000000000a4",
    "request_id": "01890000-0000-7000-8000-0000000000a5",
    "session_id": "01890000-0000-7000-8000-0000000000a6",
    "trace_id": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}


async def columns(raw: Raw) -> list[str]:
    if raw.kind == "sqlite":
        return [name for (name,) in await raw("select name from pragma_table_info('job')")]
    return [
        name
        for (name,) in await raw(
            "select column_name from information_schema.columns where table_schema = 'cortex' and table_name = 'job'"
        )
    ]


async def row(raw: Raw, job_id: JobId) -> dict[str, Any]:
    names = await columns(raw)
    [found] = await raw(f"select {', '.join(f'{name}' for name in names)} from cortex.job where id = '{job_id}'")
    return dict(zip(names, found, strict=True))


async def full_job(scene: Scene, raw: Raw, outcome: Failed, policy: RetryPolicy) -> JobId:
    """A job that failed, with something in every field that can be carried."""
    job_id = await scene.submit(
        queue="special",
        priority=7,
        max_retries=5,
        retry_policy=RetryPolicy("chain", 5, Backoff(jitter=False)),
        timeout_seconds=12.5,
        deadline_seconds=3600.0,
        serial_key="one at a time",
        tags=("red", "blue"),
        created_by="ada",
        job_key="mine",
        delay_seconds=0,
        payload='{"n":1}',
    )
    for name, value in UNSET.items():
        if value is not None:
            async with triggers_off(raw):
                await raw(f"update cortex.job set {name} = '{value}' where id = '{job_id}'")
    await raw(f"update cortex.job set cancel_with_parent = {'true' if raw.kind == 'postgres' else 1} where id = '{job_id}'")
    [claimed] = await scene.claim(await scene.worker(), queues=["special"])
    first = snapshot(claimed, '{"step":1}')
    await scene.store.checkpoints.save([first])
    await scene.store.checkpoints.save([snapshot(claimed, '{"step":2}', first)])
    await scene.finish(claimed, outcome, policy)
    return job_id


async def succeed(scene: Scene, raw: Raw, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    policy = RetryPolicy("chain", 5, Backoff(jitter=False))
    job_id, successor = await full_job(scene, raw, BOOM if kind == "chain" else FATAL, policy), JobId(new_id())
    match kind:
        case "chain":
            successor = (await scene.job(job_id)).retried_as or successor
        case "resume":
            assert await scene.store.jobs.resume(job_id, successor, "grace")
        case "retry":
            assert await scene.store.jobs.retry(job_id, successor, "grace")
        case _:
            assert await scene.store.jobs.fork(job_id, successor, BornWith(new_id(), '{"forked":true}'), None)
    return await row(raw, job_id), await row(raw, successor)


async def test_every_column_is_carried_or_left_on_purpose(scene: Scene, raw: Raw) -> None:
    assert set(await columns(raw)) == set(CARRIED) | LEFT | BY_RULE
    assert not set(CARRIED) & LEFT


@pytest.mark.parametrize("kind", KINDS)
async def test_a_successor_has_the_fields_that_its_kind_carries(scene: Scene, raw: Raw, kind: str) -> None:
    job, successor = await succeed(scene, raw, kind)

    empty = {name for name in CARRIED if job[name] in (None, "")}
    assert not empty, "every carried field must hold something, or this test shows nothing"
    wrong = {name for name, kinds in CARRIED.items() if (successor[name] == job[name]) != (kind in kinds)}
    assert not wrong


@pytest.mark.parametrize("kind", KINDS)
async def test_a_successor_starts_a_life_of_its_own(scene: Scene, raw: Raw, kind: str) -> None:
    job, successor = await succeed(scene, raw, kind)

    assert successor["status"] == "PENDING"
    assert successor["retry_of"] == (job["id"] if kind in LINKED else None)
    assert (successor["attempt"], successor["crash_count"], successor["cost_cents"]) == (0, 0, 0)
    assert successor["retry_count"] == (1 if kind == "chain" else 0)
    assert successor["job_key"] is None
    assert successor["cause"] == ("retry" if kind == "chain" else kind)
    assert (successor["run_at"] is not None) == (kind == "chain")


@pytest.mark.parametrize("kind", KINDS)
async def test_effects_are_those_of_the_first_job_and_only_a_fork_has_its_own(scene: Scene, raw: Raw, kind: str) -> None:
    job, successor = await succeed(scene, raw, kind)

    assert successor["effect_root"] == (job["id"] if kind in LINKED else None)
    if kind in LINKED:
        second, third = JobId(str(successor["id"])), JobId(new_id())
        await scene.store.jobs.cancel(second, None, None)
        await scene.store.jobs.resume(second, third, None)
        assert (await row(raw, third))["effect_root"] == job["id"]


@pytest.mark.parametrize("status", [JobStatus.CANCELLED, JobStatus.COMPLETED])
async def test_a_retry_of_work_that_did_not_fail_wants_its_effects_once_more(scene: Scene, raw: Raw, status: JobStatus) -> None:
    job_id, again = await scene.in_state(status, raw), JobId(new_id())
    await scene.store.jobs.retry(job_id, again, None)

    assert (await row(raw, again))["effect_root"] is None


@pytest.mark.parametrize("passed", [False, True])
@pytest.mark.parametrize("kind", ["resume", "retry", "fork"])
async def test_a_deadline_that_is_an_instant_holds_unless_it_has_passed(scene: Scene, kind: str, passed: bool) -> None:
    at = after(scene.clock.now(), 60)
    claimed, again = await scene.running(deadline_at=at), JobId(new_id())
    await scene.finish(claimed, FATAL)
    await scene.clock.advance(seconds=61 if passed else 1)
    match kind:
        case "resume":
            await scene.store.jobs.resume(claimed.job_id, again, None)
        case "retry":
            await scene.store.jobs.retry(claimed.job_id, again, None)
        case _:
            await scene.store.jobs.fork(claimed.job_id, again, BornWith(new_id(), "{}"), None)

    assert (await scene.job(again)).deadline_at == (None if passed else as_datetime(at))


async def test_whoever_forks_a_job_has_submitted_the_fork(scene: Scene, raw: Raw) -> None:
    job_id, fork = await scene.submit(created_by="ada"), JobId(new_id())
    await scene.store.jobs.fork(job_id, fork, BornWith(new_id(), "{}"), "grace")

    assert (await scene.job(fork)).created_by == "grace"


async def test_a_child_is_resumed_for_the_job_that_continues_its_parent(scene: Scene, raw: Raw) -> None:
    child, parent, again = await scene.submit(), await scene.submit(), JobId(new_id())
    await scene.store.jobs.cancel(child, None, None)

    assert await scene.store.jobs.resume(child, again, None, parent)
    assert (await scene.job(again)).parent_id == parent


async def test_a_child_that_has_ended_is_not_adopted(scene: Scene) -> None:
    live, ended, parent = await scene.submit(), await scene.submit(), await scene.submit()
    await scene.store.jobs.cancel(ended, None, None)
    for child in (live, ended):
        await scene.store.jobs.adopt(child, parent)

    assert (await scene.job(live)).parent_id == parent
    assert (await scene.job(ended)).parent_id is None


# -- who stands behind it ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_whoever_had_it_run_again_stands_behind_the_successor_too(scene: Scene, raw: Raw, kind: str) -> None:
    _, made = await succeed(scene, raw, kind)
    successor = await scene.job(JobId(str(made["id"])))

    assert successor.submitters == (["grace"] if kind in ("resume", "retry") else [])


async def test_whoever_submitted_a_job_stands_behind_its_fork(scene: Scene, raw: Raw) -> None:
    job_id, fork = await scene.submit(created_by="ada", submitters=("ben",)), JobId(new_id())
    assert await scene.store.jobs.fork(job_id, fork, BornWith(new_id(), "{}"), "grace")

    forked = await scene.job(fork)
    assert (forked.created_by, sorted(forked.submitters)) == ("grace", ["ada", "ben", "grace"])
