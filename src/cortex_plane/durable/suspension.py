"""The ways in which a handler is left before it has ended. None is an Exception, so `except Exception` lets them pass."""

from __future__ import annotations

from dataclasses import dataclass

from cortex_plane.approvals.model import NewApproval
from cortex_plane.clock import Instant
from cortex_plane.jobs.model import JobId


class Suspension(BaseException):
    """The handler waits for something; its worker slot is free until then, and it is called again."""


@dataclass
class SleepUntil(Suspension):
    at: Instant
    seconds: float | None = None
    """How long that is by the store's clock, if it was asked."""


@dataclass
class AwaitChild(Suspension):
    child_id: JobId


@dataclass
class AwaitApproval(Suspension):
    request: NewApproval


@dataclass
class RunStopped(BaseException):
    """This run must not go on: a checkpoint could not be written, or what is recorded does not fit the code."""

    cause: Exception
