"""Values of schedules, and how they are shown.

Schedules and their slots.

A slot is one firing of a schedule: a row `schedule_run`, once for each (schedule, instant).

pending ──▶ running ──▶ success | error        the run that it started has ended
   └─────────────────▶ skipped                 missed, overlap, gate_closed, paused, removed: it never started
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from hashlib import sha256
from shlex import quote
from typing import Any, Literal, NewType
from uuid import UUID, uuid5

from cortex_plane.agents.model import AgentConfig
from cortex_plane.errors import Conflict, NotFound, did_you_mean
from cortex_plane.grants.model import GrantId
from cortex_plane.jobs.model import INTERNAL_QUEUE, JobId, TenantId
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.schedules.cron import daylight_saving, describe, kind, parse

ScheduleId = NewType("ScheduleId", str)
SlotId = NewType("SlotId", str)

MissedRule = Literal["skip", "latest", "all"]
"""What becomes of slots that nobody started in time: nothing, the newest runs, or all run (up to a number)."""
OverlapRule = Literal["forbid", "allow", "replace"]
"""What becomes of a slot that falls due while an earlier one runs: it is skipped, runs beside it, or takes its place."""
SlotStatus = Literal["pending", "running", "success", "error", "skipped"]
SlotOrigin = Literal["cron", "manual", "backfill"]
SkipReason = Literal["missed", "overlap", "gate_closed", "paused", "removed"]
Source = Literal["operator", "code"]

SLOT_AGENT = "cortex.slot"
SLOT_CONFIG = AgentConfig(queue=INTERNAL_QUEUE, retry=RetryPolicy(max_retries=20), crash_limit=1000)
SERVICE_NAME = "cortex-scheduler"
REVISION_LENGTH = 16
OPEN: tuple[SlotStatus, ...] = ("pending", "running")


@dataclass(frozen=True, slots=True)
class ScheduleTerms:
    """What somebody has asked for. `input` is the target's input; for a template, what replaces keys of its params."""

    graph_id: str
    cron: str
    timezone: str = "UTC"
    input: dict[str, Any] = field(default_factory=dict)
    missed: MissedRule = "skip"
    most_missed: int = 1
    overlap: OverlapRule = "forbid"
    jitter_seconds: float = 0.0
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    pause_after_failures: int | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """`next_run_at` is the slot that the chain of jobs stands at; while that one runs under `forbid`, it lies in the past."""

    id: ScheduleId
    tenant_id: TenantId
    name: str
    grant_id: GrantId
    terms: ScheduleTerms
    source: Source = "operator"
    owner_id: str | None = None
    enabled: bool = True
    paused_by: str | None = None
    paused_at: datetime | None = None
    pause_reason: str | None = None
    failures: int = 0
    """How many slots have failed in a row."""
    next_run_at: datetime | None = None
    last_run_at: datetime | None = None
    slot_job_id: JobId | None = None
    zone_data: str = ""
    """The release of the time-zone data by which `next_run_at` was reckoned."""
    created_by: str | None = None
    changed_by: str | None = None
    """Who last changed what it runs. They stand behind its runs: where a gate forbids self-approval, they may not decide."""
    removed_at: datetime | None = None
    removed_by: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """One firing, as `schedule_run` holds it. `local_time` is what the clocks of the schedule's zone showed."""

    id: SlotId
    schedule_id: ScheduleId
    scheduled_for: datetime
    local_time: str
    origin: SlotOrigin
    status: SlotStatus
    reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    run_id: JobId | None = None
    trace_id: str | None = None
    job_id: JobId | None = None
    replaced_by: SlotId | None = None
    requested_by: str | None = None
    """Who triggered it, or asked for it afterwards."""
    started_at: datetime | None = None
    completed_at: datetime | None = None
    created_at: datetime | None = None
    timezone: str = ""
    """The zone that `local_time` is of."""
    begin_by: datetime | None = None
    """Of a slot that was settled at a change of its schedule: it is missed if it has not begun by then."""

    @property
    def open(self) -> bool:
        return self.status in OPEN


def slot_id(schedule_id: str, scheduled_for: datetime) -> SlotId:
    """Always the same for the same slot, so that whoever comes second finds it."""
    return SlotId(str(uuid5(UUID(schedule_id), slot_time(scheduled_for))))


def slot_key(schedule_id: str, scheduled_for: datetime) -> str:
    """The key of a slot's job, and the idempotency key of what it starts."""
    return f"{schedule_id}:{slot_time(scheduled_for)}"


def slot_time(scheduled_for: datetime) -> str:
    return scheduled_for.astimezone(UTC).isoformat()


def revision_of(schedule: Schedule) -> str:
    """Changes with whatever people may change, and stays the same when slots go by."""
    said = {**asdict(schedule.terms), "grant_id": schedule.grant_id, "enabled": schedule.enabled}
    text = json.dumps(said, sort_keys=True, default=slot_time)
    return sha256(text.encode()).hexdigest()[:REVISION_LENGTH]


class ScheduleChanged(Conflict):
    def __init__(self, name: str, revision: str) -> None:
        super().__init__(f'Schedule "{name}" has changed meanwhile: it is at "{revision}". Look at it again, then decide.')
        self.name, self.revision = name, revision


class ScheduleNotFound(NotFound):
    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        super().__init__(f'There is no schedule "{name}".{did_you_mean(name, known)} To see what there is: cortex schedules list')
        self.name = name


class ScheduleExists(Conflict):
    def __init__(self, name: str) -> None:
        super().__init__(f'There is a schedule "{name}" already. To look at it: cortex schedules show {quote(name)}')
        self.name = name


# -- shown schedules ---------------------------------------------------------------------------
# A schedule as others are shown it: with its rule in words, and what becomes of it when the clocks change.


@dataclass(frozen=True, slots=True)
class ScheduleView(Schedule):
    """`daylight_saving_rule` is the name of the rule, `daylight_saving` says what it does."""

    description: str = ""
    daylight_saving_rule: Literal["fixed", "interval"] = "fixed"
    daylight_saving: str = ""


def schedule_view(schedule: Schedule) -> ScheduleView:
    rule = parse(schedule.terms.cron)
    return ScheduleView(
        **{one.name: getattr(schedule, one.name) for one in fields(Schedule)},
        description=f"{describe(rule)}, {schedule.terms.timezone}",
        daylight_saving_rule=kind(rule),
        daylight_saving=daylight_saving(rule),
    )
