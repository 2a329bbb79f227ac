"""Threads and tasks of handlers, which cannot end or block their worker.

Threads for plain functions: as many as are needed, used again, and never waited for when the program ends.

A function that hangs costs its thread and nothing else. Python's own pools have few threads, which a few such functions use up,
and wait for them at the end of the program.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import structlog

from cortex_plane.worker.reporter import current_run

if TYPE_CHECKING:
    from cortex_plane.jobs.model import RunId

log = structlog.get_logger()

THREAD_NAME = "cortex-handler"
IDLE_SECONDS = 10.0
MOST_FOR_A_RUN = 32
"""Plain steps of one run at a time: a thousand branches do not become a thousand threads, and a run whose steps hang stops only
itself."""


class ThreadResult(NamedTuple):
    """Not every exception can cross into an event loop as one, so it travels as a value."""

    value: Any = None
    error: BaseException | None = None


class Places:
    """Limits the threads of one run."""

    def __init__(self) -> None:
        self.users = 0
        self._free = asyncio.Semaphore(MOST_FOR_A_RUN)

    async def take(self) -> None:
        self.users += 1
        try:
            await self._free.acquire()
        except BaseException:
            self.users -= 1
            raise

    def give_back(self) -> None:
        self.users -= 1
        self._free.release()


class Threads:
    def __init__(self, name: str = THREAD_NAME) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._places: dict[RunId, Places] = {}

    def call(self, function: Callable[[], Any]) -> asyncio.Future[ThreadResult]:
        """Call it in the event loop. Cancelling the future does not stop the function."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ThreadResult] = loop.create_future()
        work = partial(_answered, loop, answer, partial(copy_context().run, function))
        with self._lock:
            if self._idle:
                self._idle -= 1
                fresh = False
            else:
                fresh = True
        if fresh:
            threading.Thread(target=self._run, args=(work,), name=self._name, daemon=True).start()
        else:
            self._work.put(work)
        return answer

    async def call_for_run(self, run_id: RunId, function: Callable[[], Any]) -> Any:
        """Returns or raises what the function does. If the caller gives up, the function continues and keeps its place in
        the run."""
        places = self._places.setdefault(run_id, Places())
        await places.take()
        answer = self.call(function)
        answer.add_done_callback(lambda _: self._leave(run_id, places))
        try:
            value, error = await asyncio.shield(answer)
        except asyncio.CancelledError:
            if not answer.done():
                log.warning("plain_function_goes_on", function=_name(function), why="A thread cannot be stopped from outside.")
            raise
        if error is None:
            return value
        try:
            raise _to_raise(error, function)
        finally:
            del error  # Its traceback refers to this frame.

    def _leave(self, run_id: RunId, places: Places) -> None:
        places.give_back()
        if not places.users:
            self._places.pop(run_id, None)

    def close(self) -> None:
        """Idle threads end now; the others when their function returns."""
        with self._lock:
            idle = self._idle
        for _ in range(idle):
            self._work.put(None)

    def _run(self, work: Callable[[], None] | None) -> None:
        while work is not None:
            work()
            del work  # Drop all references while the thread waits.
            work = self._next()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            self._idle += 1
        try:
            return self._work.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            with self._lock:
                if self._idle:
                    self._idle -= 1
                    return None
            return self._work.get()  # The thread is already reserved.


async def in_a_thread(function: Callable[[], Any]) -> Any:
    """Runs in a dedicated thread, for work that must not wait for a place in a shared pool."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[ThreadResult] = loop.create_future()
    threading.Thread(target=_answered, args=(loop, answer, function), name="cortex-own", daemon=True).start()
    value, error = await answer
    if error is not None:
        raise error
    return value


current_threads: ContextVar[Threads | None] = ContextVar("cortex_threads", default=None)
"""The threads of the worker in which this task runs."""


async def call_plainly(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The work of a plain step or tool, in a thread of its worker."""
    threads, run = current_threads.get(), current_run.get()
    work = partial(function, *args, **kwargs)
    if threads is None or run is None:
        return await asyncio.to_thread(work)
    return await threads.call_for_run(run.run_id, work)


def _answered(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[ThreadResult], function: Callable[[], Any]) -> None:
    try:
        found = ThreadResult(function())
    except BaseException as error:
        found = ThreadResult(None, error)
    try:
        loop.call_soon_threadsafe(_give, answer, found)
    except RuntimeError:
        pass  # The event loop is closed: no task waits any more.


def _give(answer: asyncio.Future[ThreadResult], found: ThreadResult) -> None:
    if not answer.done():
        answer.set_result(found)


def _to_raise(error: BaseException, function: Callable[..., Any]) -> BaseException:
    """Exceptions that end a generator may not leave a coroutine."""
    if not isinstance(error, StopIteration | StopAsyncIteration | GeneratorExit):
        return error
    told = RuntimeError(f"{_name(function)} raised {type(error).__name__}")
    told.__cause__ = error
    return told


def _name(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, partial) else function
    return getattr(inner, "__qualname__", None) or type(inner).__name__


# -- own tasks ---------------------------------------------------------------------------------
# Protects a worker from its handlers: they cannot cancel its tasks, and their exceptions stay in their own tasks.
#
# a handler cancels a task of its worker     refused, also for the task that awaits the worker, if it is in the same sweep
# other code cancels a task of the worker    the worker shuts down gracefully: `asyncio.run` does this when its program ends
# the worker cancels its own task            `task.end()`, or a timeout inside of it
# a handler's own task raises SystemExit     a HandlerExit in that task; otherwise asyncio would end the program


ONE_SWEEP_SECONDS = 0.1
ENDS = (SystemExit, KeyboardInterrupt, GeneratorExit)

_owner: ContextVar[OwnTasks | None] = ContextVar("cortex_worker", default=None)


class HandlerExit(RuntimeError):
    """A task that a handler started was left by SystemExit or the like. A job does not end its worker."""


class OwnTask(asyncio.Task[Any]):
    owner: OwnTasks
    run_id: RunId | None = None

    def cancel(self, msg: Any | None = None) -> bool:
        return self.owner.may_cancel(self) and super().cancel(msg)

    def end(self) -> None:
        """Cancels it, on behalf of its worker."""
        super().cancel()


def end_task(task: asyncio.Task[Any]) -> None:
    """Cancels a task of the worker, on its behalf."""
    if isinstance(task, OwnTask):
        task.end()
    else:
        task.cancel()


class OwnTasks:
    """The tasks of one worker. `runs` are those whose handlers run in it; `leave` is called when outside code cancels one."""

    def __init__(self, runs: Container[RunId], leave: Callable[[], None]) -> None:
        self._runs, self._leave = runs, leave
        self._refused_at = float("-inf")
        self._over = False
        self._context = copy_context()
        self._context.run(_owner.set, self)
        self._context.run(current_run.set, None)  # A handler may run a worker itself.

    def start(self, work: Coroutine[Any, Any, Any], name: str | None = None, run_id: RunId | None = None) -> OwnTask:
        """Starts a task in a copy of the context: variables set by one handler are invisible to others."""
        task = OwnTask(work, loop=asyncio.get_running_loop(), name=name, context=self.new_context())
        task.owner, task.run_id = self, run_id
        return task

    def new_context(self) -> Context:
        return self._context.copy()

    def may_cancel(self, task: OwnTask) -> bool:
        run = current_run.get()
        within = run is not None and run.run_id in self._runs
        if self._over or (_owner.get() is self and (not within or (run is not None and run.run_id == task.run_id))):
            return True
        if within:
            self._refuse(task)
        else:
            self._leave()
        return False

    def _refuse(self, task: OwnTask) -> None:
        if not self.in_a_sweep():
            log.warning(
                "handler_cancels_others", task=task.get_name(), action="Refused: a handler may cancel its own tasks only."
            )
        self._refused_at = asyncio.get_running_loop().time()

    def in_a_sweep(self) -> bool:
        """Whether a handler cancels all tasks that it finds, just now."""
        return asyncio.get_running_loop().time() - self._refused_at < ONE_SWEEP_SECONDS

    def close(self) -> None:
        """The worker has ended: remaining tasks of its handlers belong to the code that ends the program."""
        self._over = True


# -- what handlers' own tasks raise ----------------------------------------------------------------
_contained: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()


@contextmanager
def contained_tasks() -> Iterator[None]:
    """While a worker runs in this loop, tasks started by its handlers cannot end the program. Other tasks are unaffected."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    workers = _contained[loop] = _contained.get(loop, 0) + 1
    if workers == 1:
        loop.set_task_factory(_Factory(before))
    try:
        yield
    finally:
        _contained[loop] -= 1
        factory = loop.get_task_factory()
        if _contained[loop] == 0 and isinstance(factory, _Factory):
            loop.set_task_factory(factory.before)


class _Factory:
    def __init__(self, before: Any) -> None:
        self.before = before

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        context = options.get("context")
        run = current_run.get() if context is None else context.get(current_run)
        if run is not None and asyncio.iscoroutine(work):
            work = _Contained(work)
        return asyncio.Task(work, loop=loop, **options) if self.before is None else self.before(loop, work, **options)


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine out of which no exception comes that asyncio would pass on to the whole program."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work

    def send(self, value: Any) -> Any:
        try:
            return self._work.send(value)
        except ENDS as error:
            raise _exit(error) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._work.throw(*error)
        except ENDS as raised:
            raise _exit(raised) from raised

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()

    def __getattr__(self, name: str) -> Any:
        """For code that inspects frames and names."""
        return getattr(self._work, name)


def _exit(error: BaseException) -> HandlerExit:
    return HandlerExit(f"{error!r} in a task of the handler. A job does not end its worker.")
