"""People query the tables: each table and each column says what it is."""

from __future__ import annotations

import asyncpg
import pytest

pytestmark = pytest.mark.anyio

UNCOMMENTED = """
select c.relname || coalesce('.' || a.attname, '')
from pg_class c
left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'cortex'::regnamespace and c.relkind = 'r'
  and (col_description(c.oid, a.attnum) is null or obj_description(c.oid, 'pg_class') is null)
"""

COLUMNS = """
select table_name, column_name
from information_schema.columns
join information_schema.tables using (table_schema, table_name)
where table_schema = 'cortex' and table_type = 'BASE TABLE'
"""


async def test_every_table_and_column_has_a_comment(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)

    missing = [row[0] for row in await connection.fetch(UNCOMMENTED)]
    await connection.close()

    assert missing == []


async def test_both_stores_have_the_same_tables_and_columns(postgres_url: str, tmp_path: object) -> None:
    from pathlib import Path

    from cortex_plane.storage.migrations import migrations_in
    from cortex_plane.storage.sqlite.connection import connect
    from cortex_plane.storage.sqlite.schema import FOLDER

    connection = await asyncpg.connect(postgres_url)
    rows = await connection.fetch(COLUMNS)
    await connection.close()
    postgres = {(row[0], row[1]) for row in rows}

    lite = connect(Path(str(tmp_path)) / "x.db", for_writing=True)
    for migration in migrations_in(FOLDER):
        lite.execute(migration.sql)
    tables = [str(row[0]) for row in lite.execute("select name from sqlite_master where type = 'table'").fetchall()]
    sqlite = {(table, str(row[1])) for table in tables for row in lite.execute(f"pragma table_xinfo({table})").fetchall()}
    lite.close()

    only_sqlite = {("counter", "name"), ("counter", "value")}  # What sequences are elsewhere.
    only_postgres = {  # With one writer nobody has to wait: counts and keys are settled at once, and no worker's row is locked.
        *(("entry_count_change", column) for column in ("scope", "name", "state", "change")),
        *(("key_to_settle", column) for column in ("id", "tenant_id", "serial_key")),
        ("cost_total", "part"),
        *(("worker_beat", column) for column in ("worker_id", "lease_until")),
        *((table, column) for table, column in postgres if table == "open_run"),  # A view there, where no update is HOT.
    }
    assert postgres - only_postgres == sqlite - only_sqlite
