"""What only SQLite has: INSERT OR REPLACE, clients without foreign keys, and statements that must bring their own time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.jobs.states import JobStatus
from tests.contract.support import Raw, Refused, Scene, into

pytestmark = pytest.mark.anyio

PYTHON = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
try:
    for row in connection.execute(sys.argv[2]):
        print(*row, sep="|")
except sqlite3.Error as error:
    sys.exit(str(error))
"""


@pytest.fixture(params=["sqlite"])
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/test.db"


@pytest.fixture(params=["python", "sqlite3"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Any other program, in a process of its own: Python's library, and the command line."""
    if request.param == "python":
        return [sys.executable, "-c", PYTHON, str(tmp_path / "test.db")]
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("The sqlite3 program is not installed.")
    return [program, str(tmp_path / "test.db")]


def ask(client: list[str], sql: str) -> str:
    done = subprocess.run([*client, sql.replace("cortex.", "")], check=False, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise Refused(done.stderr)
    return done.stdout.strip()


async def test_a_raw_transition_without_a_time_is_refused_with_advice(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()
    with pytest.raises(Refused, match=r"Set updated_at too \(microseconds since 1970, UTC\)"):
        await raw(f"update cortex.job set status = 'CANCELLED', run_id = null, worker_id = null where id = '{claimed.job_id}'")

    assert await scene.status(claimed.job_id) is JobStatus.RUNNING


async def test_a_raw_end_without_finished_at_is_refused(scene: Scene, raw: Raw) -> None:
    job_id = await scene.submit()
    with pytest.raises(Refused, match="finished_at_exactly_when_terminal"):
        await raw(f"update cortex.job set status = 'CANCELLED', updated_at = {raw.now} + 1 where id = '{job_id}'")


FORGERIES = {
    "job_history": """
        insert or replace into job_history (job_id, revision, new_status, cause, created_at)
        select job_id, revision, new_status, 'forged', created_at from job_history""",
    "audit_log": """
        replace into audit_log (seq, at, action, object_type, object_id)
        select seq, at, 'FORGED', object_type, object_id from audit_log""",
    "job_run": """
        insert or replace into job_run (id, job_id, attempt, tenant_id, queue, job_type, params_snapshot, started_at)
        select id, job_id, 99, tenant_id, queue, job_type, '[]', started_at from job_run""",
}


@pytest.mark.parametrize("table", FORGERIES)
async def test_nothing_permanent_can_be_replaced(scene: Scene, raw: Raw, table: str) -> None:
    """REPLACE deletes without asking the delete triggers."""
    await scene.running()
    await scene.store.audit.record([AuditEntry("DONE", "job", "1", actor="ada")])
    before = await raw(f"select * from {table}")

    with pytest.raises(Refused):
        await raw(FORGERIES[table])
    assert await raw(f"select * from {table}") == before


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.RUNNING])
async def test_a_job_cannot_be_replaced_by_a_fresh_one(scene: Scene, raw: Raw, status: JobStatus) -> None:
    """It would leave a terminal state, and change its payload, through the back door."""
    job_id = await scene.in_state(status, raw)
    with pytest.raises(Refused):
        await raw(
            "insert or replace into job (id, agent_id, job_type, position, payload, created_at, queued_at, updated_at) "
            f"select id, agent_id, job_type, position, '[]', created_at, queued_at, updated_at from job where id = '{job_id}'"
        )

    job = await scene.job(job_id)
    assert (job.status, job.payload) == (status, {})


async def test_any_client_meets_the_same_refusals(scene: Scene, raw: Raw, client: list[str]) -> None:
    completed = await scene.in_state(JobStatus.COMPLETED, raw)
    with pytest.raises(Refused, match="cannot go from COMPLETED to RUNNING"):
        ask(client, f"update job set {into(JobStatus.RUNNING, raw)} where id = '{completed}'")
    with pytest.raises(Refused, match="payload of a job never changes"):
        ask(client, "update job set payload = '[]'")
    with pytest.raises(Refused, match="go only with their whole job"):
        ask(client, "delete from job_history")
    with pytest.raises(Refused, match="closed run never changes"):
        ask(client, "update job_run set error = 'x'")
    with pytest.raises(Refused, match="born PENDING"):
        ask(
            client,
            "insert into job (id, agent_id, job_type, position, status, created_at, queued_at, updated_at) "
            f"values ('{new_id()}', '{await scene.agent()}', 'echo', 1, 'FAILED', 0, 0, 0)",
        )


async def test_any_client_can_move_a_job_and_its_work_goes_on(scene: Scene, raw: Raw, client: list[str]) -> None:
    waiting = await scene.in_state(JobStatus.WAITING_FOR_APPROVAL, raw)
    ask(client, f"update job set {into(JobStatus.FAILED, raw)} where id = '{waiting}'")

    assert await scene.status(waiting) is JobStatus.FAILED
    assert (await scene.store.jobs.history(waiting))[-1].cause == "sql"


async def test_any_client_can_read_what_there_is(scene: Scene, client: list[str]) -> None:
    job_id = await scene.submit(payload='{"to":"ada"}')

    assert ask(client, "select id, status, payload ->> 'to' from job") == f"{job_id}|PENDING|ada"


async def test_any_client_that_deletes_a_job_leaves_nothing_behind(scene: Scene, client: list[str]) -> None:
    """Foreign keys are off in every client that does not switch them on."""
    job_id = await scene.submit()
    ask(client, f"delete from job where id = '{job_id}'")

    assert ask(client, "select count(*) from job_history") == "0"
    assert ask(client, "select count(*) from queue_entry") == "0"
    other = await scene.submit()
    assert [one.job_id for one in await scene.claim(await scene.worker(), 1)] == [other]
