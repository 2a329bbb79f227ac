"""What a store is filled with: jobs that were really run, and how often their rows are copied."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

SPACING = 10_000
"""Each round of copies has places of its own: there are never so many originals."""
POSITION_SPACING = 100 * SPACING


@dataclass(frozen=True, slots=True)
class Load:
    """`run` makes the originals in an empty database; each of their rows in the tables is copied so many times.

    `value` says how a column of a copy follows from its original, in SQL; what it leaves to us stays the same. It may use

      aged(id, copy)                  another id, that many seconds older; NULL and what is no id stay
      numbered(text, copy)            with the number of the copy as its end
      rewritten(json, id, copy)       with the other id wherever this one stands
      seconds(copy)                   so many seconds, to take from an instant
    """

    run: Callable[[str], Awaitable[None]]
    tables: tuple[str, ...]
    copies: int
    value: Callable[[str, str], str]
