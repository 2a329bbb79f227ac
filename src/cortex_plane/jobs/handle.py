"""What a submission gives back: a job to ask about, wait for, and cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cortex_plane.durable.values import JSON, ValueType

if TYPE_CHECKING:
    from cortex_plane.jobs.changes import CancelMode
    from cortex_plane.jobs.model import HistoryEntry, Job, JobId, Run
    from cortex_plane.jobs.service import JobService
    from cortex_plane.jobs.states import JobStatus


Result = TypeVar("Result")


class JobHandle(Generic[Result]):
    def __init__(self, jobs: JobService, job_id: JobId, returns: ValueType = JSON) -> None:
        self._jobs = jobs
        self._returns = returns
        self.id = job_id

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    async def status(self) -> JobStatus:
        return (await self.job()).status

    async def result(self, timeout: float | None = None) -> Result:
        """What the handler returned: of an agent's own handle, as its annotation says, otherwise as JSON. Raises JobFailed,
        JobCancelled, or ResultNotReady when `timeout` seconds pass."""
        output: Any = await self._jobs.result(self.id, timeout)
        result: Result = self._returns.decode(output, f"The result of job {self.id}")
        return result

    async def cancel(self, reason: str | None = None, *, mode: CancelMode = "cleanup") -> None:
        """Ends the job. Inside an open `ctx.cleanup()` its handler cleans up first; mode="kill" ends it at once."""
        await self._jobs.cancel(self.id, reason=reason, mode=mode)

    async def resume(self) -> JobHandle[Result]:
        """Goes on with this job, which failed or was cancelled, from what is recorded of it. See `JobService.resume`."""
        return await self._jobs.resume(self.id)

    async def settle(self, call: str, *, applied: bool, result: Any = None) -> JobHandle[Result]:
        """Says what became of an uncertain tool call, and goes on. See `JobService.settle`."""
        return await self._jobs.settle(self.id, call, applied=applied, result=result)

    async def retry(self) -> JobHandle[Result]:
        """Runs this job, which has ended, again from the beginning. See `JobService.retry`."""
        return await self._jobs.retry(self.id)

    async def job(self) -> Job:
        return await self._jobs.get(self.id)

    async def history(self) -> list[HistoryEntry]:
        return await self._jobs.history(self.id)

    async def runs(self) -> list[Run]:
        return await self._jobs.runs(self.id)
