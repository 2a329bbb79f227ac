"""The tables and functions of the PostgreSQL schema, from the schema file, the migrations and the comments in them."""

from __future__ import annotations

import re
from typing import NamedTuple

from cortex_plane.storage.migrations import migrations_in
from cortex_plane.storage.postgres.schema import FOLDER
from docs.builder.markdown import code, literal, table

COMMENT = re.compile(r"comment on (table|column|function) cortex\.([\w.]+)[^;]*?\bis\s+'((?:[^']|'')*)'\s*;")
CREATED = re.compile(r"create table cortex\.(\w+) \(\n(.*?)\n\)", re.DOTALL)
ADDED = re.compile(r"alter table cortex\.(\w+)\s+add column (.*?);", re.DOTALL)
COLUMN = re.compile(r"\s*(\w+) ([\w.]+(?:\[\])?)")
ADD_JOB = re.compile(r"create (?:or replace )?function cortex\.add_job\((.*?)\)\s*returns (\w+)", re.DOTALL)

INTRODUCTION = """# Tables

On PostgreSQL everything is in the schema `cortex`; on SQLite the same tables and columns have no prefix, ids are text, instants
are whole microseconds since 1970, and JSON is text. Read them as you like. Change the state of a job only through the plane or
`cortex.add_job`: the database refuses what the state machine does not allow, and writes history, runs and queue entries itself.
"""


class Schema(NamedTuple):
    tables: dict[str, str]
    columns: dict[str, dict[str, str]]
    types: dict[tuple[str, str], str]
    functions: dict[str, str]
    add_job: str


def page() -> str:
    schema = read_schema()
    parts = [
        INTRODUCTION,
        "## Submitting from SQL\n",
        f"{schema.functions['add_job']}\n",
        code(schema.add_job, "sql"),
        "## Other functions\n",
        table(["function", "what it does"], [(literal(f"cortex.{name}"), text) for name, text in _others(schema)]),
    ]
    for name in sorted(schema.tables):
        rows = [
            (literal(column), literal(schema.types.get((name, column), "")), text)
            for column, text in schema.columns[name].items()
        ]
        parts += [f"## {name}\n", f"{schema.tables[name]}\n", table(["column", "type", "what it is"], rows)]
    return "\n".join(parts)


def read_schema() -> Schema:
    """Later migrations go before earlier ones."""
    schema = Schema({}, {}, {}, {}, "")
    for migration in migrations_in(FOLDER):
        _read_types(schema, migration.sql)
        _read_comments(schema, migration.sql)
        if found := ADD_JOB.search(migration.sql):
            schema = schema._replace(add_job=f"cortex.add_job({found[1]}) returns {found[2]}")
    return schema


def _read_types(schema: Schema, sql: str) -> None:
    found = [(name, body.split("\n")) for name, body in CREATED.findall(sql)]
    found += [(name, re.split(r",\s*add column ", body)) for name, body in ADDED.findall(sql)]
    for name, lines in found:
        for line in lines:
            if column := COLUMN.match(line):
                schema.types[name, column[1]] = column[2]


def _read_comments(schema: Schema, sql: str) -> None:
    for kind, path, quoted in COMMENT.findall(sql):
        text = quoted.replace("''", "'")
        match kind:
            case "table":
                schema.tables[path] = text
            case "column":
                name, _, column = path.partition(".")
                schema.columns.setdefault(name, {})[column] = text
            case _:
                schema.functions[path] = text


def _others(schema: Schema) -> list[tuple[str, str]]:
    return [(name, text) for name, text in sorted(schema.functions.items()) if name != "add_job"]
