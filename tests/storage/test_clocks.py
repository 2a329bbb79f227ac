"""One clock: SQL takes the time from `:now` or `cortex.now()`, Python from the clock that it is given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import cortex_plane

SOURCE = Path(cortex_plane.__file__).parent
SQL = [*SOURCE.rglob("*.sql")]

OTHER_CLOCKS = re.compile(
    r"""(?<!cortex\.)\bnow\s*\(
      | \b(?:statement_timestamp|clock_timestamp|transaction_timestamp|timeofday)\b
      | \b(?:current_timestamp|current_date|current_time|localtime|localtimestamp)\b
      | \b(?:julianday|unixepoch|datetime|date|time)\s*\(\s*\)
      | \bstrftime\s*\(\s*'[^']*'\s*\)
      | '(?:now|today|tomorrow|yesterday)'
    """,
    re.VERBOSE | re.IGNORECASE,
)
# The definition of the one clock itself.
THE_CLOCK = "as $$ select statement_timestamp() $$;"

# Calls that read the time of day; time.monotonic and friends measure, and are allowed.
TIME_OF_DAY = {
    "time.time",
    "time.time_ns",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "time.localtime",
    "time.gmtime",
}
MAY_READ_IT = {"clock.py", "ids.py"}


def sql_without_comments(path: Path) -> str:
    return "\n".join(re.sub(r"--.*", "", line) for line in path.read_text().splitlines())


@pytest.mark.parametrize("path", SQL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_statement_has_a_clock_of_its_own(path: Path) -> None:
    text = sql_without_comments(path).replace(THE_CLOCK, "")

    assert OTHER_CLOCKS.findall(text) == []


def test_the_one_clock_is_defined_once() -> None:
    assert sum(path.read_text().count(THE_CLOCK) for path in SQL) == 1


@pytest.mark.parametrize(
    "text",
    [
        "select now()",
        "default now ()",
        "CURRENT_TIMESTAMP",
        "clock_timestamp()",
        "datetime('now')",
        "unixepoch()",
        "strftime('%s')",
        "strftime('%s', 'now')",
        "timestamp 'today'",
    ],
)
def test_another_clock_would_be_noticed(text: str) -> None:
    assert OTHER_CLOCKS.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "cortex.now()",
        "values (:now)",
        "due_at <= cortex.now()",
        "updated_at",
        "extract(epoch from due_at)",
        "strftime('%s', due_at)",
    ],
)
def test_our_clock_is_not_mistaken_for_another(text: str) -> None:
    assert not OTHER_CLOCKS.search(text)


def reads_of_the_time(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            *_, owner, name = ast.unparse(node).split(".") if "." in ast.unparse(node) else ("", "", "")
            if f"{owner}.{name}" in TIME_OF_DAY:
                yield f"{owner}.{name}"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"time.{alias.name}" for alias in node.names if f"time.{alias.name}" in TIME_OF_DAY)


def test_no_code_reads_the_time_of_day_but_the_systems_clock() -> None:
    found = {
        str(path.relative_to(SOURCE)): list(reads_of_the_time(ast.parse(path.read_text())))
        for path in SOURCE.rglob("*.py")
        if "testing" not in path.parts
    }

    assert {name for name, reads in found.items() if reads} == MAY_READ_IT


@pytest.mark.parametrize(
    "code", ["import time\ntime.time()", "datetime.datetime.now(UTC)", "from time import time_ns", "date.today()"]
)
def test_a_read_of_the_time_would_be_noticed(code: str) -> None:
    assert list(reads_of_the_time(ast.parse(code)))
