"""What a handler is given: who it is, for what job, and whether it should stop."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import structlog

from cortex_plane.core.budgets import check_cents
from cortex_plane.core.jobs import Claimed, JobId, RunId

_adding = threading.Lock()  # One for all: a handler's threads add up rarely, and a job must not pay for a lock of its own.


@dataclass(slots=True)
class Context:
    """The first argument of every handler."""

    job_id: JobId
    run_id: RunId
    agent: str
    queue: str
    attempt: int
    cancelled: bool = False
    """True once nothing that this run does will be kept: it was cancelled, timed out or superseded.

    An async handler is interrupted anyway; a plain function should look here now and then and return."""

    stopping: bool = False
    """True once the worker is shutting down. What is not finished soon is interrupted, and goes on elsewhere."""

    details: dict[str, Any] | None = None
    """What the run record will hold besides the outcome: the log of a command, its artifacts."""

    cost_cents: int = 0
    """What this run has cost so far."""

    @classmethod
    def of(cls, claimed: Claimed) -> Context:
        return cls(claimed.job_id, claimed.run_id, claimed.job_type, claimed.queue, claimed.attempt)

    def cost(self, cents: int) -> None:
        """Adds whole cents to what this run has cost. They are stored with its outcome, whatever that is: completed, failed,
        to be retried or interrupted. A run that another has superseded, or whose worker dies, leaves no trace of them.

        What a resumed handler says again counts again: call it where the money is spent, inside the step."""
        with _adding:
            self.cost_cents = check_cents(self.cost_cents + check_cents(cents))

    @property
    def log(self) -> Any:
        """A structured logger that knows the job."""
        return structlog.get_logger().bind(job_id=self.job_id, run_id=self.run_id, agent=self.agent)
