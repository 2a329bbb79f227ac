"""What a handler is given: who it is, for what job, and whether it should stop."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import structlog

from cortex_plane.core.jobs import Claimed, JobId, RunId


@dataclass(slots=True)
class Context:
    """The first argument of every handler."""

    job_id: JobId
    run_id: RunId
    agent: str
    queue: str
    attempt: int
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _cancel: threading.Event = field(default_factory=threading.Event, repr=False)

    @classmethod
    def of(cls, claimed: Claimed) -> Context:
        return cls(claimed.job_id, claimed.run_id, claimed.job_type, claimed.queue, claimed.attempt)

    @property
    def cancelled(self) -> bool:
        """True once nothing that this run does will be kept: it was cancelled, timed out or superseded.

        An async handler is interrupted anyway; a plain function should look here now and then and return."""
        return self._cancel.is_set()

    @property
    def stopping(self) -> bool:
        """True once the worker is shutting down. What is not finished soon is interrupted, and goes on elsewhere."""
        return self._stop.is_set()

    @property
    def log(self) -> Any:
        """A structured logger that knows the job."""
        return structlog.get_logger().bind(job_id=self.job_id, run_id=self.run_id, agent=self.agent)
