"""Creates and migrates the PostgreSQL schema under an advisory lock, so that any number of processes may try at once."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from cortex_plane.adapters.storage.migrations import Migration, SchemaStatus, migrations_in, pending, status_of
from cortex_plane.adapters.storage.postgres.database import PostgresDatabase
from cortex_plane.adapters.storage.postgres.errors import BROKEN, translate
from cortex_plane.core.errors import WrongDatabase

FOLDER = Path(__file__).parent / "migrations"
OLDEST_SERVER = 140000
LOCK = 1129270867


class PostgresSchema:
    def __init__(self, database: PostgresDatabase, folder: Path = FOLDER) -> None:
        self._database = database
        self._known = migrations_in(folder)

    async def status(self) -> SchemaStatus:
        connection = await self._database.connect()
        try:
            await _refuse_old_server(connection)
            return status_of(self._known, await _applied(connection))
        except (*BROKEN, asyncpg.PostgresError) as error:
            raise translate(error, self._database.where) from error
        finally:
            connection.terminate()

    async def upgrade(self) -> list[str]:
        connection = await self._database.connect()
        try:
            await _refuse_old_server(connection)
            async with connection.transaction():
                await connection.execute(f"select pg_advisory_xact_lock({LOCK})")
                return await self._apply_missing(connection)
        except (*BROKEN, asyncpg.PostgresError) as error:
            raise translate(error, self._database.where) from error
        finally:
            connection.terminate()

    async def _apply_missing(self, connection: asyncpg.Connection) -> list[str]:
        todo = pending(self._known, await _applied(connection))
        for migration in todo:
            await _apply(connection, migration)
        return [f"{migration.version:04} {migration.name}" for migration in todo]


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    await connection.execute(migration.sql)
    await connection.execute(
        "insert into cortex.migration (version, name, checksum) values ($1, $2, $3)",
        migration.version,
        migration.name,
        migration.checksum,
    )


async def _applied(connection: asyncpg.Connection) -> dict[int, str]:
    if await connection.fetchval("select to_regclass('cortex.migration')") is None:
        return {}
    return {row["version"]: row["checksum"] for row in await connection.fetch("select version, checksum from cortex.migration")}


async def _refuse_old_server(connection: asyncpg.Connection) -> None:
    version = int(await connection.fetchval("show server_version_num"))
    if version < OLDEST_SERVER:
        raise WrongDatabase(f"The server is PostgreSQL {version // 10000}; Cortex Plane needs 14 or later.")
