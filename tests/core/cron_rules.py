"""Cron rules of every shape that is allowed, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@st.composite
def _ranges(draw: st.DrawFn, least: int, most: int) -> str:
    low = draw(st.integers(least, most - 1))
    high = draw(st.integers(low + 1, most))
    step = draw(st.none() | st.integers(1, high - low))
    return f"{low}-{high}" if step is None else f"{low}-{high}/{step}"


def _field(least: int, most: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    numbers = st.integers(least, most).map(str)
    parts = numbers | _ranges(least, most) | (st.sampled_from(names) if names else numbers)
    steps = st.integers(1, most - least).map("*/{}".format)
    return st.just("*") | steps | st.lists(parts | steps, min_size=1, max_size=3).map(",".join)


def cron_texts() -> st.SearchStrategy[str]:
    """The day stays below 29, so that every rule has a date."""
    fields = _field(0, 59), _field(0, 23), _field(1, 28), _field(1, 12, MONTHS), _field(0, 6, WEEKDAYS)
    return st.tuples(*fields).map(" ".join)
