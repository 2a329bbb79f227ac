"""Runs the handler of one claimed job to its end and reports the outcome."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import structlog

from cortex_plane.clock import SECOND
from cortex_plane.durable.approvals import never_awaited
from cortex_plane.durable.checkpoint import Recorder, encoded_result
from cortex_plane.durable.cleanup import Interruptible
from cortex_plane.durable.context import Context
from cortex_plane.durable.journal import Journal
from cortex_plane.durable.resume import resume
from cortex_plane.durable.schema import Checkpoint, blob_of
from cortex_plane.durable.suspension import AwaitApproval, AwaitChild, RunStopped, SleepUntil, Suspension
from cortex_plane.errors import (
    CheckpointCorrupted,
    CodeChanged,
    Conflict,
    InvalidInput,
    KnownMisfit,
    LeaseLost,
    NeverAwaited,
    Unavailable,
)
from cortex_plane.jobs.outcomes import (
    AwaitingApproval,
    AwaitingChild,
    Cancelled,
    Done,
    Failed,
    Held,
    Interrupted,
    Outcome,
    Sleeping,
    Wait,
)
from cortex_plane.jobs.states import JobStatus
from cortex_plane.metrics.service import count, histogram
from cortex_plane.worker.failures import DeadlineExceeded, RunCancelled, RunTimedOut, TimedOut, described, failed, readable
from cortex_plane.worker.reporter import current_run
from cortex_plane.worker.threads import OwnTask, ThreadResult, Threads, in_a_thread

if TYPE_CHECKING:
    from cortex_plane.agents.code import AgentCode
    from cortex_plane.durable.checkpoint import RunServices
    from cortex_plane.jobs.model import Claimed

log = structlog.get_logger()

Ending = Literal["superseded", "interrupted"]

CHILD_RECHECK_SECONDS = 60.0
HELD_SECONDS = 3600.0
HAND_BACK_SECONDS = 2.0

ONLY_PLAIN = (
    "The job has recorded steps, and the agent is not an async function any more: it would do all of them again. "
    "Deploy code that fits: roll back, or submit the job again."
)


class Execution:
    """One run inside this worker."""

    def __init__(self, claimed: Claimed, agent: AgentCode, threads: Threads, started_at: float, services: RunServices) -> None:
        self.claimed = claimed
        self.agent = agent
        self.context = Context.of(claimed)
        self.context.services = services
        self._outside = sys.exception()
        if agent.kind == "async":
            self.context.open_recorder = partial(_new_recorder, claimed, agent, services, self._outside)
        self._services = services
        self.started_at = started_at
        self.task: OwnTask | None = None
        self._threads = threads
        self._ending: Ending | None = None
        self._asked: Outcome | None = None
        """The outcome once the cleanup has finished, if the run was requested to end."""
        self._request: Mapping[str, Any] | None = claimed.asked_to_end
        self._returned = False
        self.posted = False
        """Its outcome is known, and waits to be written."""
        self.given_up = False
        """The worker has shut down without waiting for the handler; another worker resumes the job."""
        self._thread: asyncio.Future[ThreadResult] | None = None
        self._raised: BaseException | None = None

    def end(self, why: Ending) -> None:
        """Interrupts the handler. Nothing that it still does will be kept; `superseded`: not even that it was interrupted."""
        if self._returned:
            return
        self._ending = self._ending or why
        self.context.cancelled = True
        if self.task is not None:
            self.task.end()

    def stops_soon(self) -> None:
        """The worker is shutting down. Sets `ctx.stopping`; the handler is not interrupted yet."""
        self.context.stopping = True

    @property
    def may_clean_up(self) -> bool:
        """Whether a cleanup scope may be open, so that the end of the job is requested and not forced."""
        recorder = self.context.recorder
        return self.claimed.resumes if recorder is None else recorder.cleaning.is_noted

    def ask_to_end(self, request: Mapping[str, Any]) -> None:
        """Requests the end of the job. Inside an open cleanup scope the handler cleans up first; a handler that still
        replays towards one continues to it; any other handler is interrupted."""
        if self._returned or self._asked is not None:
            return
        recorder, (asked, ending) = self.context.recorder, self._end_of(request)
        if recorder is None and self.claimed.resumes:  # The checkpoint is being loaded.
            self._request = request
            return
        self._asked = asked
        replays = recorder is not None and bool(recorder.journal.expected())
        if recorder is not None and (recorder.cleaning.open or replays):
            recorder.cleaning.ask(str(request.get("kind")), ending, self._limit_cleanup)
            recorder.cleaning.interrupting = not replays
        if self.task is not None and not replays:
            self.task.end()

    def _end_of(self, request: Mapping[str, Any]) -> tuple[Outcome, Exception]:
        if request.get("kind") == "deadline":
            error = DeadlineExceeded("The job did not end before its deadline.")
            return failed(error), error
        details = {"reason": request.get("reason"), "requested_by": request.get("actor")}
        note = {name: value for name, value in details.items() if value is not None}
        return Cancelled(note or None), RunCancelled(self.claimed.job_id)

    def _limit_cleanup(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._cleanup_is_over, seconds)

    def _cleanup_is_over(self, seconds: float) -> None:
        if self._returned:
            return
        log.warning("cleanup_timed_out", job_id=self.claimed.job_id, agent=self.claimed.job_type, seconds=seconds)
        if isinstance(self._asked, Cancelled):
            self._asked = Cancelled({**(self._asked.note or {}), "cleanup": f"did not end within {seconds:g} s"})
        if self.task is not None:
            self.task.end()

    def when_over(self, call: Callable[[], None]) -> None:
        """Calls back when nothing of this run is executing: at once, or when its thread has returned."""
        if self._thread is None or self._thread.done():
            call()
        else:
            self._thread.add_done_callback(lambda _: call())

    async def run(self) -> Outcome | None:
        """How it ended; None when the run was superseded and its result is dropped."""
        current_run.set(self.claimed)
        outcome = await (self._outcome() if self._services.telemetry is None else self._traced())
        if isinstance(outcome, Failed | Done) and outcome.run is None and self.context.details is not None:
            outcome = replace(outcome, run=self.context.details)
        if isinstance(outcome, Failed) and outcome.waits is not None:
            outcome = self._within_limit(outcome, outcome.waits)
        return self.left_with(outcome)

    def _within_limit(self, outcome: Failed, wait: Wait) -> Failed:
        longest = self.agent.config.max_retry_after_seconds
        if wait.seconds <= longest:
            return outcome
        message = f"RetryAfter asks for {wait.seconds:g} s; the agent's max_retry_after is {longest:g} s. {wait.reason}"
        return replace(outcome, error={**outcome.error, "message": message}, retryable=False, waits=None)

    def left_with(self, outcome: Outcome) -> Outcome | None:
        """Converts the handler's end to an outcome. If the run was ended from outside, that outcome takes precedence."""
        self._returned = True
        if (recorder := self.context.recorder) is not None:
            recorder.unawaited.clear()
        if recorder is not None and recorder.largest_bytes:
            histogram("checkpoint_bytes", agent=self.claimed.job_type).observe(recorder.largest_bytes)
            log.debug("checkpoints_written", job_id=self.claimed.job_id, largest_bytes=recorder.largest_bytes)
        match self._ending:
            case "superseded":
                return None
            case "interrupted":
                return Interrupted()
            case None:
                return outcome if self._asked is None else self._when_cleaned_up(outcome, self._asked)

    def _when_cleaned_up(self, outcome: Outcome, asked: Outcome) -> Outcome:
        """Keeps the exception. A handler that waits in its cleanup resumes with it later."""
        if isinstance(outcome, Interrupted | Held | Sleeping | AwaitingChild | AwaitingApproval):
            return outcome
        raised = isinstance(outcome, Failed) and outcome.error.get("type") not in ("RunCancelled", "CancelledError")
        if isinstance(asked, Cancelled) and isinstance(outcome, Failed) and raised:
            return Cancelled({**(asked.note or {}), "raised": f"{outcome.error.get('type')}: {outcome.message}"})
        return asked

    async def _traced(self) -> Outcome:
        telemetry = self._services.telemetry
        assert telemetry is not None
        kept: tuple[str | None, str | None] = None, None
        with suppress(Unavailable):  # A trace is a help, never a reason not to run.
            kept = await self._services.trace(self.claimed.job_id)
        with telemetry.running(self.claimed, *kept) as tell:
            outcome = await self._outcome()
            tell(outcome)
            return outcome

    async def _outcome(self) -> Outcome:
        try:
            if self.claimed.resumes:
                self.context.recorder = await self._resumed()
            if self._request is not None:
                self._resume_cleanup(self._request)
            result = await self._call_in_time()
            self._check_left()
            return await self._done(result)
        except Suspension as suspension:
            return self._suspended(suspension)
        except RunStopped as stopped:
            return self._stopped(stopped.cause)
        except KnownMisfit as known:
            return Held(known.error, self._code, min(HAND_BACK_SECONDS * 2**known.handed_back, HELD_SECONDS), handed_back=True)
        except CheckpointCorrupted as corrupted:
            return self._of_other_version(corrupted) or self._corrupted(corrupted)
        except asyncio.CancelledError as error:
            if self._ending is not None or self._asked is not None:
                uncancel()
            return Interrupted() if self._ending is not None else failed(error)
        except BaseException as error:  # Also sys.exit() and KeyboardInterrupt: a job never ends its worker.
            self._raised = readable(error)
            return failed(self._raised)

    def _resume_cleanup(self, request: Mapping[str, Any]) -> None:
        """The end was requested while the job waited or after its worker died: recorded calls are answered, new ones
        refused."""
        if self.context.recorder is None and self.context.open_recorder is not None:
            self.context.recorder = self.context.open_recorder()
        self._asked, ending = self._end_of(request)
        if self.context.recorder is not None:
            self.context.recorder.cleaning.ask(str(request.get("kind")), ending, self._limit_cleanup)
            self.context.recorder.cleaning.resume()

    @property
    def goes_on(self) -> bool:
        """Whether its plain function has not returned, though the run has ended: a thread cannot be stopped."""
        return self._thread is not None and not self._thread.done()

    # -- the durable side ------------------------------------------------------------------------

    async def _resumed(self) -> Recorder:
        services = self._services
        agent_id = services.agent_ids[self.agent.job_type]
        recorder = await resume(services.checkpoints, self.claimed, self.agent, agent_id, services, self._code)
        recorder.journal.outside = self._outside
        if self.agent.kind != "async" and recorder.journal.entries:
            raise RunStopped(CodeChanged("start", ONLY_PLAIN))
        return recorder

    def _check_left(self) -> None:
        """Returns the handler's result. A handler that caught its own suspension, or the end of its run, is ended all the
        same. A missing `await` is reported before the result is encoded, because the result may be that very call."""
        recorder = self.context.recorder
        if recorder is not None and recorder.stopped is not None:
            raise recorder.stopped
        if recorder is not None and recorder.suspension is not None:
            raise recorder.suspension
        if recorder is not None and (message := never_awaited(recorder)) is not None:
            raise NeverAwaited(message)

    def _suspended(self, suspension: Suspension) -> Outcome:
        match suspension:
            case SleepUntil(at, seconds):
                return Sleeping(max(0.0, (at - self._services.clock.now()) / SECOND if seconds is None else seconds))
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
        if isinstance(cause, CodeChanged) and self.agent.on_code_change == "hold":
            return self._held(cause)
        return failed(cause, retryable=not isinstance(cause, InvalidInput | Conflict))

    @property
    def _code(self) -> str:
        """The fingerprint of the agent's code in this worker."""
        return self._services.codes[self.agent.job_type]

    def _held(self, cause: CodeChanged | CheckpointCorrupted) -> Outcome:
        """The job waits for a worker with other code; this one tries it again once in a while."""
        step = cause.step if isinstance(cause, CodeChanged) else "start"
        recorder = self.context.recorder
        known = cause.known if isinstance(cause, CheckpointCorrupted) else recorder is not None and recorder.did_not_fit
        claimed = self.claimed
        log.error(
            "job_held",
            job_id=claimed.job_id,
            run_id=claimed.run_id,
            agent=claimed.job_type,
            step=step,
            code=self._code,
            error=str(cause),
            advice=f"cortex jobs why {claimed.job_id}",
        )
        count("jobs_held", agent=claimed.job_type)
        error = {**described(cause), "step": step, "code": self._code}
        if isinstance(cause, CheckpointCorrupted):
            error |= {"type": CodeChanged.__name__, "message": cause.details}
        return Held(error, self._code, HELD_SECONDS, again=known)

    def _of_other_version(self, error: CheckpointCorrupted) -> Outcome | None:
        """The checkpoint is valid, but the agent's data has a version that this code does not know: the worker's code is too
        old."""
        if error.kind in ("future_state", "no_state_migration") and self.agent.on_code_change == "hold":
            return self._held(error)
        return None

    def _corrupted(self, error: CheckpointCorrupted) -> Outcome:
        """The damaged checkpoint is kept unchanged for inspection."""
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

    def final_checkpoint(self, outcome: Outcome, becomes: JobStatus) -> Checkpoint | None:
        """The checkpoint of a job that has completed or failed, and of a run whose retry is to make recorded calls again."""
        recorder = self.context.recorder
        if recorder is None:
            return None
        try:
            match outcome:
                case Done():
                    return recorder.final_checkpoint("completed")
                case Failed():
                    return recorder.final_checkpoint_of_failure(self._raised, becomes is JobStatus.FAILED)
                case _:
                    return None
        except InvalidInput as error:
            log.warning("last_checkpoint_left_out", job_id=self.claimed.job_id, error=str(error))
            return None

    @property
    def cost_cents(self) -> int:
        """Costs that no checkpoint includes."""
        recorder = self.context.recorder
        return self.context.cost_cents + (recorder.unwritten_cents if recorder is not None else 0)

    async def _done(self, result: Any) -> Outcome:
        if isinstance(result, Done | Failed):
            return result
        sizes = self._services.sizes
        text = (await encoded_result(result, self.agent.types.returns, "result", sizes.result_bytes)).text
        if len(text) > sizes.output_bytes:
            return Done(large_output=await in_a_thread(partial(blob_of, text)))
        return Done(None if text == "null" else text)

    # -- calling the handler ---------------------------------------------------------------------

    @property
    def _limit(self) -> tuple[float | None, Exception | None]:
        """Seconds until the handler is interrupted, and the exception to raise then."""
        run, left = self.claimed.timeout_seconds or self.agent.config.timeout_seconds, self.claimed.seconds_left
        if left is not None and (run is None or left < run):
            return left, DeadlineExceeded("The job did not end before its deadline.")
        return run, None if run is None else TimedOut(f"The handler did not finish within {run:g} s.")

    async def _call_in_time(self) -> Any:
        seconds, error = self._limit
        if error is None or seconds is None or self._asked is not None:
            return await self._call()
        limit = asyncio.timeout(None)
        timer = asyncio.get_running_loop().call_later(seconds, self._time_is_over, error, limit)
        try:
            async with limit:
                return await self._call()
        except TimeoutError:
            if not limit.expired():
                raise
            self.context.cancelled = True
            raise error from None
        finally:
            timer.cancel()

    def _time_is_over(self, error: Exception, limit: asyncio.Timeout) -> None:
        """Inside an open cleanup scope the handler cleans up first; a cleanup in progress has its own limit."""
        recorder = self.context.recorder
        if self._asked is None and recorder is not None and recorder.cleaning.open and self.task is not None:
            kind = "deadline" if isinstance(error, DeadlineExceeded) else "timeout"
            self._asked = failed(error)
            given = error if kind == "deadline" else RunTimedOut(str(error))
            recorder.cleaning.ask(kind, given, self._limit_cleanup)
            recorder.cleaning.interrupting = True
            self.task.end()
        elif self._asked is None:
            limit.reschedule(asyncio.get_running_loop().time())

    async def _call(self) -> Any:
        if not isinstance(self.claimed.payload, dict):
            raise InvalidInput("The payload is not an object, so it holds no arguments by name.", field="payload")
        match self.agent.kind:
            case "async" | "command":
                return await self._called()
            case "thread":
                return await self._call_in_thread()

    def _called(self) -> Awaitable[Any]:
        result: Awaitable[Any] = self.agent.handler(self.context, **self._arguments())
        return result if self.agent.kind == "command" else Interruptible(result, self.context.cleaning)

    def _arguments(self) -> dict[str, Any]:
        """Checks the arguments of the job. If the code takes other arguments now, a job that has made progress waits for
        code that takes them."""
        try:
            return self.agent.types.decode(self.claimed.payload)
        except InvalidInput as error:
            if self.claimed.resumes:
                changed = f"The code does not take the arguments that the job was submitted with. {error}"
                raise RunStopped(CodeChanged("start", changed)) from None
            raise

    async def _call_in_thread(self) -> Any:
        """A thread cannot be interrupted: the outcome waits until the function checks `ctx.cancelled` and returns."""
        self._thread = self._threads.call(self._call_plainly)
        while True:
            try:
                return (await asyncio.shield(self._thread)).value
            except asyncio.CancelledError:
                if self._ending is None:
                    raise
                uncancel()

    def _call_plainly(self) -> Any:
        """Runs in a thread. Exceptions are converted to an outcome there, beside the frames that raised them."""
        try:
            return self.agent.handler(self.context, **self.agent.types.decode(self.claimed.payload))
        except BaseException as error:
            return failed(error)


def _new_recorder(claimed: Claimed, agent: AgentCode, services: RunServices, outside: BaseException | None) -> Recorder:
    """Holds no reference to the execution: a reference cycle would be freed only by the garbage collector, at a cost for
    every job."""
    journal = Journal(seed=services.new_id(), state_version=agent.state_version, outside=outside)
    return Recorder(claimed, services.agent_ids[agent.job_type], agent.config, agent.prompt_hash, services, journal)


def uncancel() -> None:
    """Clears the cancellation after it was delivered: later code in this task must not be cancelled by it."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
