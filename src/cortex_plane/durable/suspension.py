"""Exceptions that unwind a handler before it has ended. They derive from BaseException, so `except Exception` does not catch
them."""

from __future__ import annotations

from dataclasses import dataclass

from cortex_plane.approvals.model import NewApproval
from cortex_plane.clock import Instant
from cortex_plane.jobs.model import JobId


class Suspension(BaseException):
    """The handler waits. Its worker slot is free until it is called again."""


@dataclass
class SleepUntil(Suspension):
    at: Instant
    seconds: float | None = None
    """The remaining time by the store's clock, if it was queried."""


@dataclass
class AwaitChild(Suspension):
    child_id: JobId


@dataclass
class AwaitApproval(Suspension):
    request: NewApproval


@dataclass
class RunStopped(BaseException):
    """The run must not continue: a checkpoint could not be written, or the record does not fit the code."""

    cause: Exception
