"""Runs one claimed job's handler to its end, whatever the handler does, and says how it ended."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Literal

import structlog

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import Claimed
from cortex_plane.core.outcomes import Done, Failed, Interrupted, Outcome
from cortex_plane.ports.json_text import encode
from cortex_plane.runtime.agents import AgentCode, wrong_arguments
from cortex_plane.runtime.context import Context
from cortex_plane.runtime.failures import TimedOut, failed

log = structlog.get_logger()

Ending = Literal["superseded", "interrupted"]


class Execution:
    """One run inside this worker."""

    def __init__(self, claimed: Claimed, agent: AgentCode, threads: Executor, started_at: float) -> None:
        self.claimed = claimed
        self.agent = agent
        self.context = Context.of(claimed)
        self.started_at = started_at
        self.task: asyncio.Task[None] | None = None
        self._threads = threads
        self._ending: Ending | None = None
        self._returned = False
        self._thread: asyncio.Future[Any] | None = None

    def end(self, why: Ending) -> None:
        """Interrupts the handler. Nothing that it still does will be kept; `superseded`: not even that it was interrupted."""
        if self._returned:
            return
        self._ending = self._ending or why
        self.context.cancelled = True
        if self.task is not None:
            self.task.cancel()

    def when_over(self, call: Callable[[], None]) -> None:
        """Calls back when nothing of this run goes on here: at once, or when its thread has returned."""
        if self._thread is None or self._thread.done():
            call()
        else:
            self._thread.add_done_callback(lambda _: call())

    async def run(self) -> Outcome | None:
        """How it ended; None when the run was superseded and its result is dropped."""
        outcome = await self._outcome()
        if isinstance(outcome, Failed) and outcome.run is None:
            outcome = replace(outcome, run=self.context.details)
        self._returned = True
        match self._ending:
            case "superseded":
                return None
            case "interrupted":
                return Interrupted()
            case None:
                return outcome

    async def _outcome(self) -> Outcome:
        try:
            return _done(await self._call_in_time())
        except asyncio.CancelledError as error:
            if self._ending is not None:
                _uncancel()
                return Interrupted()
            return failed(error)
        except InvalidInput as error:
            return failed(error, retryable=False)
        except BaseException as error:  # Also sys.exit() and KeyboardInterrupt: a job never ends its worker.
            return failed(error)

    @property
    def _timeout_seconds(self) -> float | None:
        return self.claimed.timeout_seconds or self.agent.config.timeout_seconds

    async def _call_in_time(self) -> Any:
        seconds = self._timeout_seconds
        if seconds is None:
            return await self._call()
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._call()
        except TimeoutError:
            if not limit.expired():
                raise
            self.context.cancelled = True
            raise TimedOut(f"The handler did not finish within {seconds:g} s.") from None

    async def _call(self) -> Any:
        if not isinstance(self.claimed.payload, dict):
            raise InvalidInput("The payload is not an object, so it holds no arguments by name.", field="payload")
        match self.agent.kind:
            case "async" | "command":
                return await self._called()
            case "thread":
                return await self._call_in_thread()

    def _called(self) -> Awaitable[Any]:
        """Calling an async function only binds its arguments, so a TypeError here is about them, and no retry would help."""
        try:
            result: Awaitable[Any] = self.agent.handler(self.context, **self.claimed.payload)
            return result
        except TypeError as error:
            raise wrong_arguments(self.agent, error) from None

    async def _call_in_thread(self) -> Any:
        """A thread cannot be interrupted: whoever ends this run waits until the function looks up and returns."""
        loop = asyncio.get_running_loop()
        self._thread = loop.run_in_executor(self._threads, contextvars.copy_context().run, self._call_plainly)
        while True:
            try:
                return await asyncio.shield(self._thread)
            except asyncio.CancelledError:
                if self._ending is None:
                    raise
                _uncancel()

    def _call_plainly(self) -> Any:
        """In a thread. What it raises is turned into an outcome there: not every exception can cross into an event loop."""
        try:
            return self.agent.handler(self.context, **self.claimed.payload)
        except BaseException as error:
            if isinstance(error, TypeError) and error.__traceback__ is not None and error.__traceback__.tb_next is None:
                return failed(wrong_arguments(self.agent, error), retryable=False)
            return failed(error)


def _done(result: Any) -> Outcome:
    if isinstance(result, Done | Failed):
        return result
    return Done(None if result is None else encode(result, "result"))


def _uncancel() -> None:
    """The interruption has served its purpose; what follows in this task must not be cancelled again."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
