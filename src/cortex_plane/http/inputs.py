"""Types of request parameters, and pagination."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from cortex_plane.cursors import cursor_for
from cortex_plane.http.problems import BadCursor

ID_PATTERN = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
MOST_FIELDS = 100
EXAMPLE_ID = "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60"


class Input(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        """Otherwise each unknown one would be described in the answer, and a body has room for hundreds of thousands."""
        if isinstance(value, dict) and len(value) > MOST_FIELDS:
            raise ValueError(f"has {len(value):,} fields; no request has more than {MOST_FIELDS}")
        return value


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


# -- pages -------------------------------------------------------------------------------------
# Lists a page at a time. A cursor is the place of the last item, wrapped up: it stays right when items come and go.


__all__ = ["Cursor", "Limit", "Page", "cursor_for", "id_in", "ids_in", "name_in", "number_in", "text_in"]

Item = TypeVar("Item")

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TWO_UUIDS = re.compile(f"{UUID.pattern} {UUID.pattern}")
NUMBER = re.compile(r"[1-9][0-9]{0,17}")
STORABLE_TEXT = re.compile(r"[^\0]{1,200}", re.DOTALL)
NAME = re.compile(r"[^\x00]{1,200}")

Limit = Annotated[int, Query(ge=1, le=1_000, description="How many items a page has at most.")]
Cursor = Annotated[str | None, Query(max_length=1_200, description="`next` of the page before.")]


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    next: str | None = Field(
        default=None, description="The cursor of the next page; null after the last one. A page with a next one may be short."
    )


def id_in(kind: str, cursor: str | None) -> str | None:
    return None if cursor is None else _place(kind, cursor, UUID)


def ids_in(kind: str, cursor: str | None) -> list[str] | None:
    """Where it takes two ids to name a place."""
    return None if cursor is None else _place(kind, cursor, TWO_UUIDS).split(" ")


def number_in(kind: str, cursor: str | None) -> int | None:
    return None if cursor is None else int(_place(kind, cursor, NUMBER))


def text_in(kind: str, cursor: str | None) -> str | None:
    return None if cursor is None else _place(kind, cursor, STORABLE_TEXT)


def name_in(kind: str, cursor: str | None) -> str | None:
    return None if cursor is None else _place(kind, cursor, NAME)


def _place(kind: str, cursor: str, form: re.Pattern[str]) -> str:
    """Checked to the letter: a cursor of another list, or a changed one, is told as such."""
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (NotBase64, ValueError):
        raise BadCursor from None
    named, _, place = text.partition(":")
    if named != kind or not form.fullmatch(place) or cursor_for(kind, place) != cursor:
        raise BadCursor
    return place
