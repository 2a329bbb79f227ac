"""The one connection that writes, and its thread, which takes everything that has been asked meanwhile and commits it together.

    callers ──▶ inbox ──▶ begin immediate; one savepoint for each; commit ──▶ answers
    a caller that is alone ──▶ the same, at once, in its own thread

Nobody is answered before the commit is on disk. One operation that fails is undone alone; where SQLite gave up
the whole transaction (a full disk, an interrupt), the group is done again one by one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from cortex_plane.storage.database import NotOpen
from cortex_plane.storage.sqlite.connection import BUSY_SECONDS, patient

MAX_GROUP = 200
MAX_GROUP_SECONDS = 0.05
TIDY_SECONDS = 0.2
SLOW_SECONDS = 0.002
RESTS_TIMES = 10
CHECKPOINT_PAGES = 1_000
IDLE_SECONDS = 0.5
"""Nobody has asked anything for so long: the log is emptied, if it has become long."""

Work = Callable[[apsw.Connection], Any]


@dataclass(slots=True)
class Operation:
    work: Work
    done: asyncio.Future[Any] | Future[Any] | None = None
    result: Any = None
    error: BaseException | None = None


class TransactionLost(Exception):
    """SQLite rolled back everything, also what earlier savepoints had released."""


@dataclass(slots=True)
class Writer:
    open_connection: Callable[[], apsw.Connection]
    committed: Callable[[bool], None]
    """Called after each commit, with whether it changed anything."""
    tidy: Callable[[apsw.Connection], None] = lambda _: None
    """Done now and then, between two transactions."""
    inbox: SimpleQueue[Operation | None] = field(default_factory=SimpleQueue)
    thread: threading.Thread | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever uses the connection."""
    _connection: apsw.Connection | None = None
    _log_pages: int = 0
    """How long the write-ahead log is."""
    _longest_log: int = 0
    """How long it has been since its file was last emptied."""
    _slow_in_a_row: int = 0
    _rests_until: float = 0.0

    def start(self) -> None:
        opened: Future[None] = Future()
        self.thread = threading.Thread(target=self._run, args=(opened,), name="cortex-sqlite-writer", daemon=True)
        self.thread.start()
        opened.result()

    def stop(self) -> None:
        if self.thread is not None:
            thread, self.thread = self.thread, None
            self.inbox.put(None)
            thread.join()

    def ask(self, work: Work) -> asyncio.Future[Any]:
        self._check_open()
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.inbox.put(Operation(work, done))
        return done

    def do(self, work: Work) -> Operation | None:
        """Done here and now, for a small write that is all there is to do: waking two threads would take longer than the write.
        None where that would be in the way of others, or block the caller: then it must be asked for."""
        self._check_open()
        if not self.inbox.empty() or self._log_pages >= CHECKPOINT_PAGES or time.monotonic() < self._rests_until:
            return None
        if not self._turn.acquire(blocking=False):
            return None
        try:
            operation = self._done_at_once(work)
        finally:
            self._turn.release()
        return None if isinstance(operation.error, apsw.BusyError) else operation

    def _done_at_once(self, work: Work) -> Operation:
        """Another process that writes is not waited for, and a slow disk is not waited for again and again: the caller has other
        work, and is kept from it for no more than a tenth of the time. One slow write among quick ones is no slow disk."""
        if self._connection is None:
            raise NotOpen
        operation, began, changes = Operation(work), time.monotonic(), self._connection.total_changes()
        self._connection.set_busy_handler(None)
        try:
            _alone(self._connection, operation)
        finally:
            self._connection.set_busy_handler(patient(BUSY_SECONDS))
        self.committed(changes != self._connection.total_changes())
        ended = time.monotonic()
        self._slow_in_a_row = self._slow_in_a_row + 1 if ended - began > SLOW_SECONDS else 0
        if self._slow_in_a_row > 1:
            self._rests_until = ended + RESTS_TIMES * (ended - began)
        return operation

    def ask_from_thread(self, work: Work) -> Future[Any]:
        self._check_open()
        done: Future[Any] = Future()
        self.inbox.put(Operation(work, done))
        return done

    def _check_open(self) -> None:
        if self.thread is None:
            raise NotOpen

    def _run(self, opened: Future[None]) -> None:
        try:
            connection = self._connection = self.open_connection()
            connection.set_wal_hook(self._log_has_grown)
        except BaseException as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        tidied_at = float("-inf")
        while group := self._next_group():
            with self._turn:
                if time.monotonic() - tidied_at > TIDY_SECONDS:
                    tidied_at = time.monotonic()
                    with suppress(apsw.Error):  # Somebody else may hold the lock: next time.
                        self.tidy(connection)
                changes = connection.total_changes()
                for part in self._commit(connection, group):
                    changed, changes = changes, connection.total_changes()
                    self.committed(changed != changes)  # A worker that looks and finds nothing must not wake itself by it.
                    _answer(part)
                if self._log_pages >= CHECKPOINT_PAGES:
                    self._copy_log(connection)
        with self._turn:
            self._connection = None
            connection.close()

    def _log_has_grown(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        self._longest_log = max(self._longest_log, pages)
        return apsw.SQLITE_OK

    def _copy_log(self, connection: apsw.Connection) -> None:
        """Into the file, so that the log begins anew; here and not at a commit, for which somebody waits."""
        with suppress(apsw.Error):  # A reader may be in the way: after the next group.
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._log_pages = 0

    def _empty_log(self, connection: apsw.Connection) -> None:
        """Into the file, and the file of the log to nothing. A reader that is in the way is not waited for: the next time."""
        connection.set_busy_handler(None)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._log_pages = self._longest_log = 0
        except apsw.Error:
            pass
        finally:
            connection.set_busy_handler(patient(BUSY_SECONDS))

    def _first_asked(self) -> Operation | None:
        while self._longest_log >= CHECKPOINT_PAGES:
            try:
                return self.inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._turn:
                    if self._connection is not None:
                        self._empty_log(self._connection)
        return self.inbox.get()

    def _next_group(self) -> list[Operation]:
        """Everything that waits now; empty when the writer is to stop."""
        group: list[Operation] = []
        operation = self._first_asked()
        while operation is not None:
            group.append(operation)
            if len(group) == MAX_GROUP:
                return group
            try:
                operation = self.inbox.get_nowait()
            except Empty:
                return group
        if group:
            self.inbox.put(None)
        return group

    def _commit(self, connection: apsw.Connection, group: list[Operation]) -> Iterator[list[Operation]]:
        """Commits the group, in more than one transaction when it takes long, so that other processes get a turn."""
        while group:
            part, group = _commit_together(connection, group)
            yield part


def _control(connection: apsw.Connection, sql: str) -> None:
    """Not kept prepared: what apsw keeps is forgotten in the order of use, and these would push out what takes milliseconds."""
    connection.execute(sql, can_cache=False)


def _commit_together(connection: apsw.Connection, group: list[Operation]) -> tuple[list[Operation], list[Operation]]:
    """What was dealt with, and what is left for the next transaction."""
    if len(group) == 1:
        _alone(connection, group[0])
        return group, []
    try:
        _control(connection, "begin immediate")
    except apsw.Error as error:
        for operation in group:
            operation.error = error
        return group, []
    try:
        count = _in_one_transaction(connection, group)
        return group[:count], group[count:]
    except TransactionLost:
        for operation in group:
            _alone(connection, operation)
        return group, []


def _in_one_transaction(connection: apsw.Connection, group: list[Operation]) -> int:
    until = time.monotonic() + MAX_GROUP_SECONDS
    count = 0
    try:
        for operation in group:
            _in_savepoint(connection, operation)
            count += 1
            if time.monotonic() > until:
                break
        _control(connection, "commit")
    except apsw.Error as error:
        _roll_back(connection)
        raise TransactionLost from error
    return count


def _in_savepoint(connection: apsw.Connection, operation: Operation) -> None:
    _control(connection, "savepoint operation")
    try:
        operation.result, operation.error = operation.work(connection), None
    except Exception as error:
        if not connection.in_transaction:
            raise TransactionLost from error
        operation.error = error
        _control(connection, "rollback to operation")
    _control(connection, "release operation")


def _alone(connection: apsw.Connection, operation: Operation) -> None:
    try:
        _control(connection, "begin immediate")
        operation.result, operation.error = operation.work(connection), None
        _control(connection, "commit")
    except Exception as error:
        operation.error = error
        _roll_back(connection)


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        _control(connection, "rollback")


def _answer(group: Sequence[Operation]) -> None:
    """One hop into each event loop, however many callers wait there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Operation]] = {}
    for operation in group:
        if isinstance(operation.done, Future):
            _resolve([operation])
        elif operation.done is not None:
            by_loop.setdefault(operation.done.get_loop(), []).append(operation)
    for loop, operations in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, operations)


def _resolve(operations: Sequence[Operation]) -> None:
    for operation in operations:
        if operation.done is None or operation.done.done():
            continue
        if operation.error is not None:
            operation.done.set_exception(operation.error)
        else:
            operation.done.set_result(operation.result)
