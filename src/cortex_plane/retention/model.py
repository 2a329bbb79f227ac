"""How long finished jobs and other records are kept. Of several rules for jobs, the most specific holds.

Without a rule jobs, slots, requests of the execution service and the audit log are kept for ever. Workers that have ended and
reservations that are over are of use to nobody for long; they go after a month unless a rule says otherwise. A group goes with
its last member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, NewType

from cortex_plane.errors import InvalidInput, did_you_mean
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.jobs.states import TERMINAL, JobStatus

RuleId = NewType("RuleId", str)

LONGEST_KEEP = timedelta(days=36_500)
A_MONTH = timedelta(days=30)


class RecordKind(StrEnum):
    """What a rule is about, by the name of its table."""

    JOB = "job"
    WORKER = "worker"
    RESERVATION = "direct_reservation"
    SLOT = "schedule_run"
    REQUEST = "execution_request"
    AUDIT = "audit_log"


KEPT_WITHOUT_RULE: dict[RecordKind, timedelta | None] = {
    RecordKind.WORKER: A_MONTH,
    RecordKind.RESERVATION: A_MONTH,
    RecordKind.SLOT: None,
    RecordKind.REQUEST: None,
    RecordKind.AUDIT: None,
}


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """What is None holds for all tenants, all agents, all that ended."""

    id: RuleId
    keep_seconds: int
    tenant_id: TenantId | None = None
    job_type: str | None = None
    status: JobStatus | None = None
    tenant: str | None = None
    created_by: str | None = None
    created_at: datetime | None = None
    record: RecordKind = RecordKind.JOB

    def covers(self, job: Candidate) -> bool:
        return (
            self.tenant_id in (None, job.tenant_id)
            and self.job_type in (None, job.job_type)
            and self.status in (None, job.status)
        )

    @property
    def rank(self) -> tuple[int, bool, bool, bool]:
        """The more is said, the more specific; of two that say as much, a tenant counts before an agent before a status."""
        said = (self.tenant_id is not None, self.job_type is not None, self.status is not None)
        return sum(said), *said


class Candidate(NamedTuple):
    """A job, with what decides whether it is kept. `looked_at` is the database's time."""

    id: JobId
    tenant_id: TenantId
    job_type: str
    status: JobStatus
    created_at: datetime
    finished_at: datetime | None
    looked_at: datetime


class ExpiredJob(NamedTuple):
    """A job that may go, and the rule that says so."""

    job: Candidate
    rule: RetentionRule


class HeldBack(NamedTuple):
    """What stands in the way of deleting a job."""

    job_id: JobId
    needed: bool
    """Something that goes on may still ask for it: a later job of its retry chain, a child, a parent, its group."""
    predecessor: JobId | None
    """The job that it retries, if that is still there."""


def kept_seconds(rules: Sequence[RetentionRule], record: RecordKind) -> int | None:
    """How long records other than jobs are kept after their end; None: for ever."""
    for rule in rules:
        if rule.record == record:
            return rule.keep_seconds
    kept = KEPT_WITHOUT_RULE[record]
    return None if kept is None else int(kept.total_seconds())


def governing(rules: Sequence[RetentionRule], job: Candidate) -> RetentionRule | None:
    return max((rule for rule in rules if rule.covers(job)), key=lambda rule: rule.rank, default=None)


def expired_jobs(rules: Sequence[RetentionRule], jobs: Sequence[Candidate]) -> list[ExpiredJob]:
    governed = [(job, governing(rules, job)) for job in jobs]
    return [ExpiredJob(job, rule) for job, rule in governed if rule is not None and _is_over(job, rule)]


def _is_over(job: Candidate, rule: RetentionRule) -> bool:
    return job.finished_at is not None and job.finished_at + timedelta(seconds=rule.keep_seconds) <= job.looked_at


def too_young(rules: Sequence[RetentionRule], jobs: Sequence[Candidate]) -> bool:
    """Whether no rule can concern any of these yet, nor any job that was submitted after them."""
    shortest = timedelta(seconds=min(rule.keep_seconds for rule in rules))
    return all(job.created_at + shortest > job.looked_at for job in jobs)


def deletable(held: Sequence[HeldBack]) -> list[JobId]:
    """A retry chain goes from its beginning: a job whose retry was gone would seem never retried, and be retried again."""
    gone: set[JobId] = set()
    for job in sorted(held, key=lambda job: job.job_id):
        if not job.needed and (job.predecessor is None or job.predecessor in gone):
            gone.add(job.job_id)
    return sorted(gone)


def oldest_id_after(moment: datetime) -> str:
    """Ids begin with the time at which they were made: all that are smaller than this are older."""
    digits = f"{max(0, int(moment.timestamp() * 1000)):012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"


def check_keep(keep: Any) -> int:
    """Whole seconds; a part of one counts as one, so that nothing goes too soon."""
    seconds = keep.total_seconds() if isinstance(keep, timedelta) else keep
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_KEEP.total_seconds():
        raise InvalidInput(f"keep must be from 0 seconds to 100 years, or a timedelta, not {keep!r:.80}.", field="keep")
    return int(-(-seconds // 1))


def check_record(record: Any, **narrower: Any) -> RecordKind:
    """Only rules about jobs may name a tenant, an agent or a status."""
    name = str(record).strip().lower().replace("-", "_")
    known = [str(kind) for kind in RecordKind]
    if name not in known:
        raise InvalidInput(
            f"record must be one of {', '.join(known)}, not {record!r:.80}.{did_you_mean(name, known)}", field="record"
        )
    for field, value in narrower.items():
        if value is not None and name != RecordKind.JOB:
            raise InvalidInput(f"Only rules about jobs can name a {field}; this one is about {name}.", field=field)
    return RecordKind(name)


def check_status(status: Any) -> JobStatus | None:
    known = sorted(TERMINAL)
    if status is not None and status not in known:
        raise InvalidInput(
            f"status must be one in which jobs end, {', '.join(known)}, not {status!r:.80}.{did_you_mean(str(status), known)}",
            field="status",
        )
    return None if status is None else JobStatus(status)
