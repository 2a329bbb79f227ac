"""What a schedule may be asked to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from cortex_plane.adapters.http.inputs import Id, Input, Moment, Name
from cortex_plane.core.access import Caller
from cortex_plane.core.billing import DEFAULT_ACCOUNT
from cortex_plane.core.schedules import MissedRule, OverlapRule, Schedule, ScheduleId, ScheduleTerms
from cortex_plane.operations.add_grant import MOST_USES
from cortex_plane.operations.add_schedule import ScheduleWish
from cortex_plane.operations.schedule_terms import LONGEST_JITTER_SECONDS, MOST_CAUGHT_UP, MOST_FAILURES

Target = Annotated[
    Name,
    Field(description="What runs: agent:NAME, template:NAME or the id of a graph.", examples=["agent:report", "langgraph:poet"]),
]
Cron = Annotated[Name, Field(description="minute hour day month weekday", examples=["0 9 * * mon-fri"])]
Zone = Annotated[Name, Field(description="On whose clocks, by its IANA name.", examples=["Europe/Berlin"])]
Missed = Annotated[MissedRule, Field(description="What becomes of slots that nobody started in time.")]
MostMissed = Annotated[int, Field(ge=1, le=MOST_CAUGHT_UP, description="Under `all`: no more than so many.")]
Overlap = Annotated[OverlapRule, Field(description="What becomes of a slot while an earlier one runs.")]
Jitter = Annotated[float, Field(ge=0, le=LONGEST_JITTER_SECONDS, description="A slot begins up to so much later.")]
Failures = Annotated[int, Field(ge=1, le=MOST_FAILURES, description="It pauses after so many failures in a row.")]
GrantUses = Annotated[int, Field(ge=1, le=MOST_USES)]


class NewSchedule(Input):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "weekday report",
                    "target": "agent:report",
                    "cron": "0 9 * * mon-fri",
                    "timezone": "Europe/Berlin",
                    "input": {"kind": "short"},
                }
            ]
        },
    )

    name: Name = Field(description="Unique in the tenant.")
    target: Target
    cron: Cron
    timezone: Zone = "UTC"
    input: dict[str, Any] = Field(default={}, description="For the target; for a template, what replaces keys of its params.")
    missed: Missed = "skip"
    most_missed: MostMissed = 1
    overlap: Overlap = "forbid"
    jitter_seconds: Jitter = 0.0
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    pause_after_failures: Failures | None = None
    grant: Id | None = Field(default=None, description="Under which it runs. Otherwise one is made, for exactly the target.")
    billing_account: Name = Field(default=DEFAULT_ACCOUNT, description="Who is charged, for a grant that is made.")
    grant_expires_at: Moment | None = Field(default=None, description="For a grant that is made.")
    grant_max_uses: GrantUses | None = Field(default=None, description="For a grant that is made.")

    def wish(self, caller: Caller, schedule_id: ScheduleId) -> ScheduleWish:
        return ScheduleWish(
            self.name,
            self._terms(),
            tenant=caller.tenant,
            grant=self.grant,
            billing_account=self.billing_account,
            grant_expires_at=self.grant_expires_at,
            grant_max_uses=self.grant_max_uses,
            owner_id=caller.user_id,
            created_by=caller.name,
            id=schedule_id,
        )

    def _terms(self) -> ScheduleTerms:
        return ScheduleTerms(
            self.target,
            self.cron,
            self.timezone,
            self.input,
            self.missed,
            self.most_missed,
            self.overlap,
            self.jitter_seconds,
            self.starts_at,
            self.ends_at,
            self.pause_after_failures,
        )


class ChangeSchedule(Input):
    """What is left out stays as it is. Where null means something, it takes the thing away."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"cron": "0 8 * * mon-fri"}]})

    target: Target = ""
    cron: Cron = ""
    timezone: Zone = ""
    input: dict[str, Any] = Field(default={})
    missed: Missed = "skip"
    most_missed: MostMissed = 1
    overlap: Overlap = "forbid"
    jitter_seconds: Jitter = 0.0
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    pause_after_failures: Failures | None = None
    grant: Id = Field(default="", description="Under which it runs from now on.")

    def terms(self, schedule: Schedule) -> ScheduleTerms:
        given = {name: getattr(self, name) for name in self.model_fields_set - {"target", "grant"}}
        if "target" in self.model_fields_set:
            given["graph_id"] = self.target
        return replace(schedule.terms, **given)


class Range(Input):
    start: Moment = Field(description="From this on,", examples=["2026-01-05T00:00:00Z"])
    end: Moment = Field(description="and before this.", examples=["2026-01-06T00:00:00Z"])
