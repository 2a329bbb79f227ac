"""Creates and upgrades the PostgreSQL schema; names settings and sessions that slow or endanger a server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import structlog

from cortex_plane.errors import DatabaseConfigError
from cortex_plane.storage.migrations import Migration, SchemaStatus, migrations_in, pending, status_of
from cortex_plane.storage.postgres.errors import BROKEN, translate

if TYPE_CHECKING:
    from cortex_plane.storage.postgres.database import PostgresDatabase

FOLDER = Path(__file__).parent
OLDEST_SERVER = 140000
LOCK = 1129270867
LOCK_SECONDS = 1.0
GIVES_WAY_SECONDS = 2.0
NO_LIMITS = "set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0; set local lock_timeout = 0;"

log = structlog.get_logger()


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
            raise translate(error, self._database.description) from error
        finally:
            connection.terminate()

    async def upgrade(self) -> list[str]:
        """All or nothing. However long a statement takes; but whoever holds a lock on a table is not waited for, because
        heartbeats would queue behind a migration that waits. It gives way, and begins anew."""
        connection = await self._database.connect(command_timeout=None)
        try:
            await _refuse_old_server(connection)
            while True:
                try:
                    return await self._upgrade_once(connection)
                except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
                    log.warning(
                        "upgrade_gives_way", error=str(error), meaning="Another transaction uses the tables; tried again."
                    )
                await asyncio.sleep(GIVES_WAY_SECONDS * random.uniform(0.5, 1.0))
        except (*BROKEN, asyncpg.PostgresError) as error:
            raise translate(error, self._database.description) from error
        finally:
            connection.terminate()

    async def _upgrade_once(self, connection: asyncpg.Connection) -> list[str]:
        async with connection.transaction():
            await connection.execute(
                f"{NO_LIMITS} select pg_advisory_xact_lock({LOCK}); set local lock_timeout = '{LOCK_SECONDS}s'"
            )
            return await self._apply_missing(connection)

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
        raise DatabaseConfigError(f"The server is PostgreSQL {version // 10000}; Cortex Plane needs 14 or later.")


# -- condition ---------------------------------------------------------------------------------
# What of a server's settings and sessions makes the plane slow, or loses what it has acknowledged.


HELD_TOO_LONG_SECONDS = 600
SMALL_BUFFERS_BYTES = 64 * 1024**2
SHORT_STATEMENT_SECONDS = 60
NEARLY_FULL = 0.9

QUESTION = f"""
select
  current_setting('server_version') as version,
  current_setting('fsync') = 'on' as fsync,
  current_setting('synchronous_commit') <> 'off' as durable,
  current_setting('full_page_writes') = 'on' as full_page_writes,
  current_setting('autovacuum') = 'on' and current_setting('track_counts') = 'on' as autovacuum,
  current_setting('default_transaction_isolation') as isolation,
  pg_size_bytes(current_setting('shared_buffers')) as shared_buffers,
  extract(epoch from current_setting('statement_timeout')::interval)::float as statement_timeout,
  current_setting('max_connections')::int as max_connections,
  (select count(*) from pg_stat_activity where backend_type = 'client backend')::int as connections,
  (select string_agg(format('%s of user %s on database %s, open for %s s', pid, usename, datname, seconds), '; ')
    from (
      select pid, usename, datname, floor(extract(epoch from clock_timestamp() - xact_start)) as seconds
      from pg_stat_activity
      where backend_type = 'client backend' and xact_start < clock_timestamp() - interval '{HELD_TOO_LONG_SECONDS} seconds'
      order by xact_start limit 3) held) as held,
  (select string_agg(slot_name, ', ') from pg_replication_slots where xmin is not null and not active) as slots,
  (select string_agg(gid, ', ') from pg_prepared_xacts
    where prepared < clock_timestamp() - interval '{HELD_TOO_LONG_SECONDS} seconds') as prepared
"""


async def server_condition(database: PostgresDatabase) -> dict[str, Any]:
    connection = await database.connect()
    try:
        row = await connection.fetchrow(QUESTION)
        assert row is not None
        return dict(row)
    except (*BROKEN, asyncpg.PostgresError) as error:
        raise translate(error, database.description) from error
    finally:
        connection.terminate()


def problems_of(server: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each with what to do about it."""
    if not server["fsync"]:
        yield "fsync is off on the server: a crash of its machine can destroy the database.", "Set fsync = on."
    if not server["full_page_writes"]:
        yield "full_page_writes is off: a crash of the server's machine can damage pages.", "Set full_page_writes = on."
    if not server["durable"]:
        yield "synchronous_commit is off: a crash of the server loses acknowledged jobs.", "Set synchronous_commit = on."
    if not server["autovacuum"]:
        yield (
            "Autovacuum is off, so every claim walks past more and more dead rows.",
            "Set autovacuum = on and track_counts = on.",
        )
    if server["isolation"] != "read committed":
        yield (
            f'default_transaction_isolation is "{server["isolation"]}": concurrent workers make each other repeat their work.',
            'Set it to "read committed" for this role or database.',
        )
    if server["shared_buffers"] < SMALL_BUFFERS_BYTES:
        yield (
            f"shared_buffers is only {server['shared_buffers'] // 1024**2} MB.",
            "Give it a quarter of the memory, at least 128 MB.",
        )
    if 0 < server["statement_timeout"] < SHORT_STATEMENT_SECONDS:
        yield (
            f"statement_timeout is {server['statement_timeout']:g} s: retention and exports may be cut off.",
            f"Set it to {SHORT_STATEMENT_SECONDS} s or more for this role.",
        )
    if server["connections"] >= NEARLY_FULL * server["max_connections"]:
        yield (
            f"{server['connections']} of {server['max_connections']} connections are in use.",
            "Raise max_connections, or put short-lived clients behind PgBouncer.",
        )
    if server["held"]:
        yield (
            f"A transaction stays open, so dead rows of the queue cannot be removed and claims slow down: {server['held']}.",
            "End it (select pg_terminate_backend(PID)), and set idle_in_transaction_session_timeout.",
        )
    if server["slots"]:
        yield f"An unused replication slot keeps dead rows: {server['slots']}.", "select pg_drop_replication_slot('NAME')"
    if server["prepared"]:
        yield (
            f"A prepared transaction keeps dead rows and its locks: {server['prepared']}.",
            "commit prepared or rollback prepared it.",
        )
