"""What a handler is given: who it is, for what job, whether it should stop, and everything durable that it can do."""

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
"""In the place of work: only options are given, and the work comes later. None would be taken for a missing function."""

_adding = threading.Lock()  # One for all: a handler's threads add up rarely, and a job must not pay for a lock of its own.


class Context:
    """The first argument of every handler."""

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

        """1, and one more for each run before this one that failed or was lost with its worker. Sleeps, waits for children and
        for people, and workers that stop in order do not count."""

        self.cancelled = False
        """True once nothing that this run does will be kept: it was cancelled, timed out or superseded.

        An async handler is interrupted anyway; a plain function should look here now and then and return."""

        self.stopping = False
        """True once the worker is shutting down. What is not finished soon is interrupted, and goes on elsewhere."""

        self.details: dict[str, Any] | None = None
        """What the run record will hold besides the outcome: the log of a command, its artifacts."""

        self.cost_cents = 0
        """What this run has cost so far, as far as no checkpoint counts it."""

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
        """Work that is done once: `image = await ctx.step("build", build, version)`. Its result is durable before the handler
        goes on, and a later run gets it from the record. With options: `await ctx.step("build", timeout=60)(build, version)`;
        as a decorator: `@ctx.step("build")`; around a block: `async with ctx.step("build") as step: if step.pending: …`.

        Everything after the function is passed to it. Options: `retry`, how often it is tried again in the same run, and
        `timeout`, the seconds for each try."""
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
        """A call that changes something outside: `await ctx.tool("deploy", deploy, image=image)`. That it is about to happen is
        durable before, its result after. A function with a parameter `invocation_id` is given the id of its call, which is the
        same in every repetition. Everything after the function is passed to it; options are given apart:
        `await ctx.tool("pay", verify=ask_the_bank)(pay, amount)`.

        `verify(invocation_id)` is asked before any repetition: `Applied(result)`, or None when the call took no effect.
        `on_uncertain` decides where there is no `verify` and nobody knows whether the call took effect: "fail" raises
        ToolUncertain, "rerun" calls again, "ask" asks an approver.
        `uncertain_on` are exceptions that leave it open whether the call took effect, besides TimeoutError and ConnectionError.
        `side_effect=False` says that it changes nothing: it is repeated freely.
        `retry` is how often it is tried again in the same run, `timeout` the seconds for each try."""
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
        """A step that asks a model. The tokens that its answer's `usage` names are counted, once. Options as of `ctx.step`."""
        options = options_of(StepOptions, "llm", kwargs) if work is OPTIONS_ONLY else PLAIN
        runner = StepRunner(self._durable, name, options, "llm", self._count_tokens)
        return runner if work is OPTIONS_ONLY else WorkCall(runner, work, args, kwargs)

    def gather(self, *branches: Awaitable[Any], return_exceptions: bool = False) -> Call[list[Any]]:
        """Several branches at a time, each with steps of its own: `await ctx.gather(ctx.step("a", f), ctx.step("b", g))`."""
        recorder = self._durable
        return Gathering(recorder, branches, partial(flow.gather, recorder, branches, return_exceptions))

    def sleep(self, seconds: float | timedelta) -> Call[None]:
        """Waits without a worker: the job is called again when the time has come, and goes on from here."""
        recorder = self._durable
        return Call(recorder, "ctx.sleep(…)", partial(flow.sleep, recorder, seconds))

    def sleep_until(self, moment: datetime) -> Call[None]:
        recorder = self._durable
        return Call(recorder, "ctx.sleep_until(…)", partial(flow.sleep_until, recorder, moment))

    @overload
    def call(self, agent: Callee[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Call[Result]: ...

    @overload
    def call(self, agent: str | Submission, /, *args: Any, **kwargs: Any) -> Call[Any]: ...

    def call(self, agent: Any, /, *args: Any, **kwargs: Any) -> Call[Any]:
        """A child job, and its result: `await ctx.call(review, text)` or `await ctx.call("review", text=text)`. It is submitted
        once; this job waits without a worker. For options: `ctx.call(review.options(queue="slow"), text)`, or a Submission;
        with `cancel_with_parent=True` among them it ends when this job fails or is cancelled."""
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
        """Asks people, and waits without a worker: `await ctx.approval("Deploy 1.4.0", details={"image": image})`.

        `approvers` are users by name, and groups as "group:NAME"; left out, the user of the job's session is asked, or whoever
        may approve in the tenant. A denial fails the job, or with on_denial="raise" raises ApprovalDenied here. When nobody
        decides within `ttl`, `on_expiry` says what follows; "default" goes on with `default` as the details. `editable` lets
        approvers change the details: True, a list of keys, or a JSON Schema. Not inside ctx.gather: the job waits as a whole.

        A decision holds for the summary and details that were shown. When a later run of the handler gives others, `on_change`
        says what follows: "ask" asks again and tells approvers why, "keep" goes on with the decision, "fail" fails the job."""
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
        """Submits jobs that belong together, once, whatever is killed: `await ctx.group("night", [review.submission(text), …])`.
        A step of this name: its id and those of its members are recorded. This job does not wait for them; `callback` is told
        when they have ended."""
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
        """A part of the handler in which the end of the job is an exception, so that it can clean up, durably:

            async with ctx.cleanup(timeout=300):
                await ctx.tool("reserve", reserve)
                try:
                    await ctx.call(build)
                except JobCancelled:
                    await ctx.tool("release", release)
                    raise

        When the job is cancelled meanwhile, JobCancelled is raised where the handler awaits; a job that waits is called once
        more for it. TimedOut and DeadlineExceeded are raised likewise. Steps and tools that follow are recorded, and a worker
        that dies does not end the cleanup. The job has ended when the scope is left, whatever was caught, or when `timeout` has
        passed."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        return CleanupScope(self._durable, seconds)

    def now(self) -> datetime:
        """The time, the same in every run of this job."""
        return flow.now(self._durable)

    def random(self) -> float:
        """A number from 0 to 1, the same in every run of this job."""
        return flow.random_number(self._durable)

    def uuid(self) -> UUID:
        """An id that nobody can guess, the same in every run of this job."""
        return flow.random_uuid(self._durable)

    def patched(self, name: str) -> bool:
        """Whether this job runs the changed code: `if ctx.patched("add-scan"): await ctx.tool("scan", scan, image)`.

        True when the job has not passed this place yet, False when it was beyond it before the change was deployed. The answer
        is recorded, and is the same for this name in every later run of the job."""
        return patched(self._durable, name)

    @property
    def memory(self) -> Memory:
        """Facts, a summary and working data, as they were at this point when the job is resumed."""
        return self._durable.journal.memory

    # -- telling ---------------------------------------------------------------------------------

    @property
    def log(self) -> RunLog:
        """A structured logger that knows the job. Its lines are stored with the run."""
        return RunLog(self.job_id, self.run_id, self.agent, self.services.reporter if self.services else None)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """How far the job is, for people who watch."""
        if self.services is not None:
            self.services.reporter.tell(self.job_id, self.run_id, "progress", {"done": done, "total": total, "text": text})

    def artifact(self, content: bytes | str | Path, name: str | None = None) -> Kept:
        """Keeps a file with the run: bytes under a name, or a copy of a file. Doing so again replaces it.

        `path = await ctx.artifact(b"...", "report.pdf")`: the file is written in a thread, and is on disk then. A plain function
        does not await it: the file is on disk when the call returns, and `.path` says where."""
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
        """Counts tokens, and what they cost. Said where they are used, inside the step, they are counted once."""
        prompt, completion = check_count(prompt_tokens, "prompt_tokens"), check_count(completion_tokens, "completion_tokens")
        self._durable.journal.use(prompt, completion, check_cents(cents))

    def cost(self, cents: int) -> None:
        """Adds whole cents to what this job has cost. They are durable with the next checkpoint, or with the outcome, whatever
        that is. What a worker that dies had not written is lost with it."""
        with _adding:
            if self.recorder is None:
                self.cost_cents = check_cents(self.cost_cents + check_cents(cents))
            else:
                self.recorder.journal.use(0, 0, check_cents(cents))

    # -- behind the scenes -----------------------------------------------------------------------

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
