"""Opening a SQLite file: what is refused, in words that help."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from cortex_plane import Context
from cortex_plane.errors import CortexError, DatabaseConfigError, InvalidInput, StorageFull, Unavailable
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId
from cortex_plane.storage.sqlite import connection as sqlite_connection
from cortex_plane.storage.sqlite import writer as sqlite_writer
from cortex_plane.storage.sqlite.connection import wal_is_safe
from cortex_plane.storage.sqlite.database import log_bytes
from cortex_plane.storage.sqlite.writer import CHECKPOINT_PAGES, TIDY_SECONDS
from cortex_plane.storage.statements import statement
from cortex_plane.testing import ManualClock, throwaway_plane
from cortex_plane.wiring import open_store
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

NOBODY = 65534


async def opened(url: str) -> Any:
    store: Any = open_store(url, ManualClock())
    await store.open()
    return store


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Root may write anywhere, so a test of permissions must not be root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    path = Path(tempfile.mkdtemp(prefix="cortex-test-"))
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("3.44.5", False),
        ("3.44.6", True),
        ("3.44.10", True),
        ("3.45.0", False),
        ("3.50.6", False),
        ("3.50.7", True),
        ("3.51.0", False),
        ("3.51.2", False),
        ("3.51.3", True),
        ("3.52.0", True),
        ("3.54.1", True),
        ("4.0.0", True),
        ("3.7.0", False),
    ],
)
def test_a_write_ahead_log_is_used_only_where_it_loses_nothing(version: str, safe: bool) -> None:
    assert wal_is_safe(version) is safe


def test_the_library_that_we_bring_is_safe() -> None:
    assert wal_is_safe(apsw.sqlite_lib_version())


@pytest.mark.parametrize("safe", [True, False])
async def test_an_affected_library_works_without_a_write_ahead_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: bool
) -> None:
    monkeypatch.setattr(sqlite_connection, "wal_is_safe", lambda _: safe)
    store = await opened(f"sqlite:///{tmp_path}/test.db")
    scene = Scene(store, ManualClock())
    job_id = await scene.submit()
    assert [one.job_id for one in await scene.claim(await scene.worker())] == [job_id]
    await store.close()

    plain = apsw.Connection(str(tmp_path / "test.db"))
    assert plain.execute("pragma journal_mode").get == ("wal" if safe else "delete")
    plain.close()


async def test_every_connection_is_safe_and_knows_foreign_keys(tmp_path: Path) -> None:
    connection = sqlite_connection.connect(tmp_path / "test.db", for_writing=True)

    assert connection.execute("pragma synchronous").get == 2
    assert connection.execute("pragma foreign_keys").get == 1
    assert connection.execute("pragma journal_mode").get == "wal"
    connection.close()


async def test_a_file_that_somebody_else_is_just_making_is_waited_for(tmp_path: Path) -> None:
    """SQLite does not ask the busy handler when it turns a new file into one with a write-ahead log."""
    maker = apsw.Connection(str(tmp_path / "test.db"))
    maker.execute("create table made (a)")
    maker.execute("begin immediate")
    opening = asyncio.create_task(asyncio.to_thread(sqlite_connection.connect, tmp_path / "test.db", for_writing=True))
    done, _ = await asyncio.wait([opening], timeout=0.3)
    maker.execute("commit")
    maker.close()

    assert not done
    connection = await asyncio.wait_for(opening, 10)
    assert connection.execute("pragma journal_mode").get == "wal"
    connection.close()


async def test_a_reader_cannot_write(tmp_path: Path) -> None:
    sqlite_connection.connect(tmp_path / "test.db", for_writing=True).close()
    reader = sqlite_connection.connect(tmp_path / "test.db", for_writing=False)

    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("create table t (a)")
    reader.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text("Dear diary, " * 500), "not a SQLite database"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + os.urandom(8_000)), "not a SQLite database|damaged"),
        (lambda path: path.mkdir(), "cannot be opened"),
    ],
    ids=["text", "garbage", "folder"],
)
async def test_a_path_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path, make: Any, words: str) -> None:
    path = tmp_path / "test.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None

    with pytest.raises(DatabaseConfigError, match=words):
        await opened(f"sqlite:///{path}")
    assert (path.read_bytes() if path.is_file() else None) == before


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseConfigError, match="Does its folder exist"):
        await opened(f"sqlite:///{tmp_path}/nowhere/test.db")

    assert not (tmp_path / "nowhere").exists()


def forbid(path: Path, what: str) -> None:
    for leftover in path.parent.glob("test.db-*"):
        leftover.unlink()
    path.chmod(0o666 if what == "folder" else 0o444)
    path.parent.chmod(0o777 if what == "file" else 0o555)


async def open_and_write(store: Any) -> None:
    """A file that may only be read can be opened, for reading; the first write is refused."""
    await store.open()
    await Scene(store, ManualClock()).agent()


@pytest.mark.parametrize("what", ["file", "folder", "both"])
async def test_writing_to_what_may_not_be_written_is_refused_in_words_that_help(folder: Path, what: str) -> None:
    path = folder / "test.db"
    await (await opened(f"sqlite:///{path}")).close()
    forbid(path, what)
    store: Any = open_store(f"sqlite:///{path}", ManualClock())

    with as_an_ordinary_user(), pytest.raises(DatabaseConfigError, match=r"read-only|cannot be opened"):
        await open_and_write(store)
    await store.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "cortex.db",
        "/tmp/cortex.db",
        "mysql://localhost/db",
        "sqlite://",
        "sqlite:///",
        "sqlite://cortex.db",
        "sqlite:cortex.db",
        "sqlite:///:memory:",
        "postgresql+asyncpg://localhost/db",
        "postgresql://localhost:port/db",
        "postgresql://[::1/db",
        "postgresql://localhost:99999/db",
        "postgresql:///db?port=x",
    ],
)
async def test_an_address_that_makes_no_sense_is_refused_before_anything_is_touched(url: str) -> None:
    with pytest.raises(DatabaseConfigError):
        await opened(url)


def test_several_hosts_may_be_named_and_no_password_is_shown() -> None:
    """asyncpg tries one after the other."""
    description = open_store("postgresql://ada:secret@one:5432,two:5433/cortex").description

    assert "cortex" in description
    assert "secret" not in description


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///a.db", "a.db"),
        ("sqlite:////a/b.db", "/a/b.db"),
        ("sqlite:///a%20b.db", "a b.db"),
        ("sqlite:///ü/c.db", "ü/c.db"),
    ],
)
def test_three_slashes_are_relative_and_four_are_absolute(url: str, path: str) -> None:
    assert open_store(url).description == f"SQLite, {path}"


async def test_a_disk_that_is_full_is_called_by_its_name_and_nothing_is_half_done(tmp_path: Path) -> None:
    store = await opened(f"sqlite:///{tmp_path}/test.db")
    scene = Scene(store, ManualClock())
    await scene.submit()
    await store.database.session.run(lambda connection: connection.execute("pragma max_page_count = 1").get)
    with pytest.raises(StorageFull, match="Free some space"):
        await scene.submit(payload='{"text":"' + "x" * 500_000 + '"}')

    assert len(await store.jobs.list()) == 1
    assert await store.queue.depths() == {"default": {"ready": 1}}
    await store.close()


async def test_a_closed_store_says_so_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    store = await opened(f"sqlite:///{tmp_path}/test.db")
    scene = Scene(store, ManualClock())
    job = await scene.new_job()
    await store.close()

    with pytest.raises(CortexError, match="not open"):
        await asyncio.wait_for(store.jobs.submit([job]), 3)
    with pytest.raises(CortexError, match="not open"):
        await asyncio.wait_for(store.jobs.list(), 3)
    with pytest.raises(CortexError):
        await asyncio.wait_for(asyncio.to_thread(store.workers.heartbeat("w"), 1.0), 3)


async def test_a_heartbeat_that_gets_no_answer_gives_up_in_time(tmp_path: Path) -> None:
    store = await opened(f"sqlite:///{tmp_path}/test.db")
    worker = await Scene(store, ManualClock()).worker()
    other = apsw.Connection(str(tmp_path / "test.db"))
    other.execute("begin immediate")
    with pytest.raises(Unavailable, match=r"within 0\.2 s"):
        await asyncio.to_thread(store.workers.heartbeat(worker), 0.2)
    other.execute("rollback")
    other.close()

    assert await asyncio.to_thread(store.workers.heartbeat(worker), 5.0)
    await store.close()


async def test_a_store_that_failed_to_open_leaves_no_thread_behind(tmp_path: Path) -> None:
    (tmp_path / "test.db").write_text("Dear diary")
    before = set(threading.enumerate())
    with pytest.raises(DatabaseConfigError):
        await opened(f"sqlite:///{tmp_path}/test.db")

    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "cortex-sqlite-writer"]


async def test_a_foreign_connection_is_refused(tmp_path: Path) -> None:
    store = await opened(f"sqlite:///{tmp_path}/test.db")
    job = await Scene(store, ManualClock()).new_job()
    foreign = sqlite3.connect(":memory:")
    with pytest.raises(InvalidInput, match="Python's sqlite3 cannot be joined"):
        await store.jobs.submit([job], foreign)
    foreign.close()
    with pytest.raises(InvalidInput, match=r"takes an apsw\.Connection, not a builtins\.str"):
        await store.jobs.submit([job], "connection")

    assert await store.jobs.list() == []
    await store.close()


async def test_statistics_of_a_small_table_do_not_slow_a_large_one(tmp_path: Path) -> None:
    """Somebody types ANALYZE while there are few jobs: the plans would be those for few jobs for ever."""
    async with throwaway_plane(f"sqlite:///{tmp_path}/test.db") as plane:

        @plane.agent("echo")
        async def echo(ctx: Context) -> None: ...

        await echo.submit()
        await plane.work()
        with closing(apsw.Connection(str(tmp_path / "test.db"))) as anybody:
            anybody.execute("analyze")
            assert anybody.execute("select count(*) from sqlite_stat1").get > 0

            await asyncio.sleep(TIDY_SECONDS)
            await echo.submit()

            assert anybody.execute("select count(*) from sqlite_stat1").get == 0


async def test_a_statement_is_planned_once_whatever_values_it_is_given(tmp_path: Path) -> None:
    """Planning a claim takes a hundred times as long as a claim that finds nothing."""
    store = await opened(f"sqlite:///{tmp_path}/test.db")
    await store.close()
    looked_at: list[int] = []

    def may(action: int, *_: str | None) -> int:
        """SQLite asks this for everything that a statement touches, whenever it plans it."""
        looked_at.append(action)
        return apsw.SQLITE_OK

    with closing(sqlite_connection.connect(tmp_path / "test.db", for_writing=True)) as connection:
        connection.authorizer = may
        for number in range(3):
            given = {
                "queues": f'["queue-{number}"]',
                "job_types": "[]",
                "run_ids": "[]",
                "free": 0,
                "worker_id": "",
                "actor": "",
                "now": number,
            }
            connection.execute(statement("queue/claim", "sqlite").sql, given).fetchall()
            assert bool(looked_at) == (number == 0)
            looked_at.clear()


async def test_a_checkpoint_does_not_send_its_worker_to_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even after a look at the queue that found nothing: each checkpoint would wait for the next look."""
    async with throwaway_plane(f"sqlite:///{tmp_path}/test.db") as plane:
        store: Any = plane.store
        signals = store.database.session.signals
        woken: list[str] = []

        @plane.agent("walker")
        async def walker(ctx: Context) -> None:
            await ctx.step("first", len, "")
            await asyncio.sleep(0.1)  # The worker, which has room for more, has looked for it.
            monkeypatch.setattr(signals, "something_committed", lambda: woken.append(threading.current_thread().name))
            for _ in range(5):
                await ctx.step("next", len, "")
            monkeypatch.undo()

        await walker.submit()
        await plane.work(concurrency=2)

    assert "cortex-sqlite-writer" not in woken


async def test_the_log_is_emptied_when_its_reader_has_gone_and_nobody_writes(tmp_path: Path) -> None:
    path, store = tmp_path / "test.db", await opened(f"sqlite:///{tmp_path}/test.db")
    scene = Scene(store, ManualClock())
    reader = apsw.Connection(str(path))
    reader.execute("begin")
    assert reader.execute("select count(*) from job").get == 0
    sample = await scene.new_job(payload='{"text":"' + "x" * 2_000 + '"}')
    for _ in range(4):
        await store.jobs.submit([replace(sample, id=JobId(new_id())) for _ in range(1_000)])
    grown = log_bytes(path)
    assert grown > CHECKPOINT_PAGES * 4096

    reader.execute("rollback")
    async with asyncio.timeout(30):
        while log_bytes(path):
            await asyncio.sleep(0.05)  # Another thread sees to it, half a second after the last write.

    reader.close()
    await store.close()


async def test_the_log_begins_anew_within_its_limit_while_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connection, "LOG_LIMIT_BYTES", 1_000_000)
    monkeypatch.setattr(sqlite_writer, "IDLE_SECONDS", 3_600.0)
    path, store = tmp_path / "test.db", await opened(f"sqlite:///{tmp_path}/test.db")
    scene = Scene(store, ManualClock())
    reader = apsw.Connection(str(path))
    reader.execute("begin")
    assert reader.execute("select count(*) from job").get == 0
    sample = await scene.new_job(payload='{"text":"' + "x" * 2_000 + '"}')
    for _ in range(3):
        await store.jobs.submit([replace(sample, id=JobId(new_id())) for _ in range(1_000)])
    assert log_bytes(path) > 4_000_000

    reader.execute("rollback")
    for _ in range(3):
        await scene.submit()

    assert log_bytes(path) <= 1_000_000
    reader.close()
    await store.close()


# -- file systems without shared memory ----------------------------------------------------------

WITHOUT_SHARED_MEMORY = """
import asyncio, resource, signal, sys
import apsw
from cortex_plane import Plane

how, url = sys.argv[1:]
if how == "no such thing":
    apsw.set_default_vfs("unix-dotfile")
else:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, 16_384))

async def main():
    async with Plane(url) as plane:
        await plane.open()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["no such thing", "it cannot be made large enough"])
@pytest.mark.parametrize("there", [False, True])
def test_a_file_system_without_shared_memory_is_refused_and_no_file_is_left(tmp_path: Path, how: str, there: bool) -> None:
    database = tmp_path / "cortex.db"
    if there:
        database.touch()

    command = [sys.executable, "-c", WITHOUT_SHARED_MEMORY, how, f"sqlite:///{database}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 1
    assert "its file system cannot hold a write-ahead log" in ended.stderr.splitlines()[-1]
    assert "Put the file on a local disk, or use PostgreSQL" in ended.stderr.splitlines()[-1]
    assert [file.name for file in tmp_path.iterdir()] == (["cortex.db"] if there else [])
