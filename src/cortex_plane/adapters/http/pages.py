"""Lists a page at a time. A cursor is the place of the last item, wrapped up: it stays right when items come and go."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from cortex_plane.adapters.http.errors import BadCursor
from cortex_plane.core.cursors import cursor_for

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
