"""SQLite answers from its indexes on large tables; what triggers do is counted too."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.queue_store import _claim
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json import dumps
from cortex_plane.storage.sqlite.connection import connect
from cortex_plane.storage.statements import statement
from cortex_plane.storage.transactions import Ask, run
from cortex_plane.testing import ManualClock
from cortex_plane.wiring import open_store
from tests.contract.support import BOOM, Scene, ended, run_ids
from tests.storage.plans import FINISHED, LARGE, claim_values, populate, questions

pytestmark = pytest.mark.anyio

# Steps of a full scan: materialised batches of ten are scanned, the large tables never.
FEW = 300

FILL = """
insert into job (id, agent_id, job_type, position, created_at, queued_at, updated_at)
select printf('018a0000-0000-7000-8000-%012x', value), (select id from agent), 'echo', value * 100, :now, :now, :now
from json_each(:numbers);
update job set status = 'RUNNING', run_id = id, worker_id = printf('w%d', position), attempt = 1, revision = 2,
  cause = 'claim', updated_at = :now;
update job set status = case (position / 100) % 5 when 3 then 'FAILED' when 4 then 'CANCELLED' else 'COMPLETED' end,
  error_message = case (position / 100) % 5 when 3 then 'boom' end,
  run_id = null, worker_id = null, worker_job_id = null, revision = 3, cause = 'test', finished_at = :now, updated_at = :now;
insert into job_blob (job_id, sha256, content, created_at) select id, printf('%064d', 0), '{}', :now from job;
insert into job_event (job_id, run_id, at, kind, data) select id, id, :now, 'log', '{}' from job;
insert into graph_checkpoint (thread_id, namespace, checkpoint_id, run_id, kind, content, channels, metadata, created_at)
select id, '', '1', id, 'null', x'', '{"poem":"1"}', '{}', :now from job;
insert into graph_value (thread_id, namespace, channel, version, kind, content) select id, '', 'poem', '1', 'null', x'' from job;
insert into graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
select id, '', '1', 'task', 0, 'poem', '', 'null', x'' from job;
"""

# Closed requests, one for each job: what the database would refuse of anybody else.
FILL_APPROVALS = """
drop trigger approval_no_loose_insert;
insert into approval_request
  (id, job_id, run_id, tenant_id, gate_key, token_hash, requested_by_agent_id, designated, approvers, escalate_to,
   action_summary, digest, decision, used_at, outcome, closed_at, ttl_seconds, expires_at, created_at)
select id, id, id, tenant_id, 'approval', printf('%064d', position), agent_id, position % 2, '{}', '{}', 'Deploy',
  printf('%064d', 0), 'approved', :now, 'approved', :now, 60, :now, :now
from job;
"""


class Large:
    def __init__(self, connection: apsw.Connection, facts: dict[str, Any], clock: ManualClock) -> None:
        self.connection, self.facts, self.clock = connection, facts, clock

    def plan(self, name: str, values: dict[str, Any]) -> list[str]:
        sql = f"explain query plan {statement(name, 'sqlite').sql}"
        return [str(row[3]) for row in self.connection.execute(sql, {**values, "now": self.clock.now()}).fetchall()]

    def scanned(self, name: str, values: dict[str, Any]) -> tuple[int, int]:
        return self.measured(statement(name, "sqlite").sql, {**values, "now": self.clock.now()})

    def measured(self, sql: str, values: dict[str, Any]) -> tuple[int, int]:
        """Rows that came back, and steps of full scans that it took, triggers included. Undone afterwards."""
        steps: list[int] = []

        def profile(event: Any) -> None:
            steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"])

        self.connection.execute("savepoint test")
        self.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile, id="test")
        rows = self.connection.execute(sql, values).fetchall()
        self.connection.trace_v2(0, None, id="test")
        self.connection.execute("rollback to test")
        self.connection.execute("release test")
        return len(rows), max(steps)


@pytest.fixture(scope="module")
async def large(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[Large]:
    clock = ManualClock()
    path: Path = tmp_path_factory.mktemp("plans") / "test.db"
    store: Any = open_store(f"sqlite:///{path}", clock)
    await store.open()
    scene = Scene(store, clock)
    await scene.agent()
    numbers = json.dumps(list(range(1, FINISHED + 1)))
    await store.database.session.run(lambda writer: writer.execute(FILL, {"now": clock.now(), "numbers": numbers}).fetchall())
    await store.database.session.run(lambda writer: writer.execute(FILL_APPROVALS, {"now": clock.now()}).fetchall())
    facts = await populate(scene)
    await store.close()
    connection = connect(path, for_writing=True)
    yield Large(connection, facts, clock)
    connection.close()


async def test_every_question_is_answered_from_an_index(large: Large) -> None:
    wrong = [
        f"{question}: {line}"
        for question, (name, values) in questions(large.facts, "sqlite").items()
        for line in large.plan(name, values)
        if is_scan_of_large(line)
    ]

    assert not wrong, "\n".join(wrong)


def is_scan_of_large(line: str) -> bool:
    """A line such as `SCAN j`, or `SCAN job`; a walk along an index, for the order, is judged by its steps below."""
    found = re.fullmatch(r"SCAN (\w+)", line)
    return found is not None and found[1] in {*LARGE, "j", "r", "h", "e", "o", "g", "v", "t"}


@pytest.mark.parametrize(
    "question",
    [
        "list",
        "list recent",
        "list failures",
        "head of queue",
        "list of agent",
        "list waiting",
        "list running",
        "list failed",
        "first ready",
        "first ready of queue",
        "ready beyond in queue",
        "next due",
        "entry before",
        "entry after",
        "first entry",
        "last entry",
        "lost runs",
        "open runs",
        "places of runs",
        "list open runs",
        "list open approvals",
        "list approvals of job",
        "list approvals for user",
        "next approval",
        "voter",
    ],
)
async def test_a_question_steps_over_no_rows_that_it_does_not_answer_with(large: Large, question: str) -> None:
    name, values = questions(large.facts, "sqlite")[question]
    rows, steps = large.scanned(name, values)

    assert rows
    assert steps <= FEW


@pytest.mark.parametrize("question", ["first ready", "first ready of queue", "entry before", "first entry", "last entry"])
async def test_the_order_of_a_queue_is_read_from_an_index_and_not_sorted(large: Large, question: str) -> None:
    name, values = questions(large.facts, "sqlite")[question]
    lines = [line for line in large.plan(name, values) if "queue_entry" in line]

    assert lines
    assert all("in_order" in line for line in lines), lines


async def test_the_counting_notices_a_scan(large: Large) -> None:
    assert is_scan_of_large("SCAN job")
    assert is_scan_of_large("SCAN j")
    assert not is_scan_of_large("SCAN job USING INDEX sqlite_autoindex_job_1")
    assert not is_scan_of_large("SEARCH j USING INDEX sqlite_autoindex_job_1 (id=?)")
    assert large.measured("select * from job where priority = 7", {}) >= (0, FINISHED)


def finish_batch(large: Large) -> str:
    first, second, third, *_ = large.facts["running"]
    changes = [ended(first, Done("1")), ended(second, BOOM), ended(third, Done("1"))]
    return dumps(
        [
            {
                "job_id": change.job_id,
                "run_id": change.run_id,
                "status": change.status,
                "output": None,
                "error": change.error,
                "error_message": change.error_message,
                "wait_reason": change.wait_reason,
                "delay_seconds": change.delay_seconds,
                "retry_count": change.retry_count,
                "crash_count": change.crash_count,
                "cause": change.cause,
                "note": change.note,
            }
            for change in changes
        ]
    )


LANES = """
update queue_entry
set queue = 'queue-' || ((position / 100) % {queues}), job_type = 'agent-' || ((position / 700) % {agents})
where state = 'ready' and serial_key is null
"""


@pytest.mark.parametrize(("queues", "agents"), [(1, 50), (50, 1), (30, 30)])
async def test_a_claim_costs_what_it_takes_and_not_queues_times_agents(large: Large, queues: int, agents: int) -> None:
    one, many = (steps_of_claim(large, *lanes) for lanes in ((1, 1), (queues, agents)))

    assert many <= 1.5 * one


def steps_of_claim(large: Large, queues: int, agents: int) -> int:
    """Of the virtual machine, for a claim of 20; undone afterwards."""
    steps: list[int] = []
    values = {
        "worker_id": large.facts["worker"],
        "actor": "test",
        "queues": dumps([f"queue-{number}" for number in range(queues)]),
        "job_types": dumps([f"agent-{number}" for number in range(agents)]),
        "run_ids": dumps(list(run_ids(20))),
        "free": 20,
    }

    def execute(asked: Ask) -> list[dict[str, Any]]:
        cursor = large.connection.execute(statement(asked.name, "sqlite").sql, {**asked.values, "now": large.clock.now()})
        return [dict(zip([name for name, *_ in cursor.get_description()], row, strict=True)) for row in cursor]

    large.connection.execute("savepoint test")
    large.connection.execute(LANES.format(queues=queues, agents=agents))
    large.connection.trace_v2(
        apsw.SQLITE_TRACE_PROFILE, lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]), id="test"
    )
    claimed = run(lambda: _claim(values), execute)
    large.connection.trace_v2(0, None, id="test")
    large.connection.execute("rollback to test")
    large.connection.execute("release test")
    assert len(claimed) == 20
    return sum(steps)


THREAD = "018a0000-0000-7000-8000-000000000003"

WRITES: dict[str, Callable[[Large], dict[str, Any]]] = {
    "queue/claim": lambda large: claim_values(large.facts, "sqlite"),
    "runs/finish": lambda large: {"actor": "test", "batch": finish_batch(large)},
    "jobs/cancel": lambda large: {
        "id": large.facts["running"][3].job_id,
        "cause": "cancel",
        "actor": None,
        "note": None,
        "revision": None,
        "kill": False,
    },
    "jobs/request_cancel": lambda large: {
        "ids": json.dumps([large.facts["running"][4].job_id]),
        "request": '{"kind": "cancel"}',
        "actor": None,
        "note": None,
        "revision": None,
    },
    "jobs/set_cleanup": lambda large: {
        "id": large.facts["running"][4].job_id,
        "run_id": large.facts["running"][4].run_id,
        "seconds": 1.5,
    },
    "jobs/end_overdue": lambda large: {"limit": 100},
    "queue/promote_due": lambda large: {"limit": 100},
    "checkpoints/save_batch": lambda large: {
        "documents": b"{}",
        "batch": json.dumps([[large.facts["running"][4].job_id, large.facts["running"][4].run_id, new_id(), None, 7, 1, 2, 0]]),
    },
    "checkpoints/count_saved": lambda large: {
        "batch": json.dumps([[large.facts["running"][4].job_id, large.facts["running"][4].run_id, new_id()]]),
    },
    "checkpoints/add_blobs": lambda large: {
        "contents": b"{}",
        "batch": json.dumps([[large.facts["running"][4].job_id, new_id(), "a" * 64, 1, 2]]),
    },
    **{
        f"graphs/{verb}": lambda large: {"thread_id": THREAD}
        for verb in ("delete_checkpoints", "delete_values", "delete_writes", "prune", "sweep_values", "sweep_writes")
    },
    "graphs/delete_run": lambda large: {"run_id": THREAD},
    "graphs/hold": lambda large: {"job_id": large.facts["running"][4].job_id, "run_id": large.facts["running"][4].run_id},
    "jobs/cancel_many": lambda large: {
        "ids": json.dumps([large.facts["running"][4].job_id]),
        "cause": "cancel",
        "actor": None,
        "note": None,
        "kill": False,
    },
    "jobs/add_successor": lambda large: {
        "kind": "retry",
        "job_id": THREAD,
        "new_id": new_id(),
        "actor": None,
        "created_by": None,
        "parent_id": None,
        "checkpoint_id": None,
        "checkpoint": None,
    },
    "approvals/resume_job": lambda large: {
        "job_id": large.facts["request"].job_id,
        "token_hash": large.facts["request"].token_hash,
        "run_id": new_id(),
        "cause": "approve",
        "actor": "ann",
        "note": json.dumps({"approval_request_id": large.facts["request"].id, "decision": "approved", "outcome": "approved"}),
    },
    "approvals/remind": lambda large: {"id": large.facts["request"].id, "asked_for": True},
    "approvals/count_votes": lambda large: {"id": large.facts["request"].id},
    "workers/drain": lambda large: {"id": large.facts["worker"], "actor": None, "reason": None},
    "workers/close_lost": lambda large: {},
    "workers/declare_lost": lambda large: {"id": large.facts["worker"]},
}


@pytest.mark.parametrize("name", WRITES)
async def test_a_change_and_its_triggers_step_over_no_large_table(large: Large, name: str) -> None:
    values = WRITES[name](large)
    if name == "queue/promote_due":
        large.connection.execute("update queue_entry set due_at = 0 where state = 'later'")
    rows, steps = large.scanned(name, values)

    assert rows or name.startswith(("workers/", "checkpoints/", "graphs/", "jobs/request_cancel", "jobs/end_overdue"))
    assert steps <= FEW


async def test_a_submission_with_a_serial_key_reads_only_its_key(large: Large) -> None:
    job = {
        "id": new_id(),
        "tenant_id": "00000000-0000-7000-8000-000000000000",
        "agent_id": large.facts["agent"],
        "job_type": "echo",
        "queue": "default",
        "payload": {},
        "priority": 0,
        "max_retries": 3,
        "serial_key": "key-0",
        "tags": [],
    }
    _, steps = large.scanned("jobs/submit", {"jobs": dumps([job])})

    assert steps <= FEW


async def test_the_tables_are_as_large_as_they_should_be(large: Large) -> None:
    counts = {table: large.connection.execute(f"select count(*) from {table}").get for table in LARGE}

    assert counts["job"] > FINISHED
    assert counts["job_run"] >= FINISHED
    assert counts["job_history"] >= 3 * FINISHED
    ended_well = large.connection.execute("select count(*) from job where status = ?", (JobStatus.COMPLETED,)).get
    assert ended_well >= FINISHED * 3 / 5
