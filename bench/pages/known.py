"""What addresses are filled with: ids of things that are in the database."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter

from bench.million.sqlite import aged
from bench.pages.originals import PERSON, start_under_grant
from cortex_plane import Plane
from cortex_plane.cursors import cursor_for
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT, JobId
from cortex_plane.jobs.search import JobFilter
from cortex_plane.jobs.states import JobStatus
from cortex_plane.people.sessions import start_session

# By the route, which thing a parameter of its path is.
NAMES = {
    "/api/v1/agents/": "mail",
    "/api/v1/tenants/": "north",
    "/api/v1/templates/": "letter",
    "/api/v1/billing/accounts/": "default",
    "/api/v1/users/": PERSON,
    "/api/v1/user-groups/": "office",
    "/queues/": "default",
}


@dataclass(frozen=True, slots=True)
class Known:
    jobs: dict[JobStatus, str]
    """One in each state, of the tenant whose jobs are shown where none is named."""
    ids: dict[str, str]
    """By the name of the parameter."""
    run_under_grant: str
    deep_job: str
    """In the middle of all."""
    audit_seq: int
    middle: str
    late: str
    cursors: dict[str, tuple[str, str | int]]
    """By route: a place deep in its list."""

    def in_path(self, path: str) -> dict[str, str]:
        wanted = [name for _, name, _, _ in Formatter().parse(path) if name]
        return {name: self._value(path, name) for name in wanted}

    def _value(self, path: str, name: str) -> str:
        if path.startswith("/api/v1/graph-runs/"):
            return self.run_under_grant
        if path.startswith("/api/v1/approval-ids/"):
            return self.ids["approval_id"]
        if name in self.ids:
            return self.ids[name]
        for prefix, value in NAMES.items():
            if path.startswith(prefix):
                return value
        raise LookupError(f"{path} has a parameter {name!r} that this benchmark does not know. Give it a value here.")

    def cursor(self, kind: str, place: str | int) -> str:
        return cursor_for(kind, place)


async def get_to_know(plane: Plane, copies: int) -> Known:
    store = plane.store
    deep_job = await _job_of_long_ago(plane, copies // 2)
    jobs = {status: await _job_in(plane, status) for status in JobStatus}
    [group, *_] = await plane.groups.list(limit=500)
    deep_group = (await plane.groups.list(limit=500))[-1]
    [approval, *_] = await plane.approvals.list(limit=1)
    deep_approval = (await plane.approvals.list(limit=200))[-1]
    running = await plane.jobs.get(jobs[JobStatus.RUNNING])
    deep_run = (await store.runs.page(tenant_id=running.tenant_id, limit=500)).runs[-1]
    dead = (await plane.webhooks.dead_letters(limit=200))[-1]
    middle, newest = (await plane.jobs.get(deep_job)).created_at, (await plane.jobs.get(jobs[JobStatus.COMPLETED])).created_at
    [entry] = await plane.audit.list(until=middle, limit=1)
    assert running.run_id is not None
    return Known(
        jobs={status: str(job_id) for status, job_id in jobs.items()},
        ids={
            "group_id": group.id,
            "endpoint_id": (await plane.webhooks.list())[0].id,
            "approval_id": approval.id,
            "schedule_id": (await plane.schedules.get("schedule-0")).id,
            "grant_id": (await plane.grants.list(limit=1))[0].id,
            "run_id": running.run_id,
            "kind": "job",
            "beginning": deep_job,
            "session_id": (await start_session(store, new_id, PERSON)).id,
        },
        run_under_grant=await start_under_grant(plane, 0),
        deep_job=deep_job,
        audit_seq=entry.seq,
        middle=middle.isoformat(),
        late=(middle + (newest - middle) / 2).isoformat(),
        cursors={
            "/api/v1/groups": ("group", deep_group.id),
            "/api/v1/approvals": ("approvals", deep_approval.id),
            "/api/v1/inbox": ("approvals", deep_approval.id),
            "/api/v1/runs": ("run", f"{deep_run.job_id} {deep_run.id}"),
            "/api/v1/dead-letters": ("dead", dead.job_id),
            "/api/v1/schedules": ("schedule", "schedule-150"),
        },
    )


async def _job_in(plane: Plane, status: JobStatus) -> JobId:
    store = plane.store
    [tenant] = [one.id for one in await store.tenants.list() if one.name == DEFAULT_TENANT]
    wanted, before = JobFilter(tenant_id=tenant, status=status), None
    while True:
        page = await store.job_search.page(wanted, before=before, limit=1)
        if page.jobs:
            return page.jobs[0].summary.id
        assert page.next_before is not None, f"The default tenant has no job that is {status}."
        before = page.next_before


async def _job_of_long_ago(plane: Plane, seconds: int) -> str:
    newest = (await plane.jobs.list(limit=1))[0].id
    page = await plane.store.job_search.page(JobFilter(), before=JobId(aged(newest, seconds) or ""), limit=1)
    return page.jobs[0].summary.id
