"""What a submission may hold, here and in groups."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from cortex_plane.errors import InvalidInput
from cortex_plane.http.inputs import EXAMPLE_ID, Id, Input, Moment, Name, Text, WithReason
from cortex_plane.jobs.changes import CancelMode
from cortex_plane.jobs.fields import FIELDS, LONGEST_DELAY, PRIORITY_LIMIT, TAG_LIMIT, Submission
from cortex_plane.jobs.model import KeyMode
from cortex_plane.jobs.retry import MAX_RETRIES_LIMIT, Backoff, RetryMode, RetryPolicy
from cortex_plane.people.roles import Caller

MOST_AT_ONCE = 1_000
Seconds = Annotated[float, Field(ge=0, le=LONGEST_DELAY.total_seconds())]
ListLimit = Annotated[float, Field(gt=0, le=LONGEST_DELAY.total_seconds())]


# What holds between fields, for readers of the schema; people are told in words.
ONE_TIME_ONLY: dict[str, Any] = {
    "allOf": [
        {"not": {"required": [at, seconds], "properties": {at: {"type": "string"}, seconds: {"type": "number"}}}}
        for at, seconds in (("run_at", "delay_seconds"), ("deadline_at", "deadline_seconds"))
    ]
}
ANCHOR_OR_NONE: dict[str, Any] = {
    "anyOf": [
        {"properties": {"place": {"enum": ["before", "after"]}, "anchor": {"type": "string"}}, "required": ["place", "anchor"]},
        {"properties": {"place": {"enum": ["front", "back"]}, "anchor": {"type": "null"}}, "required": ["place"]},
    ]
}


class BackoffInput(Input):
    base_seconds: Seconds = 1.0
    max_seconds: Seconds = 300.0
    multiplier: float = Field(default=2.0, ge=1, le=1_000)
    jitter: bool = True


class RetryInput(Input):
    mode: RetryMode = "in_place"
    max_retries: int = Field(default=3, ge=0, le=MAX_RETRIES_LIMIT)
    backoff: BackoffInput = BackoffInput()

    def policy(self) -> RetryPolicy:
        return RetryPolicy(self.mode, self.max_retries, Backoff(**self.backoff.model_dump()))


class LastingFields(Input):
    """Fields of a submission that a template holds too."""

    queue: Name | None = Field(default=None, description="Otherwise the agent's own.")
    priority: int = Field(default=0, ge=-PRIORITY_LIMIT, le=PRIORITY_LIMIT, description="Higher runs first.")
    max_retries: int | None = Field(default=None, ge=0, le=MAX_RETRIES_LIMIT)
    retry: RetryInput | None = None
    run_timeout_seconds: ListLimit | None = Field(default=None, description="How long one run of it may take.")
    deadline_seconds: ListLimit | None = Field(default=None, description="How long after its submission it must have ended.")
    tags: list[Name] = Field(default=[], max_length=TAG_LIMIT)

    def options(self, caller: Caller) -> dict[str, Any]:
        """What was given, by its name in Python."""
        options: dict[str, Any] = {"tenant": caller.tenant, "created_by": caller.name}
        for field in FIELDS:
            given = [name for name in field.http_names if name in self.model_fields_set and getattr(self, name) is not None]
            if len(given) > 1:
                raise InvalidInput(f"Give {given[0]} or {given[1]}, not both.", field=given[0])
            for value in (getattr(self, name) for name in given):
                options[field.name] = value.policy() if isinstance(value, RetryInput) else value
        return options


class SubmissionFields(LastingFields):
    """Fields of a submission; those of a single job are here."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=ONE_TIME_ONLY)

    run_at: Moment | None = Field(default=None, description="Not before then. Or give delay_seconds.")
    delay_seconds: Seconds | None = None
    job_key: Name | None = Field(default=None, description="At most one waiting job has it; see key_mode.")
    key_mode: KeyMode = "replace"
    serial_key: Name | None = Field(default=None, description="At most one job with it runs at a time.")
    deadline_at: Moment | None = Field(default=None, description="When it must have ended. Or give deadline_seconds.")
    session: Id | None = Field(
        default=None, description="The session that it comes out of: yours, or for operators any of the tenant."
    )


class SubmitJob(SubmissionFields):
    model_config = ConfigDict(
        json_schema_extra={
            **ONE_TIME_ONLY,
            "examples": [{"agent": "release-bot", "payload": {"version": "1.4.0"}, "tags": ["release"]}],
        },
    )

    agent: Name = Field(description="The agent's name.")
    payload: dict[str, Any] = Field(default={}, description="The agent's arguments, by name.")

    def submission(self, caller: Caller) -> Submission:
        return Submission(self.agent, self.payload, **self.options(caller))


class SubmitJobs(Input):
    jobs: list[SubmitJob] = Field(min_length=1, max_length=MOST_AT_ONCE)


class Ids(WithReason):
    ids: list[Id] = Field(min_length=1, max_length=MOST_AT_ONCE, examples=[[EXAMPLE_ID]])


class Cancel(WithReason):
    mode: CancelMode = Field(default="cleanup", description="kill: at once, also inside an open cleanup scope.")


class CancelMany(Ids):
    mode: CancelMode = Field(default="cleanup", description="kill: at once, also inside an open cleanup scope.")


class Move(WithReason):
    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={**ANCHOR_OR_NONE, "examples": [{"place": "front"}]})

    place: Literal["before", "after", "front", "back"]
    anchor: Id | None = Field(default=None, description="The other job, for before and after.")


class MoveMany(Ids):
    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={**ANCHOR_OR_NONE, "examples": [{"ids": [EXAMPLE_ID], "place": "front"}]}
    )

    place: Literal["before", "after", "front", "back"]
    anchor: Id | None = Field(default=None, description="The other job, for before and after.")


class Priority(WithReason):
    priority: int = Field(ge=-PRIORITY_LIMIT, le=PRIORITY_LIMIT, examples=[10])


class Settle(Input):
    call: Text = Field(
        min_length=1, description="The tool's name, with `#2` for its second time, as `details` lists it.", examples=["refund"]
    )
    applied: bool = Field(description="Whether it took effect. If not, it is made when the job goes on.")
    result: Any = Field(None, description="What the call returned; only when it was applied.")


class Fork(Input):
    from_step: Text = Field(min_length=1, description="Everything before this step is taken over.", examples=["deploy"])
