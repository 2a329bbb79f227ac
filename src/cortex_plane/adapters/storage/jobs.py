"""Jobs, as people and programs see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.cancelling import cancel_children
from cortex_plane.adapters.storage.database import Database
from cortex_plane.adapters.storage.keys import submit_keyed
from cortex_plane.adapters.storage.submissions import submission, submit
from cortex_plane.core.jobs import AgentId, HistoryEntry, Job, JobId, JobSummary, NewJob, Run
from cortex_plane.core.states import JobStatus
from cortex_plane.ports.json_text import dumps

NO_DIGITS = "00000000-0000-0000-0000-000000000000"
NEWER_THAN_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"

# Where jobs in a state are found without reading all the others.
LIST_FOR_STATUS = {
    JobStatus.PENDING: "jobs/list_waiting",
    JobStatus.RETRY: "jobs/list_waiting",
    JobStatus.RUNNING: "jobs/list_running",
    JobStatus.FAILED: "jobs/list_failed",
    JobStatus.CANCELLED: "jobs/list_cancelled",
}


class SqlJobs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def submit(self, jobs: Sequence[NewJob], connection: Any = None) -> list[JobId]:
        if any(job.job_key is not None for job in jobs):
            return await self._database.transact(lambda: submit_keyed(jobs), connection)
        if any(job.checkpoint is not None for job in jobs):
            await self._database.transact(lambda: submit(jobs), connection)
            return [job.id for job in jobs]
        batch = submission(jobs)
        if connection is None:
            await self._database.write("jobs/submit", jobs=batch)
        else:
            await self._database.join(connection, "jobs/submit", jobs=batch)
        return [job.id for job in jobs]

    async def get(self, job_id: JobId) -> Job | None:
        found = await self._database.read("jobs/get", id=job_id)
        return rows.job(found[0]) if found else None

    async def status(self, job_id: JobId) -> tuple[JobStatus, Any, Any, str | None] | None:
        for row in await self._database.read("jobs/status", id=job_id):
            output, error = rows.json_or_none(row["output"]), rows.json_or_none(row["error"])
            return JobStatus(row["status"]), output, error, row["error_message"]
        return None

    async def find(self, prefix: str) -> list[JobId]:
        low, high = prefix + NO_DIGITS[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        return [JobId(str(row["id"])) for row in await self._database.read("jobs/find", low=low, high=high)]

    async def cancel(self, job_id: JobId, actor: str | None, reason: str | None, revision: int | None = None) -> bool:
        note = dumps({"reason": reason}) if reason else None
        values = {"id": job_id, "cause": "cancel", "actor": actor, "note": note, "revision": revision}
        return bool(await self._database.write("jobs/cancel", **values))

    async def cancel_children(self, parent_id: JobId, actor: str | None, reason: str | None) -> int:
        return await self._database.transact(lambda: cancel_children(parent_id, actor, reason))

    async def retry(self, job_id: JobId, new_id: JobId, actor: str | None) -> bool:
        return bool(await self._database.write("jobs/retry", id=job_id, new_id=new_id, actor=actor))

    async def chain_end(self, job_id: JobId) -> tuple[JobId, JobStatus] | None:
        for row in await self._database.read("jobs/chain_end", id=job_id):
            return JobId(str(row["id"])), JobStatus(row["status"])
        return None

    async def chain(self, job_id: JobId) -> list[JobSummary]:
        return [rows.job_summary(row) for row in await self._database.read("jobs/chain", id=job_id)]

    async def history(self, job_id: JobId) -> list[HistoryEntry]:
        return [rows.history_entry(row) for row in await self._database.read("jobs/history", id=job_id)]

    async def runs(self, job_id: JobId) -> list[Run]:
        return [rows.run(row) for row in await self._database.read("jobs/runs", id=job_id)]

    async def list(
        self,
        *,
        status: JobStatus | None = None,
        agent_id: AgentId | None = None,
        queue: str | None = None,
        before: JobId | None = None,
        limit: int = 50,
    ) -> list[JobSummary]:
        common = {"before": before or NEWER_THAN_ALL, "queue": queue, "limit": limit}
        if name := LIST_FOR_STATUS.get(status) if status else None:
            found = await self._database.read(name, status=status, agent_id=agent_id, **common)
        elif status is JobStatus.COMPLETED and agent_id is None:
            found = await self._database.read("jobs/list_completed", **common)
        elif agent_id:
            found = await self._database.read("jobs/list_of_agent", status=status, agent_id=agent_id, **common)
        else:
            found = await self._database.read("jobs/list", status=status, **common)
        return [rows.job_summary(row) for row in found]
