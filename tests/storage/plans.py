"""Large tables for the tests that read query plans: finished jobs by the thousand, and a few that live."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cortex_plane.approvals.decisions import mint
from cortex_plane.approvals.model import ApprovalId, Approvers, NewApproval
from cortex_plane.approvals.rules import new_approval
from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Claimed, JobId
from cortex_plane.jobs.outcomes import Done, Transition
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json_schema import check_schema
from cortex_plane.people.model import User, UserId
from cortex_plane.storage.rows import NEWER_THAN_ALL
from cortex_plane.storage.statements import Dialect, statement
from tests.contract.support import BOOM, Scene, run_ids

EARLIER_THAN_ALL = "00000000-0000-0000-0000-000000000000"
FINISHED = 20_000
WAITING = 3_000
LARGE = (
    "job",
    "job_run",
    "job_history",
    "queue_entry",
    "job_blob",
    "job_event",
    "approval_request",
    "graph_checkpoint",
    "graph_value",
    "graph_write",
)


async def populate(scene: Scene) -> dict[str, Any]:
    """Some of each state on top of the finished ones; returns what statements can be asked about."""
    worker, lost = await scene.worker(), await scene.worker()
    for _ in range(20):
        await scene.submit()
    running = await scene.claim(worker, 10)
    vanished = await scene.claim(lost, 10)
    await scene.store.workers.give_up(lost)
    await scene.finish(running[0], BOOM)
    await scene.finish(running[1], Done("1"))
    waiting = await scene.new_job()
    crowd = await scene.store.jobs.submit([replace(waiting, id=JobId(new_id())) for _ in range(WAITING)])
    for key in range(10):
        await scene.submit(serial_key=f"key-{key // 2}")
    for seconds in range(10):
        await scene.submit(delay_seconds=60.0 + seconds)
    parent = await scene.submit(queue="other")
    for _ in range(3):
        await scene.submit(parent_id=parent, cancel_with_parent=True)
    await scene.store.jobs.cancel(parent, None, None)
    users, requests = await _ask(scene, running[-2:])
    return {
        "agent": await scene.agent(),
        "worker": worker,
        "running": running[2:-2],
        "lost": vanished,
        "waiting": crowd[WAITING // 2],
        "parent": parent,
        "user": users[0].id,
        "request": requests[0],
    }


async def _ask(scene: Scene, claimed: Sequence[Claimed]) -> tuple[list[User], list[NewApproval]]:
    """Open requests on top of the closed ones."""
    users = [User(UserId(new_id()), name) for name in ("ann", "ben")]
    for user in users:
        await scene.store.people.add_user(user, AuditEntry("USER_ADDED", "user", user.id))
    requests = []
    for one in claimed:
        request = new_approval(
            request_id=ApprovalId(new_id()),
            job_id=one.job_id,
            run_id=one.run_id,
            agent_id=await scene.agent(),
            tenant_id=one.tenant_id,
            gate_key="approval",
            token_hash=mint(bytes.fromhex(new_id().replace("-", "") * 2)).hash,
            summary="Deploy",
            approvers=Approvers(tuple(user.id for user in users)),
            remind_after_seconds=60,
            check_schema=check_schema,
        )
        waiting = Transition(one.job_id, one.run_id, JobStatus.WAITING_FOR_APPROVAL, "ask")
        assert await scene.store.approvals.open(waiting, request, "test")
        requests.append(request)
    return users, requests


def questions(facts: dict[str, Any], dialect: Dialect) -> dict[str, tuple[str, dict[str, Any]]]:
    """Every statement that only reads and that somebody waits for, with values as they come."""
    running = facts["running"]
    ids: Any = [one.job_id for one in running]
    runs: Any = [one.run_id for one in running]
    if dialect == "sqlite":
        ids, runs = json.dumps(ids), json.dumps(runs)
    page = {"before": NEWER_THAN_ALL, "queue": None, "limit": 50}
    approvals = {"before": NEWER_THAN_ALL, "limit": 50}
    request = facts["request"]
    request_ids: Any = json.dumps([request.id]) if dialect == "sqlite" else [request.id]
    one, thread = {"id": running[0].job_id}, running[0].job_id
    moment: Any = 0 if dialect == "sqlite" else datetime.fromtimestamp(0, UTC)
    place = {
        "queue": "default",
        "rank": 0,
        "position": 2_150_000,
        "created_at": moment,
        "anchor": one["id"],
        "left_out": one["id"],
    }
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "get": ("jobs/get", one),
        "status": ("jobs/status", one),
        "history": ("jobs/history", one),
        "runs": ("jobs/runs", one),
        "run": ("runs/get", {"job_id": running[0].job_id, "id": running[0].run_id}),
        "list open runs": ("runs/list_open", {"tenant_id": request.tenant_id, "worker_id": None, **approvals}),
        "places of runs": ("runs/places", {"job_id": NEWER_THAN_ALL, "id": NEWER_THAN_ALL, "limit": 50}),
        "pick runs": (
            "runs/pick",
            {
                "before_job_id": NEWER_THAN_ALL,
                "before_id": NEWER_THAN_ALL,
                "last_job_id": running[0].job_id,
                "last_id": running[0].run_id,
                "tenant_id": request.tenant_id,
                "status": None,
                "worker_id": facts["worker"],
                "limit": 50,
            },
        ),
        "list runs by prefix": (
            "runs/find",
            {
                "low": EARLIER_THAN_ALL,
                "high": "00000000-ffff-ffff-ffff-ffffffffffff",
                "before": NEWER_THAN_ALL,
                "looked_at": 100,
                "tenant_id": None,
            },
        ),
        "order": ("order/look", one),
        "entry before": ("order/before", {**place, "limit": 50}),
        "entry after": ("order/after", {**place, "limit": 50}),
        "first entry": ("order/first", {"queue": "default", "left_out": one["id"]}),
        "last entry": ("order/last", {"queue": "default", "left_out": one["id"]}),
        "figures of approvals": ("gauges/approvals", {}),
        "figures of slots": ("gauges/slots", {"late_seconds": 60.0}),
        "figures of the plane": ("gauges/plane", {}),
        "figures of runs": ("queue/running", {}),
        "trace": ("runs/trace", one),
        "pick up": ("gauges/pick_up", one),
        "chain end": ("jobs/chain_end", one),
        "find": (
            "jobs/find",
            {"low": EARLIER_THAN_ALL, "high": "00000000-ffff-ffff-ffff-ffffffffffff", "looked_at": 100, "tenant_id": None},
        ),
        "list": ("jobs/list", {"status": None, **page}),
        "list completed": ("jobs/list_completed", {**page}),
        "list of queue": ("jobs/list_of_queue", {**page, "status": None, "queue": "default"}),
        "list asking": ("jobs/list_asking", {**page, "agent_id": None}),
        "list of agent": ("jobs/list_of_agent", {"status": None, "agent_id": facts["agent"], **page}),
        "list waiting": ("jobs/list_waiting", {"status": JobStatus.PENDING, "agent_id": None, **page}),
        "list running": ("jobs/list_running", {"status": JobStatus.RUNNING, "agent_id": None, **page}),
        "list failed": ("jobs/list_failed", {"agent_id": None, **page}),
        "list cancelled of agent": ("jobs/list_cancelled", {"agent_id": facts["agent"], **page}),
        "search all": ("search/all", {"before": NEWER_THAN_ALL, "limit": 50}),
        "search of agent": ("search/of_agent", {"agent_id": facts["agent"], "before": NEWER_THAN_ALL, "limit": 50}),
        "search unsuccessful": ("search/unsuccessful", {"before": NEWER_THAN_ALL, "limit": 50}),
        "next due": ("queue/next_due", {}),
        "lost runs": ("runs/of_lost_workers", {"limit": 100}),
        "open runs": ("runs/open", {"worker_id": facts["worker"], "run_ids": runs}),
        "closed runs": ("runs/closed", {"job_ids": ids, "run_ids": runs}),
        "load": ("checkpoints/load", {"job_id": running[0].job_id, "after_segment": 0}),
        "blobs": ("checkpoints/blobs", {"job_id": running[0].job_id, "digests": json.dumps([]) if dialect == "sqlite" else []}),
        "list live": ("checkpoints/live", {"after": running[0].job_id, "limit": 50}),
        "approval": ("approvals/get", {"ids": request_ids}),
        "approvals expired": ("approvals/expired", {"limit": 50, "passed_over": request_ids}),
        "approvals due": ("approvals/due", {"limit": 50, "passed_over": request_ids}),
        "next approval": ("approvals/next_due", {}),
        "approval of token": ("approvals/by_token", {"token_hash": "0" * 64}),
        "voter": ("approvals/voter", {"user_id": facts["user"], "job_id": request.job_id}),
        "list open approvals": ("approvals/list_open", {"tenant_id": None, **approvals}),
        "list approvals": ("approvals/list", {**approvals}),
        "list approvals of job": ("approvals/list_of_job", {"job_id": request.job_id, "open_only": True, **approvals}),
        "list approvals of tenant": ("approvals/list_of_tenant", {"tenant_id": request.tenant_id, **approvals}),
        "list approvals for user": ("approvals/list_for_user", {"user_id": facts["user"], "tenant_id": None, **approvals}),
        "graph": ("graphs/latest", {"thread_id": thread, "namespace": ""}),
        "graph checkpoint": ("graphs/get", {"thread_id": thread, "namespace": "", "checkpoint_id": "1"}),
        "graph page": (
            "graphs/list",
            {
                "thread_id": thread,
                "namespace": None,
                "checkpoint_id": None,
                "before_id": "z",
                "before_namespace": "",
                "filter": "{}",
                "limit": 50,
            },
        ),
        "graph values": ("graphs/values", {"thread_id": thread, "wanted": '[["","poem","1"]]'}),
        "graph writes": ("graphs/writes", {"thread_id": thread, "wanted": '[["","1"]]'}),
        "graph threads": ("graphs/threads", {"after": thread, "limit": 50}),
        "slot": ("slots/get", one),
        "open slots": ("slots/open", {"schedule_id": one["id"]}),
        "slots": ("slots/list", {"schedule_id": one["id"], "limit": 50}),
        "slots before": ("slots/page", {"schedule_id": one["id"], "before": 0, "limit": 50}),
        "last slot": ("slots/last_begun", {"schedule_id": one["id"]}),
        "stuck slots": ("slots/stuck", {"after": one["id"], "limit": 50}),
        "schedules page": ("schedules/page", {"tenant_id": one["id"], "after": "", "limit": 50}),
        "grants page": ("grants/page", {"tenant_id": one["id"], "before": NEWER_THAN_ALL, "limit": 50}),
        "schedules of grant": ("schedules/of_grant", {"grant_id": one["id"]}),
        "jobs under grant": ("grants/live_jobs", {"grant_id": one["id"]}),
        "called under grant": ("grants/called", {"ids": json.dumps([str(one["id"])])}),
        "members to cancel": ("groups/live_members", one),
        "next deadline": ("jobs/next_deadline", {}),
        "deadlines that passed in a cleanup scope": ("jobs/overdue_in_cleanup", {"limit": 100}),
        "parent to cancel for": ("jobs/live_parent", {"parent_id": one["id"]}),
        "children to cancel": ("jobs/live_children", {"parent_id": one["id"]}),
        "broken schedules": ("schedules/broken", {"zone_data": "x", "after": one["id"], "limit": 50}),
        "request": ("requests/by_run", {"run_id": one["id"]}),
        "request by key": ("requests/by_key", {"tenant_id": one["id"], "idempotency_key": "x"}),
        "receipts": ("requests/receipts", {"run_id": one["id"]}),
        "list recent": ("stats/recent", {"since": EARLIER_THAN_ALL, "limit": 30}),
        "list failures": ("stats/failures", {"since": EARLIER_THAN_ALL, "limit": 30}),
        "last events": ("stats/last_events", {"job_id": running[0].job_id, "limit": 50}),
        "head of queue": ("stats/entries", {"queue": "default", "limit": 50}),
        "place in queue": ("queue/place", {"id": facts["waiting"]}),
        "figures of queues": ("gauges/waiting", {}),
        "depths": ("queue/depths", {}),
        "jobs of a tenant that wait": ("tenants/count_waiting", {"tenant_id": request.tenant_id}),
        "search of queue": ("search/of_queue", {"queue": "default", "before": NEWER_THAN_ALL, "limit": 50}),
        "search of tenant": ("search/of_tenant", {"tenant_id": request.tenant_id, "before": NEWER_THAN_ALL, "limit": 50}),
        "search of tag": ("search/of_tag", {"tag": "x", "before": NEWER_THAN_ALL, "limit": 50}),
        "search asking": ("search/asking", {"before": NEWER_THAN_ALL, "limit": 50}),
        "search created": ("search/created", {"before": NEWER_THAN_ALL}),
        "runs of workers": ("stats/runs_of_workers", {}),
        "groups page": ("groups/list", {"tenant_id": one["id"], "before": NEWER_THAN_ALL, "limit": 1_000}),
        "marks": ("events/marks", {"ids": ids}),
        "dead letters": ("webhooks/dead", {"ids": ids, "tenant_id": None, "limit": 50}),
        "events": ("events/list", {"job_id": running[0].job_id, "after": 0, "limit": 50}),
    }
    if dialect == "sqlite":
        looked = {"job_types": '["echo"]', "look": 300, "limit": 20}
        asked |= {
            "first ready": ("queue/first_ready", {"queues": '["default","other"]', **looked}),
            "first ready of queue": ("queue/first_ready_of_queue", {"queue": "default", **looked}),
            "ready beyond": ("queue/ready_beyond", {"look": 300}),
            "ready beyond in queue": ("queue/ready_beyond_in_queue", {"queue": "default", "look": 300}),
        }
    for name, values in asked.values():
        missing = set(statement(name, dialect).parameters) - set(values) - {"now"}
        assert not missing, f"{name} needs {missing}"
    return asked


# Which index answers which question.
INDEXES = {
    "get": "job_pkey",
    "status": "job_pkey",
    "history": "job_history_pkey",
    "runs": "job_run_pkey",
    "run": "job_run_pkey",
    "places of runs": "job_run_pkey",
    "pick runs": "job_run_pkey",
    "list runs by prefix": "job_run_pkey",
    "order": "job_pkey",
    "entry before": "queue_entry_in_order",
    "entry after": "queue_entry_in_order",
    "first entry": "queue_entry_in_order",
    "last entry": "queue_entry_in_order",
    "pick up": "job_pkey",
    "find": "job_pkey",
    "list": "job_pkey",
    "list completed": "job_pkey",
    "list of agent": "job_of_agent",
    "list of queue": "job_of_queue",
    "list failed": "job_history_ended",
    "list cancelled of agent": "job_history_ended",
    "search all": "job_pkey",
    "search of agent": "job_of_agent",
    "search unsuccessful": "job_history_ended",
    "search of queue": "job_of_queue",
    "search of tenant": "job_of_tenant",
    "search of tag": "job_tag_pkey",
    "search asking": "idx_approval_request_open_of_job",
    "search created": "job_pkey",
    "head of queue": "queue_entry_in_order",
    "place in queue": "queue_entry_in_order",
    "figures of queues": "queue_entry_in_order",
    "next due": "queue_entry_later",
    "lost runs": "open_run_of_worker",
    "open runs": "open_run_of_worker",
    "closed runs": "job_run_pkey",
    "load": "job_pkey",
    "blobs": "job_blob_pkey",
    "list live": "job_pkey",
    "events": "job_event_of_job",
    "groups page": "job_of_group",
    "marks": "job_pkey",
    "dead letters": "job_pkey",
    "approval": "approval_request_pkey",
    "approvals expired": "idx_approval_request_expired",
    "approvals due": "idx_approval_request_remind",
    "next approval": "idx_approval_request_expired",
    "voter": "job_pkey",
    "list approvals": "approval_request_pkey",
    "list approvals of tenant": "idx_approval_request_tenant",
    "list approvals for user": "idx_approval_request_open_to_all",
    "graph": "graph_checkpoint_pkey",
    "graph checkpoint": "graph_checkpoint_pkey",
    "graph page": "graph_checkpoint_pkey",
    "graph values": "graph_value_pkey",
    "graph writes": "graph_write_pkey",
    "graph threads": "graph_checkpoint_pkey",
    "schedules page": "schedule_name",
    "grants page": "execution_grant_of_tenant",
    "request": "execution_request_run_id_key",
    "request by key": "execution_request_tenant_id_idempotency_key_key",
}


def claim_values(facts: dict[str, Any], dialect: Dialect, limit: int = 10) -> dict[str, Any]:
    values: dict[str, Any] = {
        "worker_id": facts["worker"],
        "actor": "test",
        "queues": ["default"],
        "job_types": ["echo"],
        "run_ids": list(run_ids(limit)),
        "free": limit,
    }
    if dialect == "sqlite":
        values |= {name: json.dumps(values[name]) for name in ("queues", "job_types", "run_ids")}
    return values
