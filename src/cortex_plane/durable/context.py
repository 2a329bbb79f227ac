"""`Context`, the first argument of every handler: identity of the run, durable steps, waits, approvals, logs and artifacts."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from uuid import UUID

from cortex_plane.approvals.model import Approval, Escalation, Gate, Names, OnChange, OnDenial, OnExpiry
from cortex_plane.costs.model import check_cents
from cortex_plane.durable import waits as flow
from cortex_plane.durable.approvals import Arguments, Async, Call, Gathering, Plain, Result, WorkCall, ask
from cortex_plane.durable.artifacts import Kept, artifact_path, store_artifact
from cortex_plane.durable.calls import PLAIN, OnUncertain, StepOptions, ToolOptions, UncertainOn, Verify, options_of
from cortex_plane.durable.cleanup import Cleaning, CleanupScope
from cortex_plane.durable.memory import Memory, check_count, tokens_in
from cortex_plane.durable.scopes import patched
from cortex_plane.durable.steps import StepRunner
from cortex_plane.durable.tools import ToolRunner
from cortex_plane.errors import InvalidInput
from cortex_plane.groups.model import GroupMode, OnFailure, SubmittedGroup
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, Claimed, JobId, RunId, TenantId
from cortex_plane.worker.reporter import RunLog
from cortex_plane.worker.threads import in_a_thread

if TYPE_CHECKING:
    from cortex_plane.durable.checkpoint import Recorder, RunServices
    from cortex_plane.durable.children import Callee
    from cortex_plane.jobs.fields import Submission
    from cortex_plane.jobs.retry import RetryPolicy


OPTIONS_ONLY: Any = object()
"""Placeholder for a missing `work` argument. None would hide a function that is None by mistake."""

_adding = threading.Lock()  # One lock for all contexts: contention is rare, and a lock per job costs memory.


class Context:
    """The first argument of every handler.

    Attributes:
        job_id: The id of the job. It stays the same over all runs of the job.
        run_id: The id of this run. Every write of the run carries it; a superseded run cannot write.
        agent: The job type.
        queue: The queue of the job.
        attempt: 1 plus the number of earlier runs that failed or were lost with their worker. Sleeps, waits for children or
            approvals, and graceful shutdowns do not count.
        tenant_id: The tenant of the job.
    """

    __slots__ = (
        "agent",
        "attempt",
        "cancelled",
        "cost_cents",
        "details",
        "job_id",
        "open_recorder",
        "queue",
        "recorder",
        "run_id",
        "services",
        "stopping",
        "tenant_id",
    )

    def __init__(
        self, job_id: JobId, run_id: RunId, agent: str, queue: str, attempt: int, tenant_id: TenantId = DEFAULT_TENANT_ID
    ) -> None:
        self.job_id, self.run_id = job_id, run_id
        self.agent, self.queue, self.attempt, self.tenant_id = agent, queue, attempt, tenant_id

        self.cancelled = False
        """True when the results of this run are no longer accepted: the job was cancelled, timed out or taken over.

        An async handler is interrupted. A plain function should check this flag regularly and return."""

        self.stopping = False
        """True when the worker is shutting down.

        After the grace period the handler is interrupted, and another worker resumes the job."""

        self.details: dict[str, Any] | None = None
        """Details stored in the run record besides the outcome: the log of a command, the paths of artifacts."""

        self.cost_cents = 0
        """Costs of this run that are not yet part of a checkpoint."""

        self.recorder: Recorder | None = None
        self.open_recorder: Callable[[], Recorder] | None = None
        self.services: RunServices | None = None

    @classmethod
    def of(cls, claimed: Claimed) -> Context:
        attempt = claimed.failed_runs + 1
        return cls(claimed.job_id, claimed.run_id, claimed.job_type, claimed.queue, attempt, claimed.tenant_id)

    def __repr__(self) -> str:
        return f"Context(job_id={self.job_id!r}, run_id={self.run_id!r}, agent={self.agent!r}, attempt={self.attempt})"

    # -- durable work ----------------------------------------------------------------------------

    @overload
    def step(
        self, name: str, work: Async[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> WorkCall[Result]: ...

    @overload
    def step(
        self, name: str, work: Plain[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> WorkCall[Result]: ...

    @overload
    def step(self, name: str, /, *, retry: RetryPolicy = ..., timeout: float | timedelta | None = ...) -> StepRunner: ...

    def step(self, name: str, work: Any = OPTIONS_ONLY, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a function once and records its result.

        The result is saved before the handler continues. When the job is resumed, the recorded result is returned and the
        function is not called again. If the worker dies while the function runs, no result is recorded and it is called again.

        Args:
            name: The name of the step. Steps are identified by branch, name and occurrence, so renaming a step changes the job.
            work: The function, async or plain. Plain functions run in a thread. Leave it out to pass options or to use the step
                as a decorator or a block.
            *args: Passed to the function.
            **kwargs: Passed to the function. Without `work`, the options: `retry`, a RetryPolicy for tries within this run
                (default: no retry), and `timeout` in seconds or as a timedelta for each try (default: none).

        Returns:
            The result of the function, converted to JSON and back as its return annotation says: without one, a tuple becomes a
            list on the first run too.

        Raises:
            StepFailed: The function failed or a try exceeded `timeout`. If the handler catches it and continues, the failure is
                recorded with the next step and this step is not tried again.
            InvalidInput: An option is unknown or has a wrong value, or the handler is a plain function.

        Example:
            image = await ctx.step("build", build, version)
            image = await ctx.step("build", timeout=60)(build, version)

            async with ctx.step("build") as step:
                if step.pending:
                    step.result = await build(version)
        """
        if work is OPTIONS_ONLY:
            return StepRunner(self._durable, name, options_of(StepOptions, "step", kwargs))
        return WorkCall(StepRunner(self._durable, name), work, args, kwargs)

    @overload
    def tool(
        self, name: str, work: Async[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> WorkCall[Result]: ...

    @overload
    def tool(
        self, name: str, work: Plain[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> WorkCall[Result]: ...

    @overload
    def tool(
        self,
        name: str,
        /,
        *,
        verify: Verify | None = ...,
        on_uncertain: OnUncertain = ...,
        uncertain_on: UncertainOn = ...,
        side_effect: bool | None = ...,
        retry: RetryPolicy = ...,
        timeout: float | timedelta | None = ...,
    ) -> ToolRunner: ...

    def tool(self, name: str, work: Any = OPTIONS_ONLY, /, *args: Any, **kwargs: Any) -> Any:
        """Calls a function with side effects and records the call before and after.

        The call is saved as pending before the function is called, and its result afterwards. If the worker dies in between, the
        outcome is unknown. `verify` and `on_uncertain` then decide whether the call is repeated.

        Args:
            name: The name of the tool, as in `ctx.step`.
            work: The function. If it has a parameter `invocation_id`, it receives the id of the call, which is the same for every
                repetition: use it as idempotency key.
            *args: Passed to the function.
            **kwargs: Passed to the function. Without `work`, the options below.
            verify: Called with the invocation id before a repetition. Returns `Applied(result)` if the call took effect, None if
                it did not.
            on_uncertain: What to do without `verify` when the outcome is unknown: "fail" raises ToolUncertain (default),
                "rerun" calls the function again, "ask" opens an approval.
            uncertain_on: Exceptions after which the outcome is unknown, in addition to TimeoutError and ConnectionError.
            side_effect: False if the call changes nothing and may be repeated. Default: as the agent's `side_effect_tools` say.
            retry: A RetryPolicy for tries within this run. Default: no retry.
            timeout: Seconds or a timedelta for each try. Default: none.

        Returns:
            The result of the function, or the one that `verify` or an approver supplied.

        Raises:
            ToolUncertain: The outcome is unknown and `on_uncertain` is "fail".
            StepFailed, InvalidInput: As in `ctx.step`.

        Example:
            await ctx.tool("deploy", deploy, image=image)
            await ctx.tool("pay", verify=find_payment)(pay, amount)
        """
        if work is OPTIONS_ONLY:
            return ToolRunner(self._durable, name, options_of(ToolOptions, "tool", kwargs))
        return WorkCall(ToolRunner(self._durable, name), work, args, kwargs)

    @overload
    def llm(
        self, name: str, work: Async[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> WorkCall[Result]: ...

    @overload
    def llm(
        self, name: str, work: Plain[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> WorkCall[Result]: ...

    @overload
    def llm(self, name: str, /, *, retry: RetryPolicy = ..., timeout: float | timedelta | None = ...) -> StepRunner: ...

    def llm(self, name: str, work: Any = OPTIONS_ONLY, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a step that calls a language model, and counts its tokens once.

        Arguments, options, result and errors are those of `ctx.step`. The tokens are read from `usage` of the answer, under the
        names that the common providers use.

        Example:
            answer = await ctx.llm("summarize", client.complete, prompt)
        """
        options = options_of(StepOptions, "llm", kwargs) if work is OPTIONS_ONLY else PLAIN
        runner = StepRunner(self._durable, name, options, "llm", self._count_tokens)
        return runner if work is OPTIONS_ONLY else WorkCall(runner, work, args, kwargs)

    def gather(self, *branches: Awaitable[Any], return_exceptions: bool = False) -> Call[list[Any]]:
        """Runs several durable calls or coroutines concurrently.

        Each branch has its own step identities. All branches finish, and their results are recorded, before a failure is raised.
        `ctx.sleep`, `ctx.call` and `ctx.approval` cannot be used in a branch: the job waits as a whole.

        Args:
            *branches: Durable calls such as `ctx.step(...)`, or coroutines that use this context.
            return_exceptions: Return exceptions in the list instead of raising the first one.

        Returns:
            The results in the order of the branches.

        Example:
            a, b = await ctx.gather(ctx.step("a", load_a), ctx.step("b", load_b))
        """
        recorder = self._durable
        return Gathering(recorder, branches, partial(flow.gather, recorder, branches, return_exceptions))

    def sleep(self, seconds: float | timedelta) -> Call[None]:
        """Suspends the job for a duration. It occupies no worker slot meanwhile, and survives restarts.

        Args:
            seconds: Seconds or a timedelta.

        Example:
            await ctx.sleep(timedelta(hours=1))
        """
        recorder = self._durable
        return Call(recorder, "ctx.sleep(…)", partial(flow.sleep, recorder, seconds))

    def sleep_until(self, moment: datetime) -> Call[None]:
        """Suspends the job until a moment, as `ctx.sleep` does.

        Args:
            moment: A datetime; without a time zone, in UTC. A moment in the past returns at once.
        """
        recorder = self._durable
        return Call(recorder, "ctx.sleep_until(…)", partial(flow.sleep_until, recorder, moment))

    @overload
    def call(self, agent: Callee[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Call[Result]: ...

    @overload
    def call(self, agent: str | Submission, /, *args: Any, **kwargs: Any) -> Call[Any]: ...

    def call(self, agent: Any, /, *args: Any, **kwargs: Any) -> Call[Any]:
        """Submits a child job once, waits for it without a worker, and returns its result.

        Args:
            agent: An agent, the name of one, or a Submission. `review.options(queue="slow")` sets options of the job; with
                `cancel_with_parent=True` the child is cancelled when this job fails or is cancelled.
            *args: Passed to the child's handler.
            **kwargs: Passed to the child's handler.

        Returns:
            The result of the child. If the child is retried, the result of its last job.

        Raises:
            StepFailed: The child failed or was cancelled; its cause is a JobFailed. A retry of this job resumes the failed child.
            InvalidInput: The agent is not an agent, a name or a Submission, or the call is inside `ctx.step` or `ctx.gather`.

        Example:
            verdict = await ctx.call(review, text)
            verdict = await ctx.call("review", text=text)
        """
        recorder, child = self._durable, flow.child_of(agent, args, kwargs)
        return Call(recorder, f"ctx.call({child.agent!r})", partial(_call, recorder, child, getattr(agent, "result_from", None)))

    def approval(
        self,
        summary: str,
        *,
        details: Any = None,
        approvers: Names | None = None,
        quorum: int = 1,
        ttl: float | timedelta | None = None,
        remind: float | timedelta | None = None,
        escalate: Escalation | None = None,
        on_expiry: OnExpiry = "fail",
        default: Any = None,
        on_denial: OnDenial = "fail",
        editable: Any = False,
        no_self_approval: bool = False,
        on_change: OnChange = "ask",
        name: str = "approval",
    ) -> Call[Approval]:
        """Requests an approval and suspends the job until it is decided. The job occupies no worker slot meanwhile.

        A decision is valid for the summary and details that the approvers saw. If a later run of the handler passes different
        ones, `on_change` applies.

        Args:
            summary: One line that tells approvers what they approve.
            details: JSON data shown with the summary.
            approvers: Names of users, and groups as "group:NAME". Default: the user of the job's session, or every user who may
                approve in the tenant.
            quorum: How many approvers must approve. The first denial closes the request.
            ttl: Seconds or a timedelta until the request expires. Default: set by the agent.
            remind: Seconds or a timedelta after which approvers are reminded.
            escalate: When to ask other approvers, and which.
            on_expiry: "fail" fails the job (default), "deny" acts as a denial, "approve" approves, "default" continues with
                `default` as the details.
            default: The details used with on_expiry="default".
            on_denial: "fail" fails the job (default), "raise" raises ApprovalDenied.
            editable: What approvers may change in the details: True, a list of keys, or a JSON Schema. Requires quorum=1.
            no_self_approval: Refuse decisions by the users who submitted the work.
            on_change: "ask" requests a new approval and shows approvers the reason (default), "keep" accepts the decision,
                "fail" fails the job.
            name: The name of the step that records the decision.

        Returns:
            The Approval: `approved`, `decided_by`, `reason`, and `details` with the approver's changes.

        Raises:
            ApprovalDenied: The request was denied and `on_denial` is "raise".
            InvalidInput: An argument is invalid, or the call is inside `ctx.step` or `ctx.gather`.

        Example:
            decision = await ctx.approval("Deploy 1.4.0", details={"image": image}, approvers=["group:ops"])
            await ctx.tool("deploy", deploy, **decision.details)
        """
        gate = Gate(
            summary,
            details,
            approvers,
            quorum,
            ttl,
            remind,
            escalate,
            on_expiry,
            default,
            on_denial,
            editable,
            no_self_approval,
            on_change,
        )
        recorder = self._durable
        return Call(recorder, f"ctx.approval({summary!r:.60})", partial(ask, recorder, gate, name))

    def group(
        self,
        name: str,
        members: Iterable[Submission],
        *,
        mode: GroupMode = "parallel",
        on_failure: OnFailure = "stop",
        callback: Submission | None = None,
    ) -> Call[SubmittedGroup]:
        """Submits a group of jobs once and continues without waiting for them.

        The ids are recorded in a step of this name, so that a resumed job does not submit the group again.

        Args:
            name: The name of the step and of the group.
            members: The jobs, such as `review.submission(text)`.
            mode: "parallel" (default), or "sequential" to start each member when the one before has ended.
            on_failure: When a member fails, "stop" cancels the others (default), "skip" lets running ones finish and skips the
                rest, "continue" changes nothing.
            callback: A job that is submitted when all members have ended.

        Returns:
            The ids of the group and of its jobs.

        Example:
            group = await ctx.group("night", [review.submission(text) for text in texts])
        """
        recorder, asked = self._durable, list(members)

        async def submit() -> dict[str, Any]:
            key = recorder.invocation_id(recorder.scopes.here().path)  # The same for every repetition of this call.
            group_id, job_ids = await recorder.services.submit_group(
                asked, mode=mode, on_failure=on_failure, callback=callback, name=name, key=key, parent=recorder.claimed
            )
            return {"id": group_id, "jobs": job_ids}

        async def submitted() -> SubmittedGroup:
            made = await self.step(name, submit)
            return SubmittedGroup(made["id"], tuple(made["jobs"]))

        return Call(recorder, f"ctx.group({name!r:.60})", submitted)

    def cleanup(self, timeout: float | timedelta = 300.0) -> CleanupScope:
        """Opens a scope in which the end of the job is raised as an exception, so that the handler can clean up durably.

        If the job is cancelled, JobCancelled is raised at the current `await`; a suspended job is called once more for it.
        TimedOut and DeadlineExceeded are raised in the same way. Steps and tools of the cleanup are recorded, and the cleanup is
        resumed if its worker dies. The job ends when the scope is left, even if the exception was caught, or after `timeout`.

        Args:
            timeout: Seconds or a timedelta that the cleanup may take.

        Example:
            async with ctx.cleanup(timeout=300):
                await ctx.tool("reserve", reserve)
                try:
                    await ctx.call(build)
                except JobCancelled:
                    await ctx.tool("release", release)
                    raise
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        return CleanupScope(self._durable, seconds)

    def now(self) -> datetime:
        """Returns the current time in UTC. The value is recorded: a resumed job gets the same one."""
        return flow.now(self._durable)

    def random(self) -> float:
        """Returns a random number from 0 to 1. A resumed job gets the same one."""
        return flow.random_number(self._durable)

    def uuid(self) -> UUID:
        """Returns a random UUID that cannot be guessed. A resumed job gets the same one."""
        return flow.random_uuid(self._durable)

    def patched(self, name: str) -> bool:
        """Reports whether this job uses a changed part of the handler, so that running jobs keep their old path.

        Args:
            name: The name of the change. The answer is recorded under it and stays the same for the job.

        Returns:
            True if the job had not passed this place when the change was deployed, False if it had.

        Example:
            if ctx.patched("add-scan"):
                await ctx.tool("scan", scan, image)
        """
        return patched(self._durable, name)

    @property
    def memory(self) -> Memory:
        """Facts, a summary and working data. They are saved with each step and restored when the job is resumed."""
        return self._durable.journal.memory

    # -- reports ---------------------------------------------------------------------------------

    @property
    def log(self) -> RunLog:
        """A structured logger. Its lines carry the job and run ids and are stored with the run."""
        return RunLog(self.job_id, self.run_id, self.agent, self.services.reporter if self.services else None)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Reports progress to the people who follow the job.

        Args:
            done: How much is done.
            total: How much there is to do, if known.
            text: A short note.
        """
        if self.services is not None:
            self.services.reporter.tell(self.job_id, self.run_id, "progress", {"done": done, "total": total, "text": text})

    def artifact(self, content: bytes | str | Path, name: str | None = None) -> Kept:
        """Stores a file with the run.

        In an async handler, await the result: the file is written in a thread and is synced to disk when the call returns. In a
        plain function the file is on disk when the call returns; `.path` is its path.

        Args:
            content: The bytes of the file, or the path of a file to copy.
            name: The file name. Optional for a path. Storing the same name again replaces the file.

        Raises:
            InvalidInput: There is no such file, or the name is missing or is not a plain file name.

        Example:
            path = await ctx.artifact(b"...", "report.pdf")
        """
        if self.services is None:
            raise InvalidInput("There is no folder for artifacts here.", field="artifact")
        folder = self.services.files / "runs" / self.job_id / self.run_id / "artifacts"
        path = artifact_path(folder, content, name)
        if self.recorder is not None or self.open_recorder is not None:  # Of an async handler.
            recorder, unawaited = self._durable, self._durable.unawaited

            def taken(one: Kept) -> None:
                unawaited.pop(one, None)

            kept = Kept(path, partial(in_a_thread, partial(self._keep, path, content)), taken)
            unawaited[kept] = recorder.scopes.path
            return kept
        self._keep(path, content)
        return Kept(path, None, lambda one: None)

    def _keep(self, path: Path, content: bytes | str | Path) -> None:
        store_artifact(path, content)
        with _adding:
            self.details = {**(self.details or {})}
            self.details["artifacts"] = sorted({*self.details.get("artifacts", ()), str(path)})

    def usage(self, *, prompt_tokens: int = 0, completion_tokens: int = 0, cents: int = 0) -> None:
        """Counts tokens and their cost. Call it inside the step that uses the tokens, so that they are counted once.

        Args:
            prompt_tokens: Tokens of the prompt.
            completion_tokens: Tokens of the answer.
            cents: Their cost in whole cents.

        Raises:
            InvalidInput: A value is not a whole number from 0.
        """
        prompt, completion = check_count(prompt_tokens, "prompt_tokens"), check_count(completion_tokens, "completion_tokens")
        self._durable.journal.use(prompt, completion, check_cents(cents))

    def cost(self, cents: int) -> None:
        """Adds to the cost of the job.

        The cost is saved with the next checkpoint, or with the outcome of the run, whatever it is. A worker that dies before
        that loses it.

        Args:
            cents: Whole cents.

        Raises:
            InvalidInput: The value is not a whole number from 0.
        """
        with _adding:
            if self.recorder is None:
                self.cost_cents = check_cents(self.cost_cents + check_cents(cents))
            else:
                self.recorder.journal.use(0, 0, check_cents(cents))

    # -- internals -----------------------------------------------------------------------

    def cleaning(self) -> Cleaning | None:
        return None if self.recorder is None else self.recorder.cleaning

    @property
    def _durable(self) -> Recorder:
        if self.recorder is None:
            if self.open_recorder is None:
                raise InvalidInput(
                    f'"{self.agent}" is a plain function, which cannot be resumed in the middle: steps, tools, sleeps and the '
                    "memory need an async handler. Write it as `async def`.",
                    field="ctx",
                )
            self.recorder = self.open_recorder()
            self.recorder.journal.use(0, 0, self.cost_cents)
            self.cost_cents = 0
        return self.recorder

    def _count_tokens(self, answer: Any) -> None:
        self._durable.journal.use(*tokens_in(answer), 0)


async def _call(recorder: Recorder, child: Submission, typed: Callable[[Any, str], Any] | None) -> Any:
    output = await flow.call(recorder, child)
    return output if typed is None else typed(output, f'The result of child "{child.agent}"')
