"""The state machine as a picture, drawn from the table of transitions: no script and no request is needed to show it."""

from __future__ import annotations

from html import escape

from cortex_plane.jobs.states import TRANSITIONS, JobStatus
from docs.builder.markdown import literal, table

WIDTH, HEIGHT = 190, 40
SVG = '<svg viewBox="0 0 815 300" role="img" aria-label="The states of a job" xmlns="http://www.w3.org/2000/svg">'
TIP = """<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker></defs>"""

# The middle of each state's box.
PLACES = {
    JobStatus.PENDING: (115, 150),
    JobStatus.RUNNING: (400, 150),
    JobStatus.COMPLETED: (700, 150),
    JobStatus.FAILED: (700, 270),
    JobStatus.CANCELLED: (700, 30),
    JobStatus.RETRY: (400, 270),
    JobStatus.WAITING_FOR_APPROVAL: (400, 30),
}


def state_diagram() -> str:
    """An SVG in the colour of the text, so that it suits light and dark, and the same as a table."""
    arrows = [_arrow(before, after) for before, reachable in TRANSITIONS.items() for after in reachable]
    boxes = [_box(status) for status in JobStatus]
    rows = [
        (literal(before), literal(after), why) for before, reachable in TRANSITIONS.items() for after, why in reachable.items()
    ]
    return "\n".join([SVG, TIP, *arrows, *boxes, "</svg>", "", table(["from", "to", "when"], rows)])


def _box(status: JobStatus) -> str:
    x, y = PLACES[status]
    weight = 2.5 if status.is_terminal else 1.2
    return (
        f'<rect x="{x - WIDTH // 2}" y="{y - HEIGHT // 2}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="none" '
        f'stroke="currentColor" stroke-width="{weight}"/>'
        f'<text x="{x}" y="{y + 4}" text-anchor="middle" font-size="12" fill="currentColor">{escape(status)}</text>'
    )


def _arrow(before: JobStatus, after: JobStatus) -> str:
    """From edge to edge; where two states lead to each other, the two arrows stand side by side."""
    (x1, y1), (x2, y2) = PLACES[before], PLACES[after]
    aside = 14 if before in TRANSITIONS[after] else 0
    if x1 == x2:
        down = 1 if y2 > y1 else -1
        x1, x2, y1, y2 = x1 + aside * down, x2 + aside * down, y1 + down * HEIGHT // 2, y2 - down * HEIGHT // 2
    else:
        right = 1 if x2 > x1 else -1
        x1, x2 = x1 + right * WIDTH // 2, x2 - right * WIDTH // 2
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="currentColor" stroke-width="1.2" opacity="0.75" '
        'marker-end="url(#tip)"/>'
    )
