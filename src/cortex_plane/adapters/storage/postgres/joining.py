"""Submits inside the transaction of a caller's own connection, whichever driver it comes from."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage.database import Row
from cortex_plane.adapters.storage.statements import named, statement
from cortex_plane.core.errors import InvalidInput


async def fetch_in(connection: Any, name: str, values: dict[str, Any]) -> Sequence[Row]:
    match _driver_of(connection):
        case "asyncpg":
            wanted = statement(name, "postgres")
            rows: Sequence[Row] = await connection.fetch(wanted.sql, *[values[parameter] for parameter in wanted.parameters])
            return rows
        case "psycopg":
            return await _psycopg_rows(await _done(connection.execute(named(name, "postgres", "%({})s"), values)))
        case "sqlalchemy":
            from sqlalchemy import text

            result = await _done(connection.execute(text(named(name, "postgres")), values))
            return list(result.mappings()) if result.returns_rows else []
        case "sqlite3" | "apsw":
            raise InvalidInput("This plane is on PostgreSQL; a SQLite connection cannot carry its jobs.", field="connection")
        case _:
            raise InvalidInput(
                "On PostgreSQL, connection= takes a connection of asyncpg, psycopg or SQLAlchemy, "
                f"not a {type(connection).__module__}.{type(connection).__name__}.",
                field="connection",
            )


async def _psycopg_rows(cursor: Any) -> Sequence[Row]:
    if cursor.description is None:
        return []
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in await _done(cursor.fetchall())]


def _driver_of(connection: Any) -> str | None:
    """By the class's family, so that no driver need be installed that the caller does not use."""
    families = {cls.__module__.split(".")[0] for cls in type(connection).__mro__}
    return next((driver for driver in ("asyncpg", "psycopg", "sqlalchemy", "sqlite3", "apsw") if driver in families), None)


async def _done(result: Any) -> Any:
    """The asynchronous and the blocking connections of a driver share their words."""
    return await result if inspect.isawaitable(result) else result
