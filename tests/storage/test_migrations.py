"""The schema and its migrations: forward only, once, all or nothing, and never on a database of another making."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cortex_plane.errors import CortexError, DatabaseConfigError
from cortex_plane.storage.migrations import Migration, migrations_in, pending, status_of
from cortex_plane.storage.postgres import database as postgres_database
from cortex_plane.storage.postgres import schema as postgres_schema
from cortex_plane.storage.sqlite import schema as sqlite_schema
from cortex_plane.testing import ManualClock
from cortex_plane.wiring import open_store
from tests.contract.support import Raw, Scene, raw_client

pytestmark = pytest.mark.anyio

CREATED = re.compile(r"create (?:unique )?(\w+) (?:cortex\.)?(\w+)")

ONE, TWO = Migration(1, "ground", "select 1;"), Migration(2, "more", "select 2;")

OBJECTS = {
    "sqlite": "select type, name, tbl_name, sql from sqlite_master where name not like 'sqlite_stat%' order by type, name",
    "postgres": """
        select c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = 'cortex'::regnamespace
        union all
        select proname, null, pg_get_functiondef(oid), null, null, null from pg_proc where pronamespace = 'cortex'::regnamespace
        union all
        select c.relname, null, pg_get_triggerdef(t.oid), null, null, null
        from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = 'cortex'::regnamespace and not t.tgisinternal
        order by 1, 2, 3
    """,
}


# -- the rules, without any database -------------------------------------------------------------


@pytest.mark.parametrize(
    ("applied", "names"),
    [({}, ["0001 ground", "0002 more"]), ({1: ONE.checksum}, ["0002 more"]), ({1: ONE.checksum, 2: TWO.checksum}, [])],
)
async def test_what_is_missing_is_pending(applied: dict[int, str], names: list[str]) -> None:
    status = status_of([ONE, TWO], applied)

    assert list(status.pending) == names
    assert (status.current, status.latest) == (max(applied, default=0), 2)


async def test_a_database_of_a_newer_program_is_refused() -> None:
    with pytest.raises(DatabaseConfigError, match=r"schema version 3, this program knows only up to 2.*newer cortex-plane"):
        pending([ONE, TWO], {1: ONE.checksum, 2: TWO.checksum, 3: "x"})


async def test_a_migration_that_was_changed_afterwards_is_refused() -> None:
    with pytest.raises(DatabaseConfigError, match=r"Migration 1 \(ground\) is not the one"):
        pending([ONE, TWO], {1: "another text"})


@pytest.mark.parametrize("module", [sqlite_schema, postgres_schema], ids=["sqlite", "postgres"])
async def test_our_own_migrations_are_numbered_without_gaps(module: Any) -> None:
    known = migrations_in(module.FOLDER)

    assert [migration.version for migration in known] == list(range(1, len(known) + 1))
    files = list((module.FOLDER / "migrations").glob("*.sql"))
    assert len(known) == 1 + len(files), "a file whose name does not fit would be passed over"


@pytest.mark.parametrize("module", [sqlite_schema, postgres_schema], ids=["sqlite", "postgres"])
async def test_the_schema_file_creates_each_object_once(module: Any) -> None:
    """It shows the present state: nothing in it is changed or dropped further down."""
    statements = [line for line in (module.FOLDER / "schema.sql").read_text().splitlines() if re.match(r"[a-z]", line)]
    created = Counter(match[0] for line in statements if (match := CREATED.match(line)))

    assert len(created) > 250
    assert [name for name, times in created.items() if times > 1] == []
    assert [line for line in statements if re.match("alter|drop|create or replace", line)] == []


async def test_both_stores_have_the_same_migrations() -> None:
    names = [[(m.version, m.name) for m in migrations_in(module.FOLDER)] for module in (sqlite_schema, postgres_schema)]

    assert names[0] == names[1]


# -- on each store -------------------------------------------------------------------------------


class Folder:
    """Our schema and migrations, and what a later version would add."""

    def __init__(self, path: Path, database_url: str) -> None:
        self.path, self.url = path, database_url
        module: Any = sqlite_schema if database_url.startswith("sqlite") else postgres_schema
        (path / "migrations").mkdir(parents=True)
        for file in [module.FOLDER / "schema.sql", *(module.FOLDER / "migrations").glob("*.sql")]:
            shutil.copy(file, path / file.relative_to(module.FOLDER))
        self.prefix = "" if database_url.startswith("sqlite") else "cortex."

    def add(self, name: str, sql: str) -> None:
        (self.path / "migrations" / name).write_text(sql.replace("cortex.", self.prefix))

    @property
    def latest(self) -> int:
        """The last of our own."""
        return max(migration.version for migration in migrations_in(self.path) if migration.name not in ("colour", "wrong"))

    def later(self, number: int, name: str, sql: str) -> str:
        version = f"{self.latest + number:04}"
        self.add(f"{version}_{name}.sql", sql)
        return f"{version} {name}"

    def store(self) -> Any:
        store: Any = open_store(self.url, ManualClock())
        session = store.database.session
        arguments = (session, ManualClock()) if self.url.startswith("sqlite") else (session,)
        session.schema = type(session.schema)(*arguments, folder=self.path)
        return store


@pytest.fixture
def folder(tmp_path: Path, database_url: str) -> Folder:
    return Folder(tmp_path / "schema", database_url)


@pytest.fixture
async def made(folder: Folder, database_url: str) -> AsyncIterator[Raw]:
    """A raw client of a database that the present version has made, with one job in it."""
    store = folder.store()
    await store.open()
    await Scene(store, ManualClock()).submit()
    await store.close()
    async with raw_client(database_url, ManualClock()) as client:
        yield client


async def test_opening_twice_migrates_once(folder: Folder, made: Raw) -> None:
    before = await made("select * from cortex.migration")
    store = folder.store()
    await store.open()
    await store.close()

    assert await made("select * from cortex.migration") == before


async def test_a_newer_migration_is_applied_on_sqlite_and_asked_for_on_postgresql(folder: Folder, made: Raw) -> None:
    colour = folder.later(1, "colour", "alter table cortex.agent add column colour text;")
    store = folder.store()
    if made.kind == "postgres":
        with pytest.raises(DatabaseConfigError, match="Run: cortex db upgrade"):
            await store.open()
        await store.open(prepare=False)
        assert (await store.schema.status()).pending == (colour,)
        assert await store.schema.upgrade() == [colour]
    else:
        await store.open()

    assert (await store.schema.status()).pending == ()
    assert await store.schema.upgrade() == []
    assert len(await store.jobs.list()) == 1
    assert await made("select colour from cortex.agent") == [(None,)]
    await store.close()


async def test_a_fresh_database_equals_a_migrated_one(database_url: str, folder: Folder, made: Raw) -> None:
    index = "create index agent_colour on cortex.agent (colour);"
    folder.later(1, "colour", f"alter table cortex.agent add column colour text; {index}")
    migrated = folder.store()
    await migrated.open(prepare=False)
    await migrated.schema.upgrade()
    after_migration = await made(OBJECTS[made.kind])
    await migrated.close()

    if made.kind == "sqlite":
        folder.url = database_url.replace("test.db", "fresh.db")
    else:
        await made("drop schema cortex cascade")
    fresh = folder.store()
    await fresh.open()
    await fresh.schema.upgrade()
    await fresh.close()

    async with raw_client(folder.url, ManualClock()) as client:
        assert await client(OBJECTS[made.kind]) == after_migration
    assert any("agent_colour" in str(row) for row in after_migration)


async def test_a_migration_that_fails_leaves_nothing_of_itself_or_its_company(folder: Folder, made: Raw) -> None:
    folder.later(1, "colour", "alter table cortex.agent add column colour text;")
    folder.later(2, "wrong", "alter table cortex.agent add column size text; alter table cortex.nowhere add column x text;")
    store = folder.store()
    await store.open(prepare=False)
    with pytest.raises(CortexError):
        await store.schema.upgrade()

    assert (await store.schema.status()).current == folder.latest
    assert await made("select max(version) from cortex.migration") == [(folder.latest,)]
    assert len(await store.jobs.list()) == 1
    await store.close()


async def test_a_newer_database_is_refused_and_untouched(folder: Folder, made: Raw) -> None:
    values = f"values (99, 'future', 'x', {made.now})"
    await made(f"insert into cortex.migration (version, name, checksum, applied_at) {values}")
    store = folder.store()
    with pytest.raises(DatabaseConfigError, match="newer cortex-plane"):
        await store.open()

    assert len(await made("select * from cortex.migration")) == folder.latest + 1


async def test_a_database_with_another_first_migration_is_refused(folder: Folder, made: Raw) -> None:
    await made("update cortex.migration set checksum = 'another'")
    store = folder.store()
    with pytest.raises(DatabaseConfigError, match="not the one that this database was made with"):
        await store.open()


async def test_a_database_without_our_schema_says_what_to_do(database_url: str, folder: Folder, made: Raw) -> None:
    """`prepare=False` is for commands that must not change anything."""
    if made.kind == "sqlite":
        url = database_url.replace("test.db", "other.db")
    else:
        await made("drop schema cortex cascade")
        url = database_url
    store: Any = open_store(url, ManualClock())
    await store.open(prepare=False)
    status = await store.schema.status()
    with pytest.raises(CortexError):
        await store.jobs.list()

    assert status.current == 0
    assert status.pending
    await store.close()


# -- beside a plane that works -------------------------------------------------------------------


async def test_a_migration_gives_way_to_others_so_that_no_heartbeat_queues_behind_it(folder: Folder, made: Raw) -> None:
    if made.kind == "sqlite":
        pytest.skip("SQLite has one writer, and migrates when a plane opens.")
    colour = folder.later(1, "colour", "alter table cortex.worker add column colour text;")
    store = folder.store()
    await store.open(prepare=False)
    scene = Scene(store, ManualClock())
    worker = await scene.worker(lease_seconds=1000)
    await made("begin")
    await made("select * from cortex.worker")  # Somebody's report, for hours.
    upgrade = asyncio.create_task(store.schema.upgrade())
    for _ in range(5):
        await asyncio.sleep(0.3)
        assert await asyncio.to_thread(store.workers.heartbeat(worker), 5.0)
    assert not upgrade.done()
    await made("rollback")

    assert await asyncio.wait_for(upgrade, 30) == [colour]
    await store.close()


async def test_a_migration_may_take_longer_than_other_statements(
    folder: Folder, made: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    if made.kind == "sqlite":
        pytest.skip("SQLite has no limit for a statement.")
    monkeypatch.setattr(postgres_database, "STATEMENT_SECONDS", 0.3)
    await made("alter database " + folder.url.rpartition("/")[2] + " set statement_timeout = '300ms'")
    slow = folder.later(1, "colour", "select pg_sleep(0.6);")
    store = folder.store()

    assert await store.schema.upgrade() == [slow]
