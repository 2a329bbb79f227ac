"""`ctx.log`: lines that go to the program's log and are stored with the run, so that people can follow it from elsewhere."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import structlog

from cortex_plane.core.jobs import Claimed, JobId, RunId
from cortex_plane.core.redaction import redacted, redacted_text
from cortex_plane.runtime.reporter import Reporter

current_run: ContextVar[Claimed | None] = ContextVar("current_run", default=None)
"""The run in which this task or thread is. Setting it is all that a run pays for its lines to be told apart."""


def add_run(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """A processor of structlog: every line that is written in a run says in which, whoever writes it."""
    claimed = current_run.get()
    if claimed is not None:
        event.setdefault("job_id", claimed.job_id)
        event.setdefault("run_id", claimed.run_id)
        event.setdefault("tenant_id", claimed.tenant_id)
        event.setdefault("agent", claimed.job_type)
    return event


class RunLog:
    __slots__ = ("_job_id", "_log", "_reporter", "_run_id")

    def __init__(self, job_id: JobId, run_id: RunId, agent: str, reporter: Reporter | None) -> None:
        self._job_id, self._run_id, self._reporter = job_id, run_id, reporter
        self._log = structlog.get_logger().bind(job_id=job_id, run_id=run_id, agent=agent)

    def debug(self, message: str, **data: Any) -> None:
        """In the program's log only."""
        self._log.debug(message, **data)

    def info(self, message: str, **data: Any) -> None:
        self._write("info", message, data)

    def warning(self, message: str, **data: Any) -> None:
        self._write("warning", message, data)

    def error(self, message: str, **data: Any) -> None:
        self._write("error", message, data)

    def _write(self, level: str, message: str, data: dict[str, Any]) -> None:
        getattr(self._log, level)(message, **data)
        if self._reporter is not None:
            told = {"level": level, "message": redacted_text(str(message))}
            self._reporter.tell(self._job_id, self._run_id, "log", {**told, "data": redacted(data)} if data else told)
