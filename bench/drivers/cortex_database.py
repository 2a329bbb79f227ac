"""A look into Cortex Plane's tables from outside, on either store."""

from __future__ import annotations

from typing import Any, Protocol

import apsw
import asyncpg


class Database(Protocol):
    async def open(self) -> None: ...

    async def count(self, sql: str) -> int: ...

    async def settle(self) -> None: ...

    async def close(self) -> None: ...


def open_database(url: str) -> Database:
    return SqliteFile(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else PostgresDatabase(url)


class PostgresDatabase:
    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        self._connection: asyncpg.Connection[Any] = await asyncpg.connect(self._url)

    async def count(self, sql: str) -> int:
        return int(await self._connection.fetchval(sql))

    async def settle(self) -> None:
        await self._connection.execute("vacuum analyze")
        await self._connection.execute("checkpoint")

    async def close(self) -> None:
        await self._connection.close()


class SqliteFile:
    """Through apsw, as everything in a process that has a plane on the same file."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def open(self) -> None:
        self._connection = apsw.Connection(self._path)

    async def count(self, sql: str) -> int:
        return int(self._connection.execute(sql.replace("cortex.", "")).get)

    async def settle(self) -> None:
        self._connection.execute("analyze")
        self._connection.execute("pragma wal_checkpoint(restart)")

    async def close(self) -> None:
        self._connection.close()
