"""Loads SQL statements by name and translates them for a driver.

`templates/get` is the statement under `-- name: get` in `templates.sql`, which stands in the folder of its noun. Where the stores
must differ there are two: `-- name: get [sqlite]` and `-- name: get [postgres]`. Text under `-- fragment: columns` replaces
`{columns}` in that file. Parameters are named (`:job_id`); tables are written `cortex.job`, which SQLite, having one schema,
reads as `job`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Dialect = Literal["sqlite", "postgres"]

PACKAGE = Path(__file__).parents[1]
HEADER = re.compile(r"^-- (name|fragment): (\w+)(?: \[(sqlite|postgres)\])?\n", re.MULTILINE)
FRAGMENT = re.compile(r"\{([a-z_]+)\}")
SCHEMA = re.compile(r"(?<!')\bcortex\.")  # Not inside a literal: names of the plane's own agents begin so.
PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    name: str
    sql: str
    parameters: tuple[str, ...]


@cache
def statement(name: str, dialect: Dialect) -> Statement:
    """The statement with the parameters of the driver.

    Raises:
        KeyError: There is no statement of that name for this dialect.
    """
    text = _without_comments(source(name, dialect))
    return _for_sqlite(name, text) if dialect == "sqlite" else _for_postgres(name, text)


@cache
def named(name: str, dialect: Dialect, style: str = ":{}") -> str:
    """The text with parameters left by name, in the style of a caller's own driver."""
    text = _without_comments(source(name, dialect)).rstrip().rstrip(";")
    if dialect == "sqlite":
        return SCHEMA.sub("", text)
    return PARAMETER.sub(lambda found: style.format(found[1]), text.replace(":now", "cortex.now()"))


def source(name: str, dialect: Dialect) -> str:
    """The text of a statement as it is written, with its comments."""
    file, _, key = name.partition("/")
    texts = statements_in(statement_files()[file])
    return texts.get(f"{key}.{dialect}") or texts[key]


@cache
def statement_files() -> dict[str, Path]:
    """The files of statements by their stem, which is unique in the package."""
    found: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.sql")):
        if path.name != "schema.sql" and path.parent.name != "migrations":
            if path.stem in found:
                raise ValueError(f"{path} and {found[path.stem]} have one name.")
            found[path.stem] = path
    return found


@cache
def statements_in(path: Path) -> dict[str, str]:
    """The statements of a file, comments included, by `get`, `get.sqlite` or `get.postgres`.

    Raises:
        ValueError: A name stands twice.
        KeyError: A statement uses a fragment that the file does not define.
    """
    found: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    _, *parts = HEADER.split(path.read_text())
    for kind, name, dialect, text in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
        key = f"{name}.{dialect}" if dialect else name
        if key in found[kind]:
            raise ValueError(f"{path.name} has two texts for {key}.")
        found[kind][key] = text.strip()
    return {key: FRAGMENT.sub(lambda use: found["fragment"][use[1]], text) for key, text in found["name"].items()}


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
