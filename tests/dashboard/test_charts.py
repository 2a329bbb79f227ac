"""Charts are numbers turned into SVG that any browser draws."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cortex_plane.dashboard.charts import WIDTH, Bar, Part, Span, share, sparkline, stacked_bars, timeline, waterfall_row

NUMBERS = some.floats(0, 1e9)


def rects(svg: str, kind: str) -> list[tuple[float, float, float, float]]:
    found = ElementTree.fromstring(svg).iter("rect")
    return [
        (float(one.get("x", 0)), float(one.get("y", 0)), float(one.get("width", 0)), float(one.get("height", 0)))
        for one in found
        if one.get("class") == kind
    ]


def test_the_highest_bar_fills_the_height_and_its_parts_stand_on_each_other() -> None:
    svg = stacked_bars([Bar("a", [Part("good", 3), Part("bad", 1)]), Bar("b", [Part("good", 2)])], "bars", height=100)

    (_, y_good, _, good), (_, y_other, _, other) = rects(svg, "good")
    [(_, y_bad, _, bad)] = rects(svg, "bad")
    assert (y_good, good) == (25, 75)
    assert (y_bad, bad) == (0, 25)
    assert (y_other, other) == (50, 50)


@given(some.lists(some.lists(NUMBERS, max_size=4), max_size=30))
def test_bars_stay_in_their_box(values: list[list[float]]) -> None:
    svg = stacked_bars([Bar("<&>", [Part("good", value) for value in bar]) for bar in values], "a < b", height=50)

    for x, y, width, height in rects(svg, "good"):
        assert x >= 0
        assert x + width <= WIDTH + 0.01
        assert y >= -0.01
        assert y + height <= 50.02


@given(some.lists(some.none() | NUMBERS, max_size=50))
def test_a_sparkline_is_drawn_of_any_values(values: list[float | None]) -> None:
    svg = ElementTree.fromstring(sparkline(values, "line"))

    assert (svg.find("path") is not None) is any(value is not None for value in values)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_span_is_always_seen_and_never_outside(start: float, end: float, total: float) -> None:
    [(x, _, width, _)] = rects(waterfall_row(Span("step", "it", min(start, end), max(start, end)), total), "step")

    assert width >= 2
    assert x >= 0
    assert x + width <= WIDTH + 0.02


def test_a_timeline_has_its_spans_side_by_side() -> None:
    svg = timeline([Span("pending", "Pending", 0, 1), Span("running", "Running", 1, 4)], 4, "states")

    [(_, _, waited, _)] = rects(svg, "pending")
    [(began, _, ran, _)] = rects(svg, "running")
    assert (waited, began, ran) == (250, 250, 750)


@pytest.mark.parametrize(("part", "whole", "width"), [(1, 4, 250), (9, 4, 1000), (1, 0, 0), (-1, 4, 0)])
def test_a_share_is_between_nothing_and_all(part: float, whole: float, width: float) -> None:
    [(_, _, drawn, _)] = rects(share(part, whole, "used", "use"), "used")

    assert drawn == width


def test_titles_are_text_and_no_markup() -> None:
    svg = stacked_bars([Bar("<script>alert(1)</script>", [Part("good", 1)])], '"><script>')

    assert "<script>" not in svg
