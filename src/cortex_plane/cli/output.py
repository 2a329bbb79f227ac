"""Output: tables and colours for people, JSON for programs; times; payload arguments."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

from cortex_plane.durations import ago, rough, span
from cortex_plane.errors import InvalidInput, NotFound
from cortex_plane.jobs.states import JobStatus, RunStatus

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text


__all__ = ["ago", "duration", "duration_or_moment", "moment", "rough", "span", "stamp"]

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
PARTS = re.compile(r"(?<!\d)(\d++(?:\.\d++)?+)([smhd])")


def duration(text: str, field: str) -> float:
    """Seconds: `90`, `90s`, `5m`, `1h30m`, `2d`."""
    written = text.strip().lower().replace(" ", "")
    try:
        return float(written)
    except ValueError:
        pass
    parts = PARTS.findall(written)
    if not parts or "".join(number + unit for number, unit in parts) != written:
        raise InvalidInput(f"--{field} {text!r:.40} is not a duration. Write 90, 90s, 5m, 1h30m or 2d.", field=field)
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def moment(text: str, field: str) -> datetime:
    """A time in ISO 8601; UTC if it has no time zone."""
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(
            f"--{field} {text!r:.40} is not a time. Write 2026-01-05T09:00 for UTC, or 2026-01-05T09:00+01:00.", field=field
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def duration_or_moment(text: str, field: str) -> float | datetime:
    try:
        return duration(text, field)
    except InvalidInput:
        pass
    try:
        return moment(text, field)
    except InvalidInput:
        raise InvalidInput(
            f"--{field} {text!r:.40} is neither a duration nor a time. Write 90, 5m, 2h or 2026-01-05T09:00+01:00.", field=field
        ) from None


def stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


# -- payloads ----------------------------------------------------------------------------------
# A job's payload on the command line: key=value pairs, a JSON object, or a JSON file.


Result = TypeVar("Result")

HOW = """Write key=value pairs (name=Ada count=3), one JSON object ('{"name": "Ada"}'), or @file.json (@- for stdin)."""


def payload_from(words: Sequence[str]) -> dict[str, Any]:
    match words:
        case ["@-"]:
            return _object(sys.stdin.read(), "The payload from stdin")
        case [word] if word.startswith("@"):
            return _object(_read(Path(word[1:])), word[1:])
        case [word] if word.lstrip().startswith("{"):
            return _object(word, "The payload")
        case _:
            return _pairs(words)


async def with_payload(words: Sequence[str], call: Callable[[dict[str, Any]], Awaitable[Result]]) -> Result:
    """Calls `call` with the payload. A value that looks like JSON is passed as text if the agent expects text: version=1.10.

    Only the plane or the server knows the agent's types, so a value that it rejects as JSON is tried again as text."""
    payload, refused = payload_from(words), dict[str, InvalidInput]()
    texts = {key: text for word in words for key, equals, text in [word.partition("=")] if equals}
    while True:
        try:
            return await call(payload)
        except InvalidInput as error:
            key = (error.field or "").partition(".")[2]
            if key in refused:
                raise refused[key] from None
            if key not in texts or not isinstance(payload.get(key), bool | int | float | None):
                raise
            payload, refused[key] = {**payload, key: texts[key]}, error


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}. You are in {Path.cwd()}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}", field="payload") from None


def _object(text: str, name: str) -> dict[str, Any]:
    from cortex_plane.json import loads_exactly

    try:
        found = loads_exactly(text)
    except ValueError as error:
        raise InvalidInput(f"{name} is not valid JSON: {error}.\n{HOW}", field="payload") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{name} is not a JSON object.\n{HOW}", field="payload")
    return found


def _pairs(words: Sequence[str]) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise InvalidInput(f'"{word:.60}" is not a key=value pair.\n{HOW}', field="payload")
        if key in payload:
            raise InvalidInput(f"\"{key}\" is given twice. For a list, write JSON: {key}='[1, 2]'", field="payload")
        payload[key] = _value(text)
    return payload


def _value(text: str) -> Any:
    """The value as JSON if it is valid JSON, otherwise as text: `3` is a number, `"3"` and `three` are text."""
    from cortex_plane.json import loads_exactly

    try:
        return loads_exactly(text)
    except ValueError:
        return text


# -- output ------------------------------------------------------------------------------------
# Results: tables and colours for people, one JSON document for programs.


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
    """A console without markup. Lines for a pipe are wide enough to search in them."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(file=stream, markup=False, highlight=False, emoji=False)
    width = int(os.environ.get("COLUMNS") or WIDTH_WITHOUT_A_TERMINAL)
    return Console(file=cast(TextIO, Trimmed(stream)), width=width, markup=False, highlight=False, emoji=False)


class Trimmed(io.TextIOBase):
    """A stream that removes trailing spaces, which fill the last column of tables."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(r"(?<! ) ++(?=\n)", "", text))

    def flush(self) -> None:
        self._stream.flush()


def print_json(document: Any) -> None:
    """Prints a document as indented JSON: datetimes as ISO 8601, dataclasses as objects."""
    import orjson

    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())


def status(value: JobStatus | RunStatus, label: str | None = None) -> Text:
    """The status with its symbol. `label` replaces its name."""
    from rich.text import Text

    symbol, colour = LOOKS[value]
    return Text(f"{symbol} {label or value.value}", colour)


def words(value: object, style: str = "") -> Text:
    """Text from outside, with terminal control characters escaped."""
    from rich.text import Text

    return Text("".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in str(value)), style)


def one_line(value: object, style: str = "", limit: int = LINE_LIMIT) -> Text:
    lines = str(value).strip().splitlines() or [""]
    cut = len(lines) > 1 or len(lines[0]) > limit
    return words(lines[0][: limit - 1] + "…" if cut else lines[0], style)


def document(value: Any) -> Text:
    """A JSON document, on one line if it is short."""
    from json import dumps

    from rich.highlighter import JSONHighlighter

    compact = dumps(value, ensure_ascii=False)
    text = words(compact if len(compact) <= SHORT_DOCUMENT else dumps(value, ensure_ascii=False, indent=2))
    JSONHighlighter().highlight(text)
    return text


def table(headings: Sequence[str], rows: Sequence[Sequence[RenderableType]], *, right: Iterable[int] = ()) -> Table:
    """A table. The last column gets the remaining width, and wraps."""
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
    """Like `table`, but the last column is truncated instead of wrapped."""
    used = sum(2 + max([len(heading), *(cells[place].cell_len for cells in rows)]) for place, heading in enumerate(headings[:-1]))
    room = console().width - used - indent
    for cells in rows:
        cells[-1].truncate(max(room, 1), overflow="ellipsis")
    return table(headings, rows, right=right)


def facts(pairs: Iterable[tuple[str, RenderableType | None]]) -> Table:
    """Names and values, one pair on each line. Pairs with the value None are left out."""
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
