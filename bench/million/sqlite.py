"""Fills a SQLite file with copies of jobs that were really run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from bench.million.columns import insert
from bench.million.load import POSITION_SPACING, SPACING, Load

COPIES_IN_A_TRANSACTION = 50
COPIED = "select aged(id, 1) from original_job order by (status = 'COMPLETED') desc limit 1"


def fill(load: Load, path: Path, advance: Callable[[], object]) -> str:
    """Returns the id of a copied job. `advance` is called after each round of copies."""
    asyncio.run(_run(load, f"sqlite:///{path}"))
    connection = apsw.Connection(str(path))
    try:
        connection.execute("pragma synchronous = off")
        connection.create_scalar_function("aged", aged, 2, deterministic=True)
        connection.create_scalar_function("numbered", numbered, 2, deterministic=True)
        connection.create_scalar_function("rewritten", rewritten, 3, deterministic=True)
        connection.create_scalar_function("seconds", seconds, 1, deterministic=True)
        for table in load.tables:
            connection.execute(f"create temp table original_{table} as select * from main.{table}")
        triggers = _drop_triggers(connection, load.tables)
        _copy(connection, load, advance)
        for trigger in triggers:
            connection.execute(trigger)
        connection.execute("update counter set value = ? where name = 'position'", (POSITION_SPACING * (load.copies + 1),))
        connection.execute("update counter set value = ? where name = 'queue_entry'", (SPACING * (load.copies + 1),))
        connection.execute("pragma wal_checkpoint(truncate)")
        return str(connection.execute(COPIED).get)
    finally:
        connection.close()


async def _run(load: Load, database_url: str) -> None:
    await load.run(database_url)


def aged(*arguments: Any) -> str | None:
    """Takes `copy` seconds from the time with which a UUID of version 7 begins."""
    text, copy = arguments
    if text is None or text[14:15] != "7":
        return text  # type: ignore[no-any-return]
    milliseconds = int(text[:8] + text[9:13], 16) - 1000 * copy
    return f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}{text[13:]}"


def numbered(*arguments: Any) -> str | None:
    text, copy = arguments
    return None if text is None else f"{text[:-8]}{copy:08x}"


def rewritten(*arguments: Any) -> str | None:
    document, text, copy = arguments
    return document if text is None else document.replace(text, aged(text, copy))  # type: ignore[no-any-return]


def seconds(*arguments: Any) -> int:
    [copy] = arguments
    return int(1_000_000 * copy)


def _drop_triggers(connection: apsw.Connection, tables: tuple[str, ...]) -> list[str]:
    places = ", ".join("?" * len(tables))
    found = connection.execute(f"select name, sql from sqlite_master where type = 'trigger' and tbl_name in ({places})", tables)
    triggers = [(str(name), str(sql)) for name, sql in found.fetchall()]
    for name, _ in triggers:
        connection.execute(f"drop trigger {name}")
    return [sql for _, sql in triggers]


def _copy(connection: apsw.Connection, load: Load, advance: Callable[[], object]) -> None:
    statements = [_statement(connection, load, table) for table in load.tables]
    for oldest in range(load.copies, 0, -COPIES_IN_A_TRANSACTION):
        with connection:
            for copy in range(oldest, max(oldest - COPIES_IN_A_TRANSACTION, 0), -1):
                for statement in statements:
                    connection.execute(statement, {"copy": copy})
                advance()


def _statement(connection: apsw.Connection, load: Load, table: str) -> str:
    columns = [str(row[1]) for row in connection.execute(f"pragma table_info({table})")]
    return insert(load, table, f"main.{table}", columns)
