"""What requests may hold. Nothing is converted on the quiet: "5" is not a number, 1 is not true, and no field is ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

ID_PATTERN = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
EXAMPLE_ID = "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60"


class Input(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _moment(value: Any) -> datetime:
    """Only with a zone: a time without one means something else to each reader."""
    if not isinstance(value, str):
        raise ValueError("must be a time as text, such as 2026-07-01T09:30:00Z")  # noqa: TRY004 - pydantic wants this one
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("must be a time such as 2026-07-01T09:30:00Z") from None
    if moment.tzinfo is None or len(value) < 20:
        raise ValueError("must be a time with its zone, such as 2026-07-01T09:30:00Z or …+02:00")
    return moment


def _storable(value: str) -> str:
    """PostgreSQL takes no NUL, and half of a surrogate pair is no character."""
    if "\0" in value:
        raise ValueError("must not hold NUL characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("must not hold halves of surrogate pairs") from None
    return value


STORABLE = AfterValidator(_storable)
# For readers of the schema only; people are told in words.
NO_NUL: dict[str, Any] = {"pattern": r"^[^\x00]*$"}

Moment = Annotated[
    datetime, BeforeValidator(_moment), Field(strict=False), WithJsonSchema({"type": "string", "format": "date-time"})
]
Name = Annotated[str, Field(min_length=1, max_length=200, json_schema_extra=NO_NUL), STORABLE]
Text = Annotated[str, Field(max_length=2_000, json_schema_extra=NO_NUL), STORABLE]
Id = Annotated[str, Field(pattern=ID_PATTERN, examples=[EXAMPLE_ID])]

IdPath = Annotated[str, Path(pattern=ID_PATTERN, description="The whole id.", examples=[EXAMPLE_ID])]
NamePath = Annotated[str, Path(min_length=1, max_length=200, json_schema_extra=NO_NUL), STORABLE]
NameQuery = Annotated[
    str | None,
    Query(min_length=1, max_length=200, json_schema_extra=NO_NUL),
    AfterValidator(lambda value: value if value is None else _storable(value)),
]
ReasonQuery = Annotated[
    str | None,
    Query(max_length=2_000, json_schema_extra=NO_NUL, description="Why; it is kept in the audit log."),
    AfterValidator(lambda value: value if value is None else _storable(value)),
]
MomentQuery = Annotated[Moment | None, Query()]


class WithReason(Input):
    reason: Text | None = Field(default=None, description="Why; it is kept in the audit log.", examples=["asked for by Ada"])
