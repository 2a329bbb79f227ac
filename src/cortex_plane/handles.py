"""What a submission gives back: a job to ask about, wait for, and cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cortex_plane.core.jobs import HistoryEntry, Job, JobId, Run
from cortex_plane.core.states import JobStatus

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

Result = TypeVar("Result")


class JobHandle(Generic[Result]):
    def __init__(self, plane: Plane, job_id: JobId) -> None:
        self._plane = plane
        self.id = job_id

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    async def status(self) -> JobStatus:
        return (await self.job()).status

    async def result(self, timeout: float | None = None) -> Result:
        """What the handler returned. Raises JobFailed, JobCancelled, or ResultNotReady when `timeout` seconds pass."""
        result: Any = await self._plane.result(self.id, timeout)
        return result  # type: ignore[no-any-return]

    async def cancel(self, reason: str | None = None) -> None:
        await self._plane.cancel(self.id, reason=reason)

    async def job(self) -> Job:
        return await self._plane.get(self.id)

    async def history(self) -> list[HistoryEntry]:
        return await self._plane.history(self.id)

    async def runs(self) -> list[Run]:
        return await self._plane.runs(self.id)
