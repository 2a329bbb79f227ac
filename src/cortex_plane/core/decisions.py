"""How a decision was taken: the answer that every door gives, in its own words, to whoever approved or denied."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cortex_plane.core.approvals import ApprovalId, ApprovalOutcome, Verdict
from cortex_plane.core.jobs import JobId


@dataclass(frozen=True, slots=True)
class Decided:
    """This decision closed the request, and its job has moved."""

    request_id: ApprovalId
    job_id: JobId
    decision: Verdict
    outcome: ApprovalOutcome
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Recorded:
    """The vote counts; more are needed."""

    votes: int
    quorum: int


@dataclass(frozen=True, slots=True)
class AlreadyDecided:
    decision: Verdict
    by: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Expired:
    """Nobody decided in time."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The job was cancelled, so there is nothing to decide any more."""

    at: datetime | None


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """`why` is for the person who tried."""

    why: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """No such request, or no such token: nobody is told which."""


Answer = Decided | Recorded | AlreadyDecided | Expired | Withdrawn | NotAllowed | Unknown
