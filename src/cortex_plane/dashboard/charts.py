"""Charts as SVG: numbers go in, text comes out. Colours are classes, so that a page without inline styles can dress them.

They stretch with their box, so they hold no text; what they show is told by their titles, and beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH = 1000
GAP_SHARE = 0.18
DASH = 4.0
THINNEST = 2.0
"""Of a thousand: what took almost no time must still be seen."""


class Part(NamedTuple):
    """`kind` becomes a class: `completed`, `failed`, `waits`, …"""

    kind: str
    value: float


class Bar(NamedTuple):
    title: str
    parts: Sequence[Part]


class Span(NamedTuple):
    """A stretch on a line of time, in seconds from its beginning."""

    kind: str
    title: str
    start: float
    end: float


def stacked_bars(bars: Sequence[Bar], label: str, height: int = 120) -> Markup:
    """One bar beside the other, each of parts on top of each other; the highest fills the height."""
    tallest = max((sum(part.value for part in bar.parts) for bar in bars), default=0)
    drawn: list[Markup] = []
    for number, bar in enumerate(bars):
        step = WIDTH / len(bars)
        drawn.append(_bar(bar, number * step + step * GAP_SHARE / 2, step * (1 - GAP_SHARE), height, tallest))
    return _svg(drawn, label, height, "bars")


def _bar(bar: Bar, x: float, width: float, height: int, tallest: float) -> Markup:
    top = float(height)
    rects: list[Markup] = []
    for part in bar.parts:
        if part.value > 0:
            size = part.value / tallest * height
            top -= size
            rects.append(_rect(part.kind, x, top, width, size))
    # The whole column is there to be pointed at, not only what is drawn of it.
    target = _rect("target", x - width * GAP_SHARE, 0, width * (1 + 2 * GAP_SHARE), height)
    return Markup("<g><title>{}</title>{}{}</g>").format(bar.title, target, Markup().join(rects))


def sparkline(values: Sequence[float | None], label: str, height: int = 40) -> Markup:
    """A line through the values; where there is none, a gap."""
    known = [value for value in values if value is not None]
    highest = max(known, default=0.0) or 1.0
    step = WIDTH / max(len(values) - 1, 1)
    pieces: list[str] = []
    pen_is_down = False
    for number, value in enumerate(values):
        if value is None:
            pen_is_down = False
            continue
        y = height - 2 - value / highest * (height - 4)
        x = number * step
        # A value by itself would be a point, which nobody sees: each stretch begins with a short dash.
        pieces.append(f"L{_n(x)} {_n(y)}" if pen_is_down else f"M{_n(max(x - DASH, 0))} {_n(y)}H{_n(max(x, DASH))}")
        pen_is_down = True
    return _svg([Markup('<path d="{}"/>').format(" ".join(pieces))] if pieces else [], label, height, "sparkline")


def timeline(spans: Sequence[Span], total: float, label: str, height: int = 16) -> Markup:
    """Stretches of time side by side on one line."""
    return _svg([_span(span, total, height) for span in spans], label, height, "timeline")


def waterfall_row(span: Span, total: float, height: int = 12) -> Markup:
    """One line of a waterfall: where in the whole this one began and ended."""
    return _svg([_span(span, total, height)], span.title, height, "waterfall")


def share(part: float, whole: float, kind: str, label: str, height: int = 6) -> Markup:
    """How much of something is used."""
    filled = min(max(part / whole, 0.0), 1.0) * WIDTH if whole > 0 else 0.0
    track = _rect("track", 0, 0, WIDTH, height)
    return _svg([track, _rect(kind, 0, 0, filled, height)], label, height, "share")


def _span(span: Span, total: float, height: int) -> Markup:
    whole = total if total > 0 else 1.0
    start = min(max(span.start / whole, 0.0), 1.0) * WIDTH
    width = max(min(max(span.end / whole, 0.0), 1.0) * WIDTH - start, THINNEST)
    start = min(start, WIDTH - width)
    return Markup("<g><title>{}</title>{}</g>").format(span.title, _rect(span.kind, start, 0, width, height))


def _rect(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, _n(x), _n(y), _n(max(width, 0.0)), _n(max(height, 0.0))
    )


def _svg(inside: Iterable[Markup], label: str, height: int, kind: str) -> Markup:
    return Markup(
        '<svg class="chart {}" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
    ).format(kind, escape(label), WIDTH, height, Markup().join(inside))


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
