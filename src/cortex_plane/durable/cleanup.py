"""`ctx.cleanup()`: a scope in which the end of the job is raised as an exception, so that the handler can clean up.

asked to end ──▶ JobCancelled is raised where the handler awaits ──▶ it cleans up, durably ──▶ the scope ends, and the run

A durable call is not interrupted from inside: its work is cancelled as always, and the exception is raised where the handler
awaits the call. A run that resumes a cleanup raises it at the same call again; its steps are then answered from the record.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine, Generator
from math import isfinite
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cortex_plane.durable.suspension import RunStopped
from cortex_plane.errors import InvalidInput, LeaseLost

if TYPE_CHECKING:
    from cortex_plane.durable.checkpoint import Recorder


Result = TypeVar("Result")
MARK = "$cancelled#1"
TURN_EVERY = 100
"""Yields to the event loop after this many durable calls. Recorded calls return without waiting, so the replay of a long job
would block all other jobs of its worker."""


class Cleaning:
    """State of the cleanup scopes of one run, and of a request to end it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder: Recorder = weakref.proxy(recorder)  # A cycle would wait for the garbage collector.
        self._main = asyncio.current_task()
        self._noted = recorder.claimed.cleanup_seconds
        self.open: list[float] = []
        """How long each open scope may take, the innermost last."""
        self.ending: Exception | None = None
        """The exception raised in the handler."""
        self.kind = ""
        self.delivered = False
        self.interrupting = False
        """The task is being cancelled for it."""
        self.busy = 0
        self.calls = 0
        """How many durable calls the handler itself has made."""
        self._raise_at: int | None = None
        self._has_key = False
        """Whether the interrupted call takes its identity first, as in the earlier run, so that later calls of the same name
        get the same numbers."""
        self._raise_at_key = False
        self._waits = 0
        """How often the handler has awaited something not durable since its last durable call."""
        self._raise_after_waits = 0
        self._marked_at: int | None = None
        """How many calls were recorded when an earlier run began to clean up."""
        self.when_delivered: Callable[[float], None] | None = None

    def ask(self, kind: str, ending: Exception, when_delivered: Callable[[float], None]) -> None:
        self.kind, self.ending, self.when_delivered = kind, ending, when_delivered

    def resume(self) -> None:
        """The previous run may have begun to clean up: raise the exception at the same call."""
        marked = self._recorder.journal.take(MARK)
        if marked is not None and marked["result"][0] == self.kind:
            _, self._raise_at, self._has_key, self._raise_after_waits = marked["result"]
            self._marked_at = marked["order"]

    # -- delivering ------------------------------------------------------------------------------

    def deliver(self, at: int, *, has_key: bool) -> Exception:
        """Returns the exception to raise, and records at which call. Outside all scopes the run ends here."""
        assert self.ending is not None
        self.delivered, self.interrupting = True, False
        _uncancel()
        if not self.open:
            self._recorder.stop(self.ending)
        journal = self._recorder.journal
        journal.leave(self._marked_at)
        if self._marked_at is None:
            journal.put(MARK, {"kind": "cleanup", "result": [self.kind, at, has_key, self._waits]})
        if self.when_delivered is not None:
            self.when_delivered(self.open[-1])
        return self.ending

    @property
    def due(self) -> bool:
        return self.ending is not None and not self.delivered

    def before_call(self) -> None:
        self.calls += 1
        self._waits = 0
        if self.due and self._raise_at is not None and self.calls >= self._raise_at:
            if not self._has_key:
                raise self.deliver(self.calls, has_key=False)
            self._raise_at_key = True

    def begin(self) -> None:
        """A call has its identity."""
        if self._raise_at_key:
            self._raise_at_key = False
            raise self.deliver(self.calls, has_key=True)

    def before_new_work(self) -> None:
        """Recorded calls are answered; new calls are refused."""
        if self.due:
            raise self.deliver(self.calls, has_key=True)

    def wait(self) -> None:
        """Called when the handler awaits something not durable. A resumed cleanup is interrupted where the earlier run was."""
        if self.busy:
            return
        self._waits += 1
        is_there = self._raise_at is not None and not self._has_key and self.calls == self._raise_at - 1 and self.open
        if is_there and self.due and self._waits >= self._raise_after_waits and self._main is not None and not self.interrupting:
            self.interrupting = True
            asyncio.get_running_loop().call_soon(self._main.cancel)  # Then it waits for the call that it has just created.

    def interruption(self) -> BaseException | None:
        """The exception that replaces CancelledError in a handler that awaits something not durable."""
        if not self.due or not self.interrupting or self.busy:
            return None
        try:
            return self.deliver(self.calls + 1, has_key=False)
        except RunStopped as stopped:
            return stopped

    @property
    def is_main(self) -> bool:
        return asyncio.current_task() is self._main

    # -- scopes ----------------------------------------------------------------------------------

    @property
    def is_noted(self) -> bool:
        """Whether the job's row says that this run may have an open scope."""
        return self._noted is not None

    async def note(self, seconds: float | None) -> None:
        """Saves the note before the handler continues."""
        if seconds == self._noted:
            return
        claimed = self._recorder.claimed
        if not await self._recorder.services.set_cleanup(claimed.job_id, claimed.run_id, seconds):
            self._recorder.stop(LeaseLost(claimed.job_id, claimed.run_id))
        self._noted = seconds


class Guarded(Generic[Result]):
    __slots__ = ("_cleaning", "_counts", "_work")

    def __init__(self, cleaning: Cleaning, work: Coroutine[Any, Any, Result], *, counts: bool = True) -> None:
        self._cleaning, self._work, self._counts = cleaning, work, counts

    def __await__(self) -> Generator[Any, Any, Result]:
        cleaning = self._cleaning
        top = cleaning.busy == 0 and cleaning.is_main
        if top and self._counts:
            try:
                cleaning.before_call()
            except BaseException:
                self._work.close()
                raise
        cleaning.busy += 1
        begun = False
        try:
            if top and self._counts and cleaning.calls % TURN_EVERY == 0:
                yield
            begun = True
            return (yield from self._work.__await__())
        except asyncio.CancelledError:
            self._work.close()  # If it has not begun.
            if top and cleaning.due and cleaning.interrupting:
                raise cleaning.deliver(cleaning.calls, has_key=begun) from None
            raise
        finally:
            cleaning.busy -= 1


class Interruptible:
    """Wraps a handler: replaces a cancellation that requests a cleanup by the exception of the cleanup."""

    __slots__ = ("_cleaning", "_work")

    def __init__(self, work: Any, cleaning: Callable[[], Cleaning | None]) -> None:
        self._work, self._cleaning = work, cleaning

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._work.__await__()
        try:
            yielded = inner.send(None)
            while True:
                if (waiting := self._cleaning()) is not None:
                    waiting.wait()
                try:
                    value = yield yielded
                except asyncio.CancelledError as error:
                    cleaning = self._cleaning()
                    yielded = inner.throw((cleaning.interruption() if cleaning else None) or error)
                except BaseException as error:
                    yielded = inner.throw(error)
                else:
                    yielded = inner.send(value)
        except StopIteration as end:
            return end.value


class CleanupScope:
    """`async with ctx.cleanup(timeout=300):`"""

    __slots__ = ("_key", "_over", "_recorder", "_timeout")
    shown = "ctx.cleanup(…)"

    def __init__(self, recorder: Recorder, timeout: float) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not isfinite(timeout) or timeout <= 0:
            raise InvalidInput(f"ctx.cleanup takes a timeout of more than 0 seconds, not {timeout!r:.80}.", field="timeout")
        self._recorder, self._timeout = recorder, float(timeout)
        recorder.unawaited[self] = recorder.scopes.path

    def abandon(self) -> None:
        """It was never entered."""

    async def __aenter__(self) -> None:
        recorder = self._recorder
        recorder.unawaited.pop(self, None)
        recorder.check()
        scope = recorder.scopes.here()
        if scope.in_gather or scope.in_step:
            raise InvalidInput("ctx.cleanup cannot be used inside ctx.gather or a step: the job ends as a whole.", field="ctx")
        self._key = scope.key("$cleanup")
        self._over = recorder.journal.take(self._key) is not None
        if not self._over:
            await Guarded(recorder.cleaning, recorder.cleaning.note(self._timeout), counts=False)
            recorder.cleaning.open.append(self._timeout)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Left by an exception it stays open in the record: the retry enters it again."""
        cleaning = self._recorder.cleaning
        if self._over:
            return
        cleaning.open.pop()
        if error is not None and not isinstance(error, Exception):
            return
        if cleaning.delivered and not cleaning.open:
            assert cleaning.ending is not None
            self._recorder.stop(cleaning.ending if error is None else error)
        if error is None:
            self._recorder.journal.put(self._key, {"kind": "cleanup", "result": None})
            await Guarded(cleaning, cleaning.note(cleaning.open[-1] if cleaning.open else None), counts=False)


def _uncancel() -> None:
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
