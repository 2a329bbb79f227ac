"""What the database refuses to any client, by raw SQL, and how it completes what it accepts."""

from __future__ import annotations

import pytest

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import CortexError
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.jobs.outcomes import Done, Failed
from cortex_plane.jobs.states import TERMINAL, TRANSITIONS, JobStatus, RunStatus
from tests.contract.support import Raw, Refused, Scene, into

pytestmark = pytest.mark.anyio

# Each of these is set exactly in these states: column, a value for it, states.
EXACTLY_IN = [
    ("run_id", "'01890000-0000-7000-8000-000000000001'", {JobStatus.RUNNING}),
    ("next_retry_at", "{now}", {JobStatus.RETRY}),
    ("wait_reason", "'sleep'", {JobStatus.RETRY}),
    ("approval_token", "'digest'", {JobStatus.WAITING_FOR_APPROVAL}),
    ("approval_expires_at", "{now}", {JobStatus.WAITING_FOR_APPROVAL}),
    ("error_message", "'why'", {JobStatus.FAILED}),
    ("finished_at", "{now}", TERMINAL),
]

OUT_OF_BOUNDS = [
    "retry_count = 4",
    "retry_count = -1",
    "max_retries = 101",
    "priority = 1000001",
    "queue = ''",
    "attempt = -1",
    "cost_cents = -1",
]
FORGERIES = [
    "update cortex.job_history set cause = 'forged'",
    "update cortex.job_history set metadata = null where revision = 1",
    "delete from cortex.job_history",
    "delete from cortex.job_history where revision = 2",
    "update cortex.audit_log set actor = 'nobody'",
    "delete from cortex.audit_log",
    "delete from cortex.job_run",
    "delete from cortex.job_run where status = 'RUNNING'",
]
CHANGES_OF_A_RUN = [
    "status = 'RUNNING', finished_at = null",
    "status = 'COMPLETED'",
    "error = 'other'",
    "exit_code = 1",
    "artifacts = '[1]'",
    "finished_at = started_at",
    "log_path = 'x'",
    "params_snapshot = '{}'",
    "worker_id = null",
    "attempt = 7",
]


async def insert(raw: Raw, scene: Scene, status: str, more: str = "", values: str = "") -> str:
    """A raw insert that is right in everything but what the test asks for."""
    job_id, agent_id = new_id(), await scene.agent()
    columns = "id, agent_id, job_type, position, status, created_at, queued_at, updated_at"
    row = f"'{job_id}', '{agent_id}', 'echo', 100, '{status}', {raw.now}, {raw.now}, {raw.now}"
    await raw(f"insert into cortex.job ({columns}{more}) values ({row}{values})")
    return job_id


# -- the state machine ---------------------------------------------------------------------------


@pytest.mark.parametrize("before", JobStatus)
async def test_only_listed_transitions_pass_and_a_refusal_names_both_states(scene: Scene, raw: Raw, before: JobStatus) -> None:
    job_id = await scene.in_state(before, raw)
    for after in set(JobStatus) - set(TRANSITIONS[before]) - {before}:
        with pytest.raises(Refused, match=f"cannot go from {before} to {after}"):
            await raw(f"update cortex.job set {into(after, raw)} where id = '{job_id}'")
        with pytest.raises(Refused, match=f"cannot go from {before} to {after}"):
            await raw(f"update cortex.job set {into(after, raw)}, revision = revision + 1 where id = '{job_id}'")

    assert await scene.status(job_id) is before
    # All of them first: one that went on from WAITING_FOR_APPROVAL is the next that a worker takes.
    others = {after: await scene.in_state(before, raw) for after in TRANSITIONS[before]}
    for after, other in others.items():
        await raw(f"update cortex.job set {into(after, raw)} where id = '{other}'")
        assert await scene.status(other) is after


async def test_setting_the_state_that_a_job_has_is_no_transition(scene: Scene, raw: Raw) -> None:
    for status in reversed(JobStatus):
        job_id = await scene.in_state(status, raw)
        before = await scene.store.jobs.history(job_id)
        await raw(f"update cortex.job set status = '{status}' where id = '{job_id}'")

        assert await scene.store.jobs.history(job_id) == before


async def test_a_state_that_does_not_exist_is_refused(scene: Scene, raw: Raw) -> None:
    job_id = await scene.submit()
    for status in ("'QUEUED'", "'pending'", "''", "null"):
        with pytest.raises(Refused):
            await raw(f"update cortex.job set status = {status}, updated_at = {raw.now} where id = '{job_id}'")


async def test_a_job_is_born_pending(scene: Scene, raw: Raw) -> None:
    for status in set(JobStatus) - {JobStatus.PENDING}:
        with pytest.raises(Refused, match=f"born PENDING; inserting one as {status} is refused"):
            await insert(raw, scene, status)

    assert await scene.store.jobs.list() == []


@pytest.mark.parametrize("status", JobStatus)
async def test_each_column_is_set_exactly_in_its_states_and_the_payload_never_changes(
    scene: Scene, raw: Raw, status: JobStatus
) -> None:
    job_id = await scene.in_state(status, raw)
    for column, value, states in EXACTLY_IN:
        wrong = "null" if status in states else value.format(now=raw.now)
        with pytest.raises(Refused):
            await raw(f"update cortex.job set {column} = {wrong} where id = '{job_id}'")
    if status is not JobStatus.RUNNING:
        with pytest.raises(Refused, match="worker_only_when_running"):
            await raw(f"update cortex.job set worker_id = '01890000-0000-7000-8000-000000000001' where id = '{job_id}'")
    with pytest.raises(Refused, match=r"never changes\. Submit a new job"):
        await raw(f"""update cortex.job set payload = '{{"other": 1}}' where id = '{job_id}'""")
    with pytest.raises(Refused):
        await raw(f"update cortex.job set payload = null where id = '{job_id}'")

    assert (await scene.job(job_id)).payload == {}


@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.FAILED])
async def test_the_root_of_a_jobs_effects_never_changes(scene: Scene, raw: Raw, status: JobStatus) -> None:
    failed, retried = await scene.in_state(JobStatus.FAILED, raw), JobId(new_id())
    first = await scene.in_state(status, raw)
    await scene.store.jobs.retry(failed, retried, None)
    for job_id, other in ((first, f"'{new_id()}'"), (retried, f"'{new_id()}'"), (retried, "null")):
        with pytest.raises(Refused, match="effect_root"):
            await raw(f"update cortex.job set effect_root = {other} where id = '{job_id}'")


async def test_a_new_job_has_none_of_them(scene: Scene, raw: Raw) -> None:
    for column, value, _ in EXACTLY_IN:
        with pytest.raises(Refused):
            await insert(raw, scene, "PENDING", f", {column}", f", {value.format(now=raw.now)}")


async def test_numbers_stay_within_their_limits(scene: Scene, raw: Raw) -> None:
    job_id = await scene.submit()
    for change in OUT_OF_BOUNDS:
        with pytest.raises(Refused):
            await raw(f"update cortex.job set {change} where id = '{job_id}'")


# -- history, audit, runs ------------------------------------------------------------------------


async def test_history_audit_and_runs_are_append_only(scene: Scene, raw: Raw) -> None:
    await scene.running()
    await scene.store.audit.record([AuditEntry("DONE", "job", "1", actor="ada")])
    tables = ("job_history", "audit_log", "job_run")
    before = [await raw(f"select * from cortex.{table}") for table in tables]

    for statement in FORGERIES:
        with pytest.raises(Refused, match=r"never changed or deleted|go only with their whole job"):
            await raw(statement)
    assert [await raw(f"select * from cortex.{table}") for table in tables] == before


async def test_a_closed_run_never_changes(scene: Scene, raw: Raw) -> None:
    job_id = await scene.in_state(JobStatus.FAILED, raw)
    before = await raw("select * from cortex.job_run")
    for change in CHANGES_OF_A_RUN:
        with pytest.raises(Refused, match="closed run never changes"):
            await raw(f"update cortex.job_run set {change} where job_id = '{job_id}'")

    assert await raw("select * from cortex.job_run") == before


async def test_an_open_run_is_closed_only_by_its_job(scene: Scene, raw: Raw) -> None:
    """Else the job would be RUNNING without an open run."""
    claimed = await scene.running()
    for status in set(RunStatus) - {RunStatus.RUNNING}:
        with pytest.raises(Refused):
            await raw(f"update cortex.job_run set status = '{status}', finished_at = {raw.now} where id = '{claimed.run_id}'")

    assert await scene.finish(claimed, Done("1"))


async def test_a_run_is_not_inserted_by_hand(scene: Scene, raw: Raw) -> None:
    for status in reversed(JobStatus):
        job_id = await scene.in_state(status, raw)
        with pytest.raises(Refused, match="opens only with its job"):
            await raw(
                "insert into cortex.job_run (id, job_id, attempt, tenant_id, queue, job_type, params_snapshot, started_at) "
                f"select '{new_id()}', id, 9, tenant_id, queue, job_type, payload, updated_at from cortex.job "
                f"where id = '{job_id}'"
            )


async def test_a_run_without_a_job_is_not_inserted(scene: Scene, raw: Raw) -> None:
    with pytest.raises(Refused, match="opens only with its job"):
        await raw(
            "insert into cortex.job_run (id, job_id, attempt, tenant_id, queue, job_type, params_snapshot, started_at) "
            f"values ('{new_id()}', '{new_id()}', 1, '{new_id()}', 'default', 'echo', '{{}}', {raw.now})"
        )


async def test_the_open_run_of_a_job_is_not_replaced(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()
    with pytest.raises(Refused, match="cannot be replaced"):
        await raw(f"update cortex.job set run_id = '{new_id()}' where id = '{claimed.job_id}'")

    assert await scene.finish(claimed, Done("1"))


async def test_a_closed_run_is_not_opened_again_under_its_old_id(scene: Scene, raw: Raw) -> None:
    """A fence that came back would let a zombie through."""
    job_id = await scene.in_state(JobStatus.RETRY, raw)
    [run] = await scene.store.jobs.runs(job_id)
    with pytest.raises(Refused):
        await raw(
            f"update cortex.job set status = 'RUNNING', run_id = '{run.id}', next_retry_at = null, wait_reason = null, "
            f"revision = revision + 1 where id = '{job_id}'"
        )

    assert await scene.status(job_id) is JobStatus.RETRY


# -- what is accepted is completed ---------------------------------------------------------------


@pytest.mark.parametrize("before", [status for status in JobStatus if not status.is_terminal])
async def test_a_raw_transition_has_its_history_its_run_and_its_place(scene: Scene, raw: Raw, before: JobStatus) -> None:
    jobs = {after: await scene.in_state(before, raw) for after in TRANSITIONS[before]}
    for after, job_id in jobs.items():
        lines = len(await scene.store.jobs.history(job_id))
        await raw(f"update cortex.job set {into(after, raw)} where id = '{job_id}'")

        job, history = await scene.job(job_id), await scene.store.jobs.history(job_id)
        assert len(history) == lines + 1
        last = history[-1]
        assert (last.previous_status, last.new_status, last.cause, last.revision) == (before, after, "sql", job.revision)
        assert not (last.actor or "").startswith("worker:"), "raw SQL is not the work of the worker that claimed"
        open_runs = [run.id for run in await scene.store.jobs.runs(job_id) if run.status is RunStatus.RUNNING]
        assert open_runs == ([job.run_id] if after is JobStatus.RUNNING else [])
        entries = await raw(f"select id from cortex.queue_entry where job_id = '{job_id}'")
        goes_on = before is JobStatus.WAITING_FOR_APPROVAL and after is JobStatus.RUNNING
        assert len(entries) == (after is JobStatus.RETRY or goes_on)


async def test_a_raw_insert_has_its_history_and_its_place(scene: Scene, raw: Raw) -> None:
    job_id = await insert(raw, scene, "PENDING")

    [claimed] = await scene.claim(await scene.worker())
    assert claimed.job_id == job_id
    assert (await scene.store.jobs.history(claimed.job_id))[0].cause == "sql"


async def test_a_run_that_raw_sql_closed_was_not_closed_by_its_worker(scene: Scene, raw: Raw) -> None:
    """Else the worker would take a stale write for its own."""
    job_id = await scene.submit()
    worker = await scene.worker()
    [claimed] = await scene.claim(worker)
    await raw(f"update cortex.job set {into(JobStatus.CANCELLED, raw)} where id = '{job_id}'")

    closed = await scene.store.queue.closed_runs([(job_id, claimed.run_id)])
    assert closed[claimed.run_id] != f"worker:{worker}"


async def test_a_raw_transition_does_not_repeat_the_note_of_an_earlier_one(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()
    await scene.finish(claimed, Failed({"message": "boom"}, run={"exit_code": 3}))
    await raw(f"update cortex.job set {into(JobStatus.CANCELLED, raw)} where id = '{claimed.job_id}'")

    assert (await scene.store.jobs.history(claimed.job_id))[-1].metadata is None


async def test_deleting_a_job_takes_its_history_its_runs_and_its_entry_along(scene: Scene, raw: Raw) -> None:
    kept = await scene.in_state(JobStatus.RETRY, raw)
    jobs = [await scene.in_state(status, raw) for status in reversed(JobStatus)]
    await raw(f"delete from cortex.job where id <> '{kept}'")

    for table in ("job_history", "job_run", "queue_entry"):
        assert await raw(f"select distinct cast(job_id as text) from cortex.{table}") == [(kept,)], table
    assert await scene.store.jobs.get(jobs[0]) is None


async def test_the_audit_of_a_deleted_job_stays(scene: Scene, raw: Raw) -> None:
    job_id = await scene.in_state(JobStatus.COMPLETED, raw)
    await scene.store.audit.record([AuditEntry("STALE_WRITE", "job", job_id)])
    await raw(f"delete from cortex.job where id = '{job_id}'")

    actions = [record.entry.action for record in await scene.store.audit.list(job_id)]
    assert actions == ["JOB_COMPLETED", "STALE_WRITE"]


async def test_our_own_errors_say_what_was_refused(scene: Scene) -> None:
    with pytest.raises(CortexError, match="The database refused it"):
        await scene.submit(priority=1_000_001)
