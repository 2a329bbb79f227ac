"""Runs one claimed job's handler to its end, whatever the handler does, and says how it ended."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import structlog

from cortex_plane.core.checkpoints import Checkpoint
from cortex_plane.core.errors import CheckpointCorrupted, Conflict, InvalidInput, LeaseLost, Unavailable
from cortex_plane.core.instants import SECOND
from cortex_plane.core.jobs import Claimed
from cortex_plane.core.outcomes import AwaitingApproval, AwaitingChild, Done, Failed, Interrupted, Outcome, Sleeping
from cortex_plane.ports.json_text import encode
from cortex_plane.runtime.agents import AgentCode, wrong_arguments
from cortex_plane.runtime.context import Context
from cortex_plane.runtime.durable.journal import Journal
from cortex_plane.runtime.durable.recorder import Recorder
from cortex_plane.runtime.durable.resuming import resume
from cortex_plane.runtime.durable.suspending import AwaitApproval, AwaitChild, RunStopped, SleepUntil, Suspension
from cortex_plane.runtime.failures import TimedOut, failed
from cortex_plane.runtime.lending import Lent
from cortex_plane.runtime.metrics import count, histogram
from cortex_plane.runtime.run_log import current_run

log = structlog.get_logger()

Ending = Literal["superseded", "interrupted"]

CHILD_RECHECK_SECONDS = 60.0


class Execution:
    """One run inside this worker."""

    def __init__(self, claimed: Claimed, agent: AgentCode, threads: Executor, started_at: float, lent: Lent) -> None:
        self.claimed = claimed
        self.agent = agent
        self.context = Context.of(claimed)
        self.context.lent = lent.services
        if agent.kind == "async":
            self.context.open_recorder = partial(_new_recorder, claimed, agent, lent)
        self._lent = lent
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
        current_run.set(self.claimed)
        outcome = await (self._outcome() if self._lent.services.telemetry is None else self._traced())
        if isinstance(outcome, Failed | Done) and outcome.run is None and self.context.details is not None:
            outcome = replace(outcome, run=self.context.details)
        self._returned = True
        if (recorder := self.context.recorder) is not None and recorder.largest_bytes:
            histogram("checkpoint_bytes", agent=self.claimed.job_type).observe(recorder.largest_bytes)
            log.debug("checkpoints_written", job_id=self.claimed.job_id, largest_bytes=recorder.largest_bytes)
        match self._ending:
            case "superseded":
                return None
            case "interrupted":
                return Interrupted()
            case None:
                return outcome

    async def _traced(self) -> Outcome:
        telemetry = self._lent.services.telemetry
        assert telemetry is not None
        kept: tuple[str | None, str | None] = None, None
        with suppress(Unavailable):  # A trace is a help, never a reason not to run.
            kept = await self._lent.trace(self.claimed.job_id)
        with telemetry.running(self.claimed, *kept) as tell:
            outcome = await self._outcome()
            tell(outcome)
            return outcome

    async def _outcome(self) -> Outcome:
        try:
            if self.claimed.resumes:
                self.context.recorder = await self._resumed()
            return self._unless_left(_done(await self._call_in_time()))
        except Suspension as suspension:
            return self._suspended(suspension)
        except RunStopped as stopped:
            return self._stopped(stopped.cause)
        except CheckpointCorrupted as corrupted:
            return self._corrupted(corrupted)
        except asyncio.CancelledError as error:
            if self._ending is not None:
                _uncancel()
                return Interrupted()
            return failed(error)
        except BaseException as error:  # Also sys.exit() and KeyboardInterrupt: a job never ends its worker.
            return failed(error)

    # -- the durable side ------------------------------------------------------------------------

    async def _resumed(self) -> Recorder:
        lent = self._lent
        return await resume(lent.checkpoints, self.claimed, self.agent, lent.agent_ids[self.agent.job_type], lent.services)

    def _unless_left(self, outcome: Outcome) -> Outcome:
        """A handler that caught its own suspension, or the end of its run, is left all the same."""
        recorder = self.context.recorder
        if recorder is not None and recorder.stopped is not None:
            raise recorder.stopped
        if recorder is not None and recorder.suspension is not None:
            raise recorder.suspension
        return outcome

    def _suspended(self, suspension: Suspension) -> Outcome:
        match suspension:
            case SleepUntil(at):
                return Sleeping(max(0.0, (at - self._lent.services.clock.now()) / SECOND))
            case AwaitChild(child_id):
                return AwaitingChild(child_id, CHILD_RECHECK_SECONDS)
            case AwaitApproval(request):
                return AwaitingApproval(request)
            case _:
                return failed(suspension)

    def _stopped(self, cause: Exception) -> Outcome:
        if isinstance(cause, LeaseLost):
            self._ending = self._ending or "superseded"
            return Interrupted()
        return failed(cause, retryable=not isinstance(cause, InvalidInput | Conflict))

    def _corrupted(self, error: CheckpointCorrupted) -> Outcome:
        """The damaged checkpoint is left as it is, for whoever looks into it."""
        claimed = self.claimed
        log.error(
            "checkpoint_corrupted",
            job_id=claimed.job_id,
            run_id=claimed.run_id,
            agent=claimed.job_type,
            corruption_type=error.kind,
            error=error.details,
            advice=f"cortex checkpoints show {claimed.job_id}",
        )
        count("checkpoint_corruptions", kind=error.kind)
        note = {"corruption_detected": True, "corruption_type": error.kind, "error": error.details}
        return replace(failed(error, retryable=False), note=note)

    def last_words(self, outcome: Outcome) -> Checkpoint | None:
        """The checkpoint of a job that has completed. Of one that failed the last one stays: its retry goes on from there."""
        recorder = self.context.recorder
        if recorder is None or not isinstance(outcome, Done):
            return None
        try:
            return recorder.snapshot("end", "completed")
        except InvalidInput as error:
            log.warning("last_checkpoint_left_out", job_id=self.claimed.job_id, error=str(error))
            return None

    @property
    def cost_cents(self) -> int:
        """What no checkpoint has counted."""
        recorder = self.context.recorder
        return self.context.cost_cents + (recorder.unwritten_cents if recorder is not None else 0)

    # -- calling the handler ---------------------------------------------------------------------

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
                return failed(wrong_arguments(self.agent, error))
            return failed(error)


def _new_recorder(claimed: Claimed, agent: AgentCode, lent: Lent) -> Recorder:
    """Knows nothing of the execution: what refers to itself is freed only when the collector looks, and that costs every job."""
    journal = Journal(seed=lent.services.new_id(), state_version=agent.state_version)
    return Recorder(claimed, lent.agent_ids[agent.job_type], agent.config, agent.prompt_hash, lent.services, journal)


def _done(result: Any) -> Outcome:
    if isinstance(result, Done | Failed):
        return result
    return Done(None if result is None else encode(result, "result"))


def _uncancel() -> None:
    """The interruption has served its purpose; what follows in this task must not be cancelled again."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
