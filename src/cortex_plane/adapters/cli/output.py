"""How results are shown: tables and colours for people, one JSON document for programs."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO, cast

from cortex_plane.core.states import JobStatus, RunStatus

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

WIDTH_WITHOUT_A_TERMINAL = 200
LINE_LIMIT = 120
SHORT_DOCUMENT = 80

LOOKS = {
    JobStatus.PENDING: ("○", "blue"),
    JobStatus.RUNNING: ("▶", "cyan"),
    JobStatus.COMPLETED: ("✓", "green"),
    JobStatus.FAILED: ("✗", "red"),
    JobStatus.WAITING_FOR_APPROVAL: ("?", "magenta"),
    JobStatus.RETRY: ("↻", "yellow"),
    JobStatus.CANCELLED: ("⊘", "bright_black"),
    RunStatus.SKIPPED: ("⊘", "bright_black"),
    RunStatus.WAITING: ("?", "magenta"),
    RunStatus.SLEEPING: ("z", "blue"),
    RunStatus.INTERRUPTED: ("↻", "yellow"),
}


def console(*, stderr: bool = False) -> Console:
    """Nothing that is printed is read as markup. Lines are not cut for a pipe, where somebody may search in them."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(file=stream, markup=False, highlight=False, emoji=False)
    width = int(os.environ.get("COLUMNS") or WIDTH_WITHOUT_A_TERMINAL)
    return Console(file=cast(TextIO, Trimmed(stream)), width=width, markup=False, highlight=False, emoji=False)


class Trimmed(io.TextIOBase):
    """Lines without the spaces that fill a table's last column."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(r" +(?=\n)", "", text))

    def flush(self) -> None:
        self._stream.flush()


def print_json(document: Any) -> None:
    """Datetimes as ISO 8601, records as objects."""
    import orjson

    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())


def status(value: JobStatus | RunStatus) -> Text:
    from rich.text import Text

    symbol, colour = LOOKS[value]
    return Text(f"{symbol} {value}", colour)


def words(value: object, style: str = "") -> Text:
    """Text from outside: characters that would steer the terminal are shown, not obeyed."""
    from rich.text import Text

    return Text("".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in str(value)), style)


def one_line(value: object, style: str = "", limit: int = LINE_LIMIT) -> Text:
    lines = str(value).strip().splitlines() or [""]
    cut = len(lines) > 1 or len(lines[0]) > limit
    return words(lines[0][: limit - 1] + "…" if cut else lines[0], style)


def document(value: Any) -> Text:
    """A JSON document, short ones on one line."""
    from json import dumps

    from rich.highlighter import JSONHighlighter

    compact = dumps(value, ensure_ascii=False)
    text = words(compact if len(compact) <= SHORT_DOCUMENT else dumps(value, ensure_ascii=False, indent=2))
    JSONHighlighter().highlight(text)
    return text


def table(headings: Sequence[str], rows: Sequence[Sequence[RenderableType]], *, right: Iterable[int] = ()) -> Table:
    """The last column takes what room is left, on more lines than one if it must."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, heading in enumerate(headings):
        made.add_column(
            heading, justify="right" if place in set(right) else "left", no_wrap=place < len(headings) - 1, overflow="fold"
        )
    for row in rows:
        made.add_row(*row)
    return made


def one_line_each(
    headings: Sequence[str], rows: Sequence[Sequence[Text]], *, right: Iterable[int] = (), indent: int = 0
) -> Table:
    """The same, but what does not fit in the last column is cut."""
    used = sum(2 + max([len(heading), *(cells[place].cell_len for cells in rows)]) for place, heading in enumerate(headings[:-1]))
    room = console().width - used - indent
    for cells in rows:
        cells[-1].truncate(max(room, 1), overflow="ellipsis")
    return table(headings, rows, right=right)


def facts(pairs: Iterable[tuple[str, RenderableType | None]]) -> Table:
    """Name and value, one below the other; what is None is left out."""
    from rich.table import Table
    from rich.text import Text

    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            made.add_row(Text(name, "dim"), value)
    return made


def indented(part: RenderableType) -> RenderableType:
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, 2), expand=False)


def heading(text: str) -> Text:
    from rich.text import Text

    return Text(text, "bold")
