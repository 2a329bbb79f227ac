"""Creates and migrates the SQLite schema, inside the writer's transaction, so that processes take turns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from cortex_plane.storage.migrations import Migration, SchemaStatus, migrations_in, pending, status_of

if TYPE_CHECKING:
    from cortex_plane.clock import Clock
    from cortex_plane.storage.sqlite.database import SqliteDatabase

FOLDER = Path(__file__).parent


class SqliteSchema:
    def __init__(self, database: SqliteDatabase, clock: Clock, folder: Path = FOLDER) -> None:
        self._database = database
        self._clock = clock
        self._known = migrations_in(folder)

    async def status(self) -> SchemaStatus:
        return status_of(self._known, await self._database.run(applied))

    async def upgrade(self) -> list[str]:
        names: list[str] = await self._database.run(partial(self._apply_missing))
        return names

    def _apply_missing(self, connection: apsw.Connection) -> list[str]:
        todo = pending(self._known, applied(connection))
        for migration in todo:
            self._apply(connection, migration)
        return [f"{migration.version:04} {migration.name}" for migration in todo]

    def _apply(self, connection: apsw.Connection, migration: Migration) -> None:
        connection.execute(migration.sql)
        connection.execute(
            "insert into migration (version, name, checksum, applied_at) values (?, ?, ?, ?)",
            (migration.version, migration.name, migration.checksum, self._clock.now()),
        )


def applied(connection: apsw.Connection) -> dict[int, str]:
    if not connection.execute("select 1 from sqlite_master where name = 'migration'").fetchall():
        return {}
    rows: list[Any] = connection.execute("select version, checksum from migration").fetchall()
    return dict(rows)
