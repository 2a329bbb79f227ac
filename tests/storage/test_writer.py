"""Group commit on SQLite: together on disk, undone alone, and everyone gets a right answer."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from cortex_plane.errors import Unavailable
from cortex_plane.storage.sqlite import writer as sqlite_writer
from cortex_plane.storage.sqlite.connection import connect
from cortex_plane.storage.sqlite.writer import CHECKPOINT_PAGES, MAX_GROUP, Writer

pytestmark = pytest.mark.anyio

MANY = json.dumps(list(range(1_000)))
Work = Callable[[apsw.Connection], Any]


class Bench:
    """A writer on a file with one table. What is asked while it is held becomes one group."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commits = 0
        self.calls: dict[str, int] = {}
        self.connection: apsw.Connection | None = None
        self.writer = Writer(self._open, self._committed)
        self.writer.start()
        self._go = threading.Event()

    def _open(self) -> apsw.Connection:
        self.connection = connect(self.path, for_writing=True)
        self.connection.execute("create table if not exists kept (name text primary key, body blob) strict")
        return self.connection

    def _committed(self, changed: bool) -> None:
        self.commits += changed

    async def together(self, *works: Work) -> list[Any]:
        """The answers to works that were asked while the writer was busy."""
        busy = threading.Event()

        def hold(_: apsw.Connection) -> None:
            busy.set()
            self._go.wait(10)

        held = self.writer.ask(hold)
        await asyncio.to_thread(busy.wait, 10)
        asked = [self.writer.ask(work) for work in works]
        self.commits = 0
        self._go.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await held
        return answers

    def insert(self, name: str, size: int = 10) -> Work:
        def work(connection: apsw.Connection) -> str:
            self.calls[name] = self.calls.get(name, 0) + 1
            connection.execute("insert into kept values (?, zeroblob(?))", (name, size))
            return name

        return work

    def kept(self) -> list[str]:
        """What another connection finds."""
        other = apsw.Connection(str(self.path))
        try:
            return [str(name) for (name,) in other.execute("select name from kept order by name").fetchall()]
        finally:
            other.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "test.db")
    yield bench
    bench.writer.stop()


def kinds(answers: list[Any]) -> list[Any]:
    return [type(answer) if isinstance(answer, BaseException) else answer for answer in answers]


async def test_what_was_asked_meanwhile_is_committed_together(bench: Bench) -> None:
    names = [f"{n:03}" for n in range(50)]
    answers = await bench.together(*(bench.insert(name) for name in names))

    assert answers == names
    assert bench.kept() == names
    assert bench.commits == 1


async def test_who_looks_and_changes_nothing_wakes_nobody(bench: Bench) -> None:
    await bench.together(lambda connection: connection.execute("update kept set body = null").fetchall())
    assert bench.commits == 0

    await bench.together(lambda connection: connection.execute("insert into kept (name) values ('x')"))
    assert bench.commits == 1


async def test_a_group_has_a_limit(bench: Bench) -> None:
    answers = await bench.together(*(bench.insert(f"{n:03}") for n in range(MAX_GROUP + 1)))

    assert len(bench.kept()) == len(answers) == MAX_GROUP + 1
    assert bench.commits == 2


async def test_nobody_is_answered_before_the_commit(bench: Bench) -> None:
    answered: list[list[str]] = []
    asked = bench.writer.ask(bench.insert("a"))
    asked.add_done_callback(lambda _: answered.append(bench.kept()))
    await asked
    await asyncio.sleep(0)

    assert answered == [["a"]]


async def test_an_operation_that_fails_is_undone_alone(bench: Bench) -> None:
    def half(connection: apsw.Connection) -> None:
        connection.execute("insert into kept values ('half', null)")
        connection.execute("insert into kept values ('a', null)")

    def wrong(connection: apsw.Connection) -> None:
        connection.execute("insert into kept values ('wrong', null)")
        raise ValueError("changed my mind")

    answers = await bench.together(bench.insert("a"), half, bench.insert("b"), wrong, bench.insert("c"))

    assert kinds(answers) == ["a", apsw.ConstraintError, "b", ValueError, "c"]
    assert bench.kept() == ["a", "b", "c"]
    assert bench.calls == {"a": 1, "b": 1, "c": 1}, "nothing was done twice"
    assert bench.commits == 1


async def test_a_full_disk_costs_only_what_does_not_fit(bench: Bench) -> None:
    await bench.writer.ask(lambda connection: connection.execute("pragma max_page_count = 40").get)
    works = [bench.insert("a"), bench.insert("b"), bench.insert("huge", 1_000_000), bench.insert("c"), bench.insert("d")]
    answers = await bench.together(*works)

    assert kinds(answers) == ["a", "b", apsw.FullError, "c", "d"]
    assert bench.kept() == ["a", "b", "c", "d"]
    assert bench.calls["a"] == 2, "SQLite gave up the whole transaction, so the group was done again one by one"


async def test_when_the_disk_fills_up_whoever_was_told_yes_is_kept_and_nobody_else(bench: Bench) -> None:
    await bench.writer.ask(lambda connection: connection.execute("pragma max_page_count = 40").get)
    names = [f"{n:03}" for n in range(60)]
    answers = await bench.together(*(bench.insert(name, 7_000) for name in names))

    told_yes = [answer for answer in answers if isinstance(answer, str)]
    refused = [answer for answer in answers if isinstance(answer, apsw.FullError)]
    assert bench.kept() == told_yes
    assert told_yes
    assert refused
    assert len(told_yes) + len(refused) == len(names)
    await bench.writer.ask(lambda connection: connection.execute("pragma max_page_count = 100000").get)
    assert await bench.writer.ask(bench.insert("after")) == "after", "with room again, it goes on"


async def test_an_interrupt_costs_nobody_anything(bench: Bench) -> None:
    tries = []

    def interrupted_once(connection: apsw.Connection) -> str:
        tries.append(1)
        if len(tries) == 1:
            connection.set_progress_handler(lambda: True, 1)
        try:
            connection.execute("insert into kept select 'i' || value, null from json_each(?)", (MANY,))
        finally:
            connection.set_progress_handler(None)
        return "interrupted"

    answers = await bench.together(bench.insert("a"), interrupted_once, bench.insert("b"))

    assert answers == ["a", "interrupted", "b"]
    assert len(bench.kept()) == 1_002
    assert len(tries) == 2


async def test_a_long_group_is_committed_in_parts_so_that_other_processes_get_a_turn(bench: Bench) -> None:
    def slow(name: str, connection: apsw.Connection) -> None:
        threading.Event().wait(0.03)
        bench.insert(name)(connection)

    await bench.together(*(partial(slow, f"{n}") for n in range(6)))

    assert bench.kept() == [f"{n}" for n in range(6)]
    assert 2 <= bench.commits <= 4


async def test_a_caller_who_has_gone_away_does_not_disturb_the_others(bench: Bench) -> None:
    gone = bench.writer.ask(bench.insert("gone"))
    gone.cancel()

    assert await bench.writer.ask(bench.insert("a")) == "a"
    assert bench.kept() == ["a", "gone"]


async def test_a_writer_that_stops_finishes_what_it_was_asked(bench: Bench) -> None:
    asked = [bench.writer.ask(bench.insert(f"{n}")) for n in range(5)]
    await asyncio.to_thread(bench.writer.stop)

    assert await asyncio.gather(*asked) == [f"{n}" for n in range(5)]


async def test_a_thread_gets_its_answer_without_any_event_loop(bench: Bench) -> None:
    assert await asyncio.to_thread(lambda: bench.writer.ask_from_thread(bench.insert("a")).result(5)) == "a"


async def test_a_lock_of_somebody_else_is_an_error_for_the_whole_group_and_then_forgotten(bench: Bench) -> None:
    assert bench.connection is not None
    bench.connection.set_busy_timeout(20)
    other = apsw.Connection(str(bench.path))
    other.execute("begin immediate")
    asked = [bench.writer.ask(bench.insert(name)) for name in "ab"]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    other.execute("rollback")
    other.close()

    assert kinds(answers) == [apsw.BusyError, apsw.BusyError]
    assert bench.kept() == []
    assert await bench.writer.ask(bench.insert("c")) == "c"


# -- at once, in the thread that asks --------------------------------------------------------------


async def test_a_small_write_is_done_where_it_is_asked_for_and_is_on_disk_then(bench: Bench) -> None:
    threads: list[int] = []

    def work(connection: apsw.Connection) -> str:
        threads.append(threading.get_ident())
        return str(bench.insert("a")(connection))

    done = bench.writer.do(work)

    assert done is not None
    assert (done.result, done.error, bench.kept()) == ("a", None, ["a"])
    assert threads == [threading.get_ident()]
    assert bench.commits == 1, "those who wait for a change are told"


async def test_one_that_fails_is_undone(bench: Bench) -> None:
    def wrong(connection: apsw.Connection) -> None:
        bench.insert("half")(connection)
        raise ValueError("changed my mind")

    done = bench.writer.do(wrong)

    assert done is not None
    assert isinstance(done.error, ValueError)
    assert bench.kept() == []
    assert await bench.writer.ask(bench.insert("b")) == "b", "the connection is free again"


async def test_nobody_is_waited_for_neither_the_writer_nor_another_process(bench: Bench) -> None:
    refused: list[Any] = []
    await bench.together(lambda _: refused.append(bench.writer.do(bench.insert("in between"))))
    other = apsw.Connection(str(bench.path))
    other.execute("begin immediate")
    began = time.monotonic()
    refused.append(bench.writer.do(bench.insert("locked out")))
    took = time.monotonic() - began
    asked = bench.writer.ask(bench.insert("patient"))
    await asyncio.sleep(0.05)
    other.execute("rollback")
    other.close()

    assert refused == [None, None]
    assert took < 1, "a busy handler would have waited for half a minute"
    assert await asked == "patient", "the thread still has its patience"
    assert bench.kept() == ["patient"]


async def test_a_slow_disk_is_left_to_the_thread_for_ten_times_as_long(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only slow writes turn: a real disk may be slow at any moment."""
    now = 100.0
    monkeypatch.setattr(sqlite_writer, "time", SimpleNamespace(monotonic=lambda: now))

    def slow(_: apsw.Connection) -> None:
        nonlocal now
        now += 0.02

    assert bench.writer.do(slow) is not None
    assert bench.writer.do(bench.insert("between")) is not None, "one slow write is no slow disk"
    assert bench.writer.do(slow) is not None
    assert bench.writer.do(slow) is not None
    now += 0.19
    assert bench.writer.do(bench.insert("early")) is None
    now += 0.02
    assert bench.writer.do(bench.insert("later")) is not None
    assert bench.kept() == ["between", "later"]


async def test_the_log_is_copied_into_the_file_by_the_thread_and_does_not_grow_for_ever(bench: Bench) -> None:
    log, at_once = bench.path.with_name(f"{bench.path.name}-wal"), 0
    for number in range(3 * CHECKPOINT_PAGES // 50):
        if bench.writer.do(bench.insert(f"{number}", 200_000)) is not None:  # Fifty pages.
            at_once += 1
        else:
            await bench.writer.ask(bench.insert(f"{number}", 200_000))

    assert at_once > 0
    assert len(bench.kept()) == 3 * CHECKPOINT_PAGES // 50
    assert log.stat().st_size < 1.5 * CHECKPOINT_PAGES * 4096


async def test_a_writer_that_has_stopped_says_so(bench: Bench) -> None:
    await asyncio.to_thread(bench.writer.stop)
    with pytest.raises(Unavailable, match="not open"):
        bench.writer.do(bench.insert("a"))


async def test_what_takes_long_to_prepare_stays_prepared_while_others_are_busy(bench: Bench) -> None:
    assert bench.connection is not None
    await bench.writer.ask(lambda connection: connection.execute("select count(*) from kept").get)
    for number in range(100):
        bench.writer.do(bench.insert(f"{number}"))
        await bench.writer.ask(lambda connection: connection.execute("update kept set body = null").fetchall())
        await bench.together(*(bench.insert(f"{number} {name}") for name in "ab"))
    before = bench.connection.cache_stats()["misses"]
    await bench.writer.ask(lambda connection: connection.execute("select count(*) from kept").get)

    assert bench.connection.cache_stats()["misses"] == before + 2, "only the two that begin and end a transaction"
