"""SQL lives in files, one statement each; here they are found and put into the words of a driver.

`jobs/get` is `sql/jobs/get.sql` where both stores take the same text, else `get.sqlite.sql` or `get.postgres.sql`.
Parameters are named (`:job_id`); tables are written `cortex.job`, which SQLite, having one schema, reads as `job`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Dialect = Literal["sqlite", "postgres"]

FOLDER = Path(__file__).parent / "sql"
SCHEMA = re.compile(r"(?<!')\bcortex\.")  # Not inside a text: names of the plane's own agents begin so.
PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    name: str
    sql: str
    parameters: tuple[str, ...]


@cache
def statement(name: str, dialect: Dialect) -> Statement:
    text = _without_comments(_file(name, dialect).read_text())
    return _for_sqlite(name, text) if dialect == "sqlite" else _for_postgres(name, text)


@cache
def named(name: str, dialect: Dialect, style: str = ":{}") -> str:
    """The text with parameters left by name, in the style of a caller's own driver."""
    text = _without_comments(_file(name, dialect).read_text()).rstrip().rstrip(";")
    if dialect == "sqlite":
        return SCHEMA.sub("", text)
    return PARAMETER.sub(lambda found: style.format(found[1]), text.replace(":now", "cortex.now()"))


def _file(name: str, dialect: Dialect) -> Path:
    own = FOLDER / f"{name}.{dialect}.sql"
    return own if own.exists() else FOLDER / f"{name}.sql"


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def _for_sqlite(name: str, text: str) -> Statement:
    return Statement(name, SCHEMA.sub("", text), tuple(dict.fromkeys(PARAMETER.findall(text))))


def _for_postgres(name: str, text: str) -> Statement:
    """PostgreSQL numbers its parameters, and has a clock of its own."""
    text = text.replace(":now", "cortex.now()")
    names = tuple(dict.fromkeys(PARAMETER.findall(text)))
    places = {parameter: f"${place}" for place, parameter in enumerate(names, 1)}
    return Statement(name, PARAMETER.sub(lambda found: places[found[1]], text), names)
