"""`ctx.log`: lines that go to the program's log and are stored with the run, so that people can follow it from elsewhere."""

from __future__ import annotations

from typing import Any

import structlog

from cortex_plane.core.jobs import JobId, RunId
from cortex_plane.runtime.reporter import Reporter


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
            told = {"level": level, "message": str(message)}
            self._reporter.tell(self._job_id, self._run_id, "log", {**told, "data": data} if data else told)
