"""The plane for code that is not async: the same operations, run in an event loop of its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import HistoryEntry, Job, JobId, JobSummary, Run

if TYPE_CHECKING:
    from cortex_plane.jobs.changes import CancelMode
    from cortex_plane.jobs.fields import Submission, SubmitOptions
    from cortex_plane.jobs.states import JobStatus
    from cortex_plane.plane import Plane


Result = TypeVar("Result")


class SyncJobHandle:
    def __init__(self, sync: SyncPlane, job_id: JobId) -> None:
        self._sync = sync
        self.id = job_id

    def __repr__(self) -> str:
        return f"SyncJobHandle({self.id!r})"

    def status(self) -> JobStatus:
        return self.job().status

    def result(self, timeout: float | None = None) -> Any:
        return self._sync.run(self._sync.plane.result(self.id, timeout))

    def cancel(self, reason: str | None = None, *, mode: CancelMode = "cleanup") -> None:
        self._sync.run(self._sync.plane.cancel(self.id, reason=reason, mode=mode))

    def settle(self, call: str, *, applied: bool, result: Any = None) -> SyncJobHandle:
        return self._sync.settle(self.id, call, applied=applied, result=result)

    def resume(self) -> SyncJobHandle:
        return self._sync.resume(self.id)

    def retry(self) -> SyncJobHandle:
        return self._sync.retry(self.id)

    def job(self) -> Job:
        return self._sync.get(self.id)

    def history(self) -> list[HistoryEntry]:
        return self._sync.run(self._sync.plane.history(self.id))

    def runs(self) -> list[Run]:
        return self._sync.run(self._sync.plane.runs(self.id))


class SyncPlane:
    """`plane.sync.submit("release-bot", {"version": "1.4.0"})`, from any thread."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, agent: str, payload: dict[str, Any] | None = None, **options: Unpack[SubmitOptions]) -> SyncJobHandle:
        return SyncJobHandle(self, self.run(self.plane.submit(agent, payload, **options)).id)

    def submit_many(self, submissions: Iterable[Submission], *, connection: Any = None) -> list[SyncJobHandle]:
        handles = self.run(self.plane.submit_many(submissions, connection=connection))
        return [SyncJobHandle(self, handle.id) for handle in handles]

    def job(self, job_id: str) -> SyncJobHandle:
        return SyncJobHandle(self, JobId(job_id))

    def get(self, id_or_prefix: str) -> Job:
        return self.run(self.plane.get(id_or_prefix))

    def list(self, **filters: Any) -> list[JobSummary]:
        return self.run(self.plane.list(**filters))

    def cancel(self, id_or_prefix: str, *, reason: str | None = None, mode: CancelMode = "cleanup") -> None:
        self.run(self.plane.cancel(id_or_prefix, reason=reason, mode=mode))

    def settle(self, id_or_prefix: str, call: str, *, applied: bool, result: Any = None) -> SyncJobHandle:
        return SyncJobHandle(self, self.run(self.plane.settle(id_or_prefix, call, applied=applied, result=result)).id)

    def resume(self, id_or_prefix: str) -> SyncJobHandle:
        return SyncJobHandle(self, self.run(self.plane.resume(id_or_prefix)).id)

    def retry(self, id_or_prefix: str) -> SyncJobHandle:
        return SyncJobHandle(self, self.run(self.plane.retry(id_or_prefix)).id)

    def release_job(self, id_or_prefix: str, *, reason: str | None = None) -> None:
        self.run(self.plane.release_job(id_or_prefix, reason=reason))

    def close(self) -> None:
        with self._lock:
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(self.plane.close(), self._loop).result()
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Any other operation of the plane. Raises InvalidInput inside a running event loop, which it would block."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise InvalidInput(
                "plane.sync was used inside a running event loop, which would stand still meanwhile. "
                "Use the async form there: await plane.submit(...) instead of plane.sync.submit(...).",
                field="sync",
            )
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="cortex-sync", daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
