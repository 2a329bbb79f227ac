"""Fills a PostgreSQL database with copies of jobs that were really run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from bench.million.columns import insert
from bench.million.load import POSITION_SPACING, SPACING, Load

COPIES_IN_A_TRANSACTION = 50

# `aged` takes `copy` seconds from the time with which a UUID of version 7 begins.
DEFINITIONS = """
create function pg_temp.aged(id uuid, copy int) returns uuid language sql immutable as $$
  select encode(overlay(uuid_send(id) placing substring(int8send(
      ('x0000' || left(encode(uuid_send(id), 'hex'), 12))::bit(64)::bigint - 1000 * copy) from 3) from 1 for 6), 'hex')::uuid
$$;
create function pg_temp.aged(id text, copy int) returns text language sql immutable as $$
  select case when id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7' then pg_temp.aged(id::uuid, copy)::text else id end
$$;
create function pg_temp.numbered(text, copy int) returns text language sql immutable as $$
  select left($1, -8) || lpad(to_hex(copy), 8, '0')
$$;
create function pg_temp.rewritten(document jsonb, id uuid, copy int) returns jsonb language sql immutable as $$
  select coalesce(replace(document::text, id::text, pg_temp.aged(id, copy)::text)::jsonb, document)
$$;
create function pg_temp.seconds(copy int) returns interval language sql immutable as $$ select copy * interval '1 second' $$
"""
COPIED = "select pg_temp.aged(id, 1) from original_job order by (status = 'COMPLETED') desc limit 1"
FUNCTIONS = ("aged", "numbered", "rewritten", "seconds")


def fill(load: Load, database_url: str, advance: Callable[[], object]) -> str:
    """Returns the id of a copied job. `advance` is called after each round of copies."""
    return asyncio.run(_fill(load, database_url, advance))


async def _fill(load: Load, database_url: str, advance: Callable[[], object]) -> str:
    await load.run(database_url)
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(DEFINITIONS)
        for table in load.tables:
            await connection.execute(f"create temp table original_{table} as table cortex.{table}")
        await connection.execute("set session_replication_role = replica")  # No triggers.
        statements = [await _statement(connection, load, table) for table in load.tables]
        for oldest in range(load.copies, 0, -COPIES_IN_A_TRANSACTION):
            async with connection.transaction():
                for copy in range(oldest, max(oldest - COPIES_IN_A_TRANSACTION, 0), -1):
                    for statement in statements:
                        await statement.fetch(copy)
                    advance()
        await connection.execute(f"select setval('cortex.job_position', {POSITION_SPACING * (load.copies + 1)})")
        await connection.execute(f"select setval('cortex.queue_entry_id', {SPACING * (load.copies + 1)})")
        for table in {"audit_log", "job_event"} & {*load.tables}:
            last = SPACING * (load.copies + 1)
            await connection.execute(f"select setval(pg_get_serial_sequence('cortex.{table}', 'seq'), {last})")
        await connection.execute("checkpoint")
        return str(await connection.fetchval(COPIED))
    finally:
        await connection.close()


async def _statement(connection: asyncpg.Connection[Any], load: Load, table: str) -> Any:
    found = await connection.fetch(
        "select column_name from information_schema.columns where table_schema = 'cortex' and table_name = $1"
        " and is_generated = 'NEVER'",
        table,
    )
    columns = [row["column_name"] for row in found]
    sql = insert(load, table, f"cortex.{table}", columns, "overriding system value").replace(":copy", "$1::int")
    for function in FUNCTIONS:
        sql = sql.replace(f"{function}(", f"pg_temp.{function}(")
    return await connection.prepare(sql)
