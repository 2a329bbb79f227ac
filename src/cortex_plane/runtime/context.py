"""What a handler is given: who it is, for what job, whether it should stop, and everything durable that it can do."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload
from uuid import UUID

from cortex_plane.core.approvals import OnDenial, OnExpiry
from cortex_plane.core.budgets import check_cents
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.gates import Approval, Escalation, Gate, Names
from cortex_plane.core.jobs import DEFAULT_TENANT_ID, Claimed, JobId, RunId, TenantId
from cortex_plane.runtime.artifacts import keep_artifact
from cortex_plane.runtime.durable import flow
from cortex_plane.runtime.durable.approving import ask
from cortex_plane.runtime.durable.memory import Memory
from cortex_plane.runtime.durable.recorder import Recorder, Services
from cortex_plane.runtime.durable.steps import NO_RETRY, PLAIN, StepCall, StepOptions, StepRunner
from cortex_plane.runtime.durable.tools import OnUncertain, ToolCall, ToolOptions, ToolRunner, Verify
from cortex_plane.runtime.durable.usage import check_count, tokens_in
from cortex_plane.runtime.run_log import RunLog

if TYPE_CHECKING:
    from cortex_plane.core.retry import RetryPolicy
    from cortex_plane.operations.submit_jobs import Submission
    from cortex_plane.runtime.callees import Callee

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Async = Callable[Arguments, Coroutine[Any, Any, Result]]
Plain = Callable[Arguments, Result]

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
        "lent",
        "open_recorder",
        "queue",
        "recorder",
        "run_id",
        "stopping",
        "tenant_id",
    )

    def __init__(
        self, job_id: JobId, run_id: RunId, agent: str, queue: str, attempt: int, tenant_id: TenantId = DEFAULT_TENANT_ID
    ) -> None:
        self.job_id, self.run_id = job_id, run_id
        self.agent, self.queue, self.attempt, self.tenant_id = agent, queue, attempt, tenant_id

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
        self.lent: Services | None = None

    @classmethod
    def of(cls, claimed: Claimed) -> Context:
        return cls(claimed.job_id, claimed.run_id, claimed.job_type, claimed.queue, claimed.attempt, claimed.tenant_id)

    def __repr__(self) -> str:
        return f"Context(job_id={self.job_id!r}, run_id={self.run_id!r}, agent={self.agent!r}, attempt={self.attempt})"

    # -- durable work ----------------------------------------------------------------------------

    @overload
    def step(
        self, name: str, work: Async[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> StepCall[Result]: ...

    @overload
    def step(
        self, name: str, work: Plain[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> StepCall[Result]: ...

    @overload
    def step(self, name: str, /, *, retry: RetryPolicy = ..., timeout: float | None = ...) -> StepRunner: ...

    def step(self, name: str, work: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any) -> Any:
        """Work that is done once: `image = await ctx.step("build", build, version)`. Its result is durable before the handler
        goes on, and a later run gets it from the record. With options: `await ctx.step("build", timeout=60)(build, version)`;
        as a decorator: `@ctx.step("build")`; around a block: `async with ctx.step("build") as step: if step.pending: …`."""
        if work is None:
            return StepRunner(self._durable, name, _step_options(**kwargs))
        return StepCall(StepRunner(self._durable, name, PLAIN), work, args, kwargs)

    @overload
    def tool(
        self,
        name: str,
        work: Async[..., Result],
        /,
        *args: Any,
        verify: Verify | None = ...,
        on_uncertain: OnUncertain = ...,
        side_effect: bool | None = ...,
        **kwargs: Any,
    ) -> ToolCall[Result]: ...

    @overload
    def tool(
        self,
        name: str,
        work: Plain[..., Result],
        /,
        *args: Any,
        verify: Verify | None = ...,
        on_uncertain: OnUncertain = ...,
        side_effect: bool | None = ...,
        **kwargs: Any,
    ) -> ToolCall[Result]: ...

    @overload
    def tool(
        self, name: str, /, *, verify: Verify | None = ..., on_uncertain: OnUncertain = ..., side_effect: bool | None = ...
    ) -> ToolRunner: ...

    def tool(
        self,
        name: str,
        work: Callable[..., Any] | None = None,
        /,
        *args: Any,
        verify: Verify | None = None,
        on_uncertain: OnUncertain = "fail",
        side_effect: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """A call that changes something outside: `await ctx.tool("deploy", deploy, image=image)`. That it is about to happen is
        durable before, its result after. When a worker died in between, `verify(invocation_id)` says what happened; without it
        `on_uncertain` decides. A function with a parameter `invocation_id` is given the id of its call."""
        runner = ToolRunner(self._durable, name, ToolOptions(verify, on_uncertain, side_effect))
        return runner if work is None else ToolCall(runner, work, args, kwargs)

    @overload
    def llm(
        self, name: str, work: Async[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> StepCall[Result]: ...

    @overload
    def llm(
        self, name: str, work: Plain[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> StepCall[Result]: ...

    def llm(self, name: str, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> StepCall[Any]:
        """A step that asks a model. The tokens that its answer's `usage` names are counted, once."""
        return StepCall(StepRunner(self._durable, name, PLAIN, "llm", self._count_tokens), work, args, kwargs)

    async def gather(self, *branches: Awaitable[Any], return_exceptions: bool = False) -> list[Any]:
        """Several branches at a time, each with steps of its own: `await ctx.gather(ctx.step("a", f), ctx.step("b", g))`."""
        return await flow.gather(self._durable, branches, return_exceptions)

    async def sleep(self, seconds: float | timedelta) -> None:
        """Waits without a worker: the job is called again when the time has come, and goes on from here."""
        await flow.sleep(self._durable, seconds)

    async def sleep_until(self, moment: datetime) -> None:
        await flow.sleep_until(self._durable, moment)

    @overload
    async def call(self, agent: Callee[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result: ...

    @overload
    async def call(self, agent: str | Submission, /, *args: Any, **kwargs: Any) -> Any: ...

    async def call(self, agent: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A child job, and its result: `await ctx.call(review, text)` or `await ctx.call("review", text=text)`. It is submitted
        once; this job waits without a worker. For options: `ctx.call(review.options(queue="slow"), text)`, or a Submission;
        with `cancel_with_parent=True` among them it ends when this job fails or is cancelled."""
        return await flow.call(self._durable, flow.child_of(agent, args, kwargs))

    async def approval(
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
        name: str = "approval",
    ) -> Approval:
        """Asks people, and waits without a worker: `await ctx.approval("Deploy 1.4.0", details={"image": image})`.

        `approvers` are users by name, and groups as "group:NAME"; left out, the user of the job's session is asked, or whoever
        may approve in the tenant. A denial fails the job, or with on_denial="raise" raises ApprovalDenied here. When nobody
        decides within `ttl`, `on_expiry` says what follows; "default" goes on with `default` as the details. `editable` lets
        approvers change the details: True, a list of keys, or a JSON Schema. Not inside ctx.gather: the job waits as a whole."""
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
        )
        return await ask(self._durable, gate, name)

    def now(self) -> datetime:
        """The time, the same in every run of this job."""
        return flow.now(self._durable)

    def random(self) -> float:
        """A number from 0 to 1, the same in every run of this job."""
        return flow.random_number(self._durable)

    def uuid(self) -> UUID:
        """An id that nobody can guess, the same in every run of this job."""
        return flow.random_uuid(self._durable)

    @property
    def memory(self) -> Memory:
        """Facts, a summary and working data, as they were at this point when the job is resumed."""
        return self._durable.journal.memory

    # -- telling ---------------------------------------------------------------------------------

    @property
    def log(self) -> RunLog:
        """A structured logger that knows the job. Its lines are stored with the run."""
        return RunLog(self.job_id, self.run_id, self.agent, self.lent.reporter if self.lent else None)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """How far the job is, for people who watch."""
        if self.lent is not None:
            self.lent.reporter.tell(self.job_id, self.run_id, "progress", {"done": done, "total": total, "text": text})

    def artifact(self, content: bytes | str | Path, name: str | None = None) -> Path:
        """Keeps a file with the run: bytes under a name, or a copy of a file. Doing so again replaces it."""
        if self.lent is None:
            raise InvalidInput("There is no folder for artifacts here.", field="artifact")
        folder = self.lent.files / "runs" / self.job_id / self.run_id / "artifacts"
        path = keep_artifact(folder, content, name)
        with _adding:
            self.details = {**(self.details or {})}
            self.details["artifacts"] = sorted({*self.details.get("artifacts", ()), str(path)})
        return path

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


def _step_options(retry: RetryPolicy = NO_RETRY, timeout: float | None = None, **unknown: Any) -> StepOptions:
    if unknown:
        raise InvalidInput(f"ctx.step takes retry and timeout; {', '.join(unknown)} belong to the work itself.", field="step")
    return StepOptions(retry, timeout)
