"""`plane.sync`: the synchronous form of the API, run in an event loop in a background thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.handle import JobHandle

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.jobs.changes import CancelMode
    from cortex_plane.jobs.fields import Submission, SubmitOptions
    from cortex_plane.jobs.model import HistoryEntry, Job, Run
    from cortex_plane.jobs.states import JobStatus
    from cortex_plane.plane import Plane


Result = TypeVar("Result")


class SyncJobHandle:
    """The synchronous form of `JobHandle`."""

    def __init__(self, sync: SyncPlane, handle: JobHandle[Any]) -> None:
        self._sync, self._handle = sync, handle
        self.id = handle.id

    def __repr__(self) -> str:
        return f"SyncJobHandle({self.id!r})"

    def status(self) -> JobStatus:
        return self._sync.run(self._handle.status())

    def result(self, timeout: float | None = None) -> Any:
        return self._sync.run(self._handle.result(timeout))

    def cancel(self, reason: str | None = None, *, mode: CancelMode = "cleanup") -> None:
        self._sync.run(self._handle.cancel(reason, mode=mode))

    def settle(self, call: str, *, applied: bool, result: Any = None) -> SyncJobHandle:
        return SyncJobHandle(self._sync, self._sync.run(self._handle.settle(call, applied=applied, result=result)))

    def resume(self) -> SyncJobHandle:
        return SyncJobHandle(self._sync, self._sync.run(self._handle.resume()))

    def retry(self) -> SyncJobHandle:
        return SyncJobHandle(self._sync, self._sync.run(self._handle.retry()))

    def job(self) -> Job:
        return self._sync.run(self._handle.job())

    def history(self) -> list[HistoryEntry]:
        return self._sync.run(self._handle.history())

    def runs(self) -> list[Run]:
        return self._sync.run(self._handle.runs())


class SyncService:
    """The methods of one service, in synchronous form: `plane.sync.queues.pause("mail")`."""

    def __init__(self, sync: SyncPlane, service: object) -> None:
        self._sync, self._service = sync, service

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._service, name)

        def call(*arguments: Any, **options: Any) -> Any:
            answer = method(*arguments, **options)
            value = self._sync.run(answer) if asyncio.iscoroutine(answer) else answer
            return SyncJobHandle(self._sync, value) if isinstance(value, JobHandle) else value

        return call


class SyncPlane:
    """`plane.sync.submit("release-bot", {"version": "1.4.0"})`, from any thread.

    Every service has a synchronous form: `plane.sync.jobs.list()`, `plane.sync.approvals.approve(id)`. Event streams are only
    available with async."""

    def __init__(self, plane: Plane | Client) -> None:
        self.plane = plane
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, agent: str, payload: dict[str, Any] | None = None, **options: Unpack[SubmitOptions]) -> SyncJobHandle:
        return SyncJobHandle(self, self.run(self.plane.submit(agent, payload, **options)))

    def submit_many(self, submissions: Iterable[Submission], *, connection: Any = None) -> list[SyncJobHandle]:
        handles = self.run(self.plane.jobs.submit_many(submissions, connection=connection))
        return [SyncJobHandle(self, handle) for handle in handles]

    def job(self, job_id: str) -> SyncJobHandle:
        return SyncJobHandle(self, self.plane.job(job_id))

    def __getattr__(self, name: str) -> SyncService:
        return SyncService(self, getattr(self.plane, name))

    def close(self) -> None:
        with self._lock:
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(self.plane.close(), self._loop).result()
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine of the plane and returns its result. Raises InvalidInput in a running event loop, which it would
        block."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise InvalidInput(
                "plane.sync was used inside a running event loop, which it would block. "
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
