"""`ctx.approval`, and durable calls that a handler creates but does not await.

The gate: a handler asks, leaves its worker, and is called again when somebody has decided.

asked ──▶ durable in the journal ──▶ WAITING_FOR_APPROVAL, with the request, in one transaction
decided ──▶ called again ──▶ what was shown is what is asked for now ──▶ the decision is in the journal
                              it is worded otherwise now ──▶ as `on_change` says: asked again, kept, or the job fails
"""

from __future__ import annotations

import inspect
import secrets
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Protocol, TypeVar, overload

from cortex_plane.approvals.decisions import TOKEN_BYTES, mint
from cortex_plane.approvals.model import Approval, ApprovalId, ApprovalRequest, Gate, NewApproval, digest_of
from cortex_plane.approvals.rules import checked_on_change, new_approval
from cortex_plane.durable.calls import HOW_TO_GO_ON, OPTION_NAMES, input_digest
from cortex_plane.durable.scopes import checked_step_name
from cortex_plane.durable.suspension import AwaitApproval
from cortex_plane.durable.waits import outside_gather
from cortex_plane.errors import ApprovalAltered, ApprovalChanged, CodeChanged, InvalidInput, NeverAwaited
from cortex_plane.json import encode, normal
from cortex_plane.json_schema import check_schema
from cortex_plane.worker.failures import ApprovalDenied, mark_step

if TYPE_CHECKING:
    from cortex_plane.durable.checkpoint import Recorder
    from cortex_plane.durable.schema import Entry

MOST_WORDINGS = 5
"""The limit for one approval. A handler that changes the wording on every call would otherwise ask forever."""


async def ask(recorder: Recorder, gate: Gate, name: str = "approval") -> Approval:
    recorder.check()
    key = outside_gather(recorder, "ctx.approval").key(checked_step_name(name))
    try:
        return await ask_as(recorder, key, gate, name)
    except Exception as error:
        mark_step(error, key)
        raise


async def ask_as(recorder: Recorder, key: str, gate: Gate, name: str) -> Approval:
    """Under an identity that the caller has computed for this request."""
    on_change, services, entry = checked_on_change(gate.on_change), recorder.services, recorder.journal.take(key)
    asked = {"kind": "approval", "input": input_digest((gate.summary, gate.details), {})[:16]}
    if entry is None or not _is_heard(entry):
        recorder.cleaning.before_new_work()
    if entry is None:
        await _leave(recorder, key, gate, name, asked | {"request": services.new_id()}, is_new=True)
    _check_kind(recorder, name, entry)
    is_same = entry["input"] == asked["input"]
    holds = is_same or on_change == "keep"
    if not holds and services.reworded is not None:
        _check_may_ask_again(recorder, gate, name, entry, asked, len(entry.get("supersedes", ())) + 1)
        services.reworded(name)
        holds = True
    if holds and _is_heard(entry):
        return _heard(Approval.from_json(recorder.journal.result_of(entry)))
    started_at, found = recorder.now(), await services.approval(ApprovalId(entry["request"]))
    # The worker died after it recorded the request's id and before the request was created.
    if found is None and not _is_heard(entry):
        await _leave(recorder, key, gate, name, entry | asked, is_new=not is_same)
    if not holds or found is None or _is_refused_elsewhere(recorder, found):
        await _ask_again(recorder, key, gate, name, entry, asked, found)
    if found.is_open:
        await _leave(recorder, key, gate, name, entry, is_new=False)
    _check_stored(recorder, name, key, found, gate if is_same else None)
    decision = Approval.of(found)
    text = _logged(recorder, name, decision, started_at)
    recorder.journal.put(key, dict(entry), text, is_denial=decision.outcome == "denied")
    return _heard(decision)


async def _leave(recorder: Recorder, key: str, gate: Gate, name: str, entry: Entry, *, is_new: bool) -> NoReturn:
    """The id of the request is saved before the request is created, so that it is created once."""
    recorder.reach("before_approval", name)
    request = await _request(recorder, ApprovalId(entry["request"]), key, gate, entry.get("supersedes", ()))
    if is_new:
        recorder.journal.put(key, entry)
        await recorder.save(name, "awaiting_approval")
    recorder.reach("asking", name)
    recorder.suspend(AwaitApproval(request))


async def _ask_again(
    recorder: Recorder, key: str, gate: Gate, name: str, entry: Entry, asked: Entry, found: ApprovalRequest | None
) -> NoReturn:
    """A decision is valid for what was shown, in the job that asked. The old request stays recorded; the new one names it."""
    is_ours = found is None or found.job_id == recorder.claimed.job_id
    earlier = [*(entry.get("supersedes", ()) if is_ours else ()), entry["request"]]
    _check_may_ask_again(recorder, gate, name, entry, asked, len(earlier))
    if found is not None:
        _check_stored(recorder, name, key, found, None)
        if not found.is_open and not _is_heard(entry):
            _logged(recorder, name, Approval.of(found), recorder.now())
    await _leave(recorder, key, gate, name, asked | {"request": recorder.services.new_id(), "supersedes": earlier}, is_new=True)


def _check_may_ask_again(recorder: Recorder, gate: Gate, name: str, entry: Entry, asked: Entry, wordings: int) -> None:
    if gate.on_change == "fail" and entry["input"] != asked["input"]:
        recorder.stop(ApprovalChanged(name, 'its on_change is "fail"'))
    if wordings >= MOST_WORDINGS:
        recorder.stop(ApprovalChanged(name, f"it was worded in {wordings} ways already"))


async def _request(
    recorder: Recorder, request_id: ApprovalId, key: str, gate: Gate, earlier: Sequence[ApprovalId]
) -> NewApproval:
    claimed, find = recorder.claimed, recorder.services.approvers
    escalate = gate.escalate
    return new_approval(
        request_id=request_id,
        job_id=claimed.job_id,
        run_id=claimed.run_id,
        agent_id=recorder.agent_id,
        tenant_id=claimed.tenant_id,
        gate_key=key,
        token_hash=mint(secrets.token_bytes(TOKEN_BYTES)).hash,
        summary=gate.summary,
        details=gate.details,
        config=recorder.config.approval,
        approvers=await find(claimed.tenant_id, gate.approvers, "approvers"),
        quorum=gate.quorum,
        no_self_approval=gate.no_self_approval,
        editable=gate.editable,
        ttl_seconds=_seconds(gate.ttl),
        remind_after_seconds=_seconds(gate.remind),
        escalate_after_seconds=None if escalate is None else _seconds(escalate.after),
        escalate_to=await find(claimed.tenant_id, None if escalate is None else escalate.to, "escalate"),
        on_expiry=gate.on_expiry,
        default=gate.default,
        on_denial=gate.on_denial,
        supersedes=earlier[-1] if earlier else None,
        check_schema=check_schema,
    )


def _is_heard(entry: Entry) -> bool:
    """An earlier run has already delivered the decision to the handler."""
    return "result" in entry or bool(entry.get("blob"))


def _logged(recorder: Recorder, name: str, decision: Approval, started_at: int) -> str:
    text = encode(decision.to_json(), "approval")
    recorder.journal.log_step(name, started_at, recorder.now(), text, 0)
    return text


def _check_kind(recorder: Recorder, name: str, entry: Entry) -> None:
    if entry["kind"] != "approval":
        recorder.stop(
            CodeChanged(name, f'"{name}" is recorded as a {entry["kind"]}, and the code asks for an approval. {HOW_TO_GO_ON}')
        )


def _is_refused_elsewhere(recorder: Recorder, found: ApprovalRequest) -> bool:
    """A request of the predecessor job is valid if it was approved; otherwise a new request is created."""
    return found.job_id != recorder.claimed.job_id and found.outcome not in ("approved", "defaulted")


def _check_stored(recorder: Recorder, name: str, key: str, found: ApprovalRequest, gate: Gate | None) -> None:
    """Checks that the stored request still has the digest that was shown and, with `gate`, that the gate asks for exactly
    this."""
    altered = not found.is_as_shown
    if gate is not None:
        asked = digest_of(recorder.claimed.tenant_id, found.job_id, key, gate.summary, normal(gate.details, "details"))
        altered = altered or found.digest != asked
    if altered:
        recorder.stop(ApprovalAltered(name, found.id))


def _heard(decision: Approval) -> Approval:
    if decision.outcome == "denied":
        raise ApprovalDenied(decision.decided_by, decision.reason)
    return decision


def _seconds(length: float | timedelta | None) -> Any:
    return length.total_seconds() if isinstance(length, timedelta) else length


# -- asking ------------------------------------------------------------------------------------
# What the methods of a context return: a durable call that starts when it is awaited.
#
# ctx.step("build", build, version)               a call with its work
# ctx.step("build", timeout=60)                   a runner with options: call it with the work
# ctx.step("build", timeout=60)(build, version)   the same call, with options


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Answer_co = TypeVar("Answer_co", covariant=True)
Async = Callable[Arguments, Coroutine[Any, Any, Result]]
Plain = Callable[Arguments, Result]


class Call(Awaitable[Result]):
    """An awaitable durable call. If the handler never awaits it, the job fails with an error that names the call."""

    __slots__ = ("_begin", "_recorder", "shown")

    def __init__(self, recorder: Recorder, shown: str, begin: Callable[[], Coroutine[Any, Any, Result]]) -> None:
        self._recorder, self.shown, self._begin = recorder, shown, begin
        recorder.unawaited[self] = recorder.scopes.path

    def __await__(self) -> Generator[Any, None, Result]:
        self.taken()
        return self._recorder.guarded(self._begin()).__await__()

    def __repr__(self) -> str:
        return f"<{self.shown}, to be awaited>"

    def taken(self) -> None:
        """Marks the call as awaited, by this task or by the object that now owns it."""
        self._recorder.unawaited.pop(self, None)

    def abandon(self) -> None:
        """It will never be awaited."""


class Gathering(Call[list[Any]]):
    """Several branches. The gather awaits every call that is passed to it."""

    __slots__ = ("_branches",)

    def __init__(
        self, recorder: Recorder, branches: tuple[Awaitable[Any], ...], begin: Callable[[], Coroutine[Any, Any, list[Any]]]
    ) -> None:
        super().__init__(recorder, "ctx.gather(…)", begin)
        self._branches = branches
        self._check(branches)
        for branch in branches:
            if isinstance(branch, Call):
                branch.taken()

    def _check(self, branches: tuple[Any, ...]) -> None:
        for branch in branches:
            if not inspect.isawaitable(branch):
                self.taken()
                self.abandon()
                instead = "ctx.gather(*branches)" if isinstance(branch, list | tuple) else 'ctx.gather(ctx.step("a", f), …)'
                raise InvalidInput(
                    f"ctx.gather takes branches that can be awaited, each by itself, not {branch!r:.80} "
                    f"({type(branch).__name__}). Write {instead}.",
                    field="gather",
                )

    def abandon(self) -> None:
        for branch in self._branches:
            if inspect.iscoroutine(branch):
                branch.close()


class WorkCall(Call[Result]):
    """A step, tool or model call with its work: await it, or call it with (other) arguments and await that."""

    __slots__ = ("_args", "_kwargs", "_runner", "_work")

    def __init__(
        self,
        runner: Runner,
        work: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        is_decorated: bool = False,
    ) -> None:
        self._recorder, self.shown = runner.recorder, runner.shown
        self._runner, self._work, self._args, self._kwargs = runner, _checked_work(runner, work), args, kwargs
        if not kwargs.keys().isdisjoint(OPTION_NAMES):
            _check_options_apart(runner, work, kwargs)
        if not is_decorated:
            runner.recorder.unawaited[self] = runner.recorder.scopes.path

    def __await__(self) -> Generator[Any, None, Result]:
        self.taken()
        return self._recorder.guarded(self._runner.run(self._work, self._args, self._kwargs)).__await__()

    def __call__(self, *args: Any, **kwargs: Any) -> WorkCall[Result]:
        self.taken()
        return WorkCall(self._runner, self._work, args, kwargs)


class Decorated(Protocol[Arguments, Answer_co]):
    """A function that is a step, tool or model call each time it is called."""

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Awaitable[Answer_co]: ...


class Runner:
    """Runs work under one name and with given options."""

    __slots__ = ()
    recorder: Recorder
    name: str

    @property
    def shown(self) -> str:
        return f'ctx.{self.method}("{self.name}")'

    @property
    def method(self) -> str:
        raise NotImplementedError

    async def run(self, work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    @overload
    def __call__(
        self, work: Async[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> WorkCall[Result]: ...

    @overload
    def __call__(
        self, work: Plain[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> WorkCall[Result]: ...

    @overload
    def __call__(self, work: Async[Arguments, Result], /) -> Decorated[Arguments, Result]: ...

    @overload
    def __call__(self, work: Plain[Arguments, Result], /) -> Decorated[Arguments, Result]: ...

    def __call__(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Runs the work: `await ctx.step("fetch", timeout=10)(fetch, url)`; or makes a function a step: `@ctx.step("fetch")`."""
        is_decorated = not args and not kwargs and _is_decorating(work, sys._getframe(1))
        return WorkCall(self, work, args, kwargs, is_decorated=is_decorated)

    if not TYPE_CHECKING:  # Type checkers find this mistake by themselves.

        def __await__(self):
            raise InvalidInput(
                f"{self.shown} was awaited without a function. Write await {self.shown[:-1]}, f, …), or with options "
                f"await {self.shown[:-1]}, timeout=60)(f, …).",
                field=self.method,
            )


def _is_decorating(work: Callable[..., Any], caller: FrameType) -> bool:
    """Whether the caller is just defining this function: `@ctx.step("fetch")` above it. It may be called later, or never.
    A function that is there already, `ctx.step("fetch", timeout=5)(fetch)`, is to be run."""
    code = getattr(work, "__code__", None)
    if "<locals>" not in getattr(work, "__qualname__", "") or getattr(work, "__name__", "") == "<lambda>":
        return False
    if code is None or code.co_filename != caller.f_code.co_filename:  # Another decorator is between them.
        return True
    last = max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    return bool(code.co_firstlineno <= caller.f_lineno <= last)


def _checked_work(runner: Runner, work: Any) -> Callable[..., Any]:
    """A value that is not a function usually comes from calling the function instead of passing it."""
    if callable(work):
        return work  # type: ignore[no-any-return]
    if inspect.iscoroutine(work):
        work.close()  # Close the coroutine; otherwise Python warns that it was never awaited.
        function = work.__qualname__.rpartition(".")[2]
        raise InvalidInput(
            f"{runner.shown} was given {function}(…), a call that is already under way, and not the function. "
            f'Write ctx.{runner.method}("{runner.name}", {function}, …), with its arguments after it.',
            field=runner.method,
        )
    raise InvalidInput(
        f"{runner.shown} takes a function and its arguments, not {work!r:.80} ({type(work).__name__}). "
        f'Write ctx.{runner.method}("{runner.name}", f, 1) instead of ctx.{runner.method}("{runner.name}", f(1)).',
        field=runner.method,
    )


def _check_options_apart(runner: Runner, work: Callable[..., Any], kwargs: Mapping[str, Any]) -> None:
    """Refuses options passed as arguments to a function that has no such parameters; the function's own error would mislead."""
    try:
        parameters = inspect.signature(work).parameters.values()
    except (TypeError, ValueError):
        return
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return
    for name in OPTION_NAMES.intersection(kwargs) - {parameter.name for parameter in parameters}:
        raise InvalidInput(
            f"The function of {runner.shown} takes no argument {name!r}. Options are given apart from arguments: "
            f'ctx.{runner.method}("{runner.name}", {name}=…)(function, …).',
            field=name,
        )


def check_awaited_inside(recorder: Recorder, key: str) -> None:
    """Checks a step or tool that has ended for calls never awaited: on replay its recorded result would hide them."""
    if recorder.unawaited and (message := never_awaited(recorder, f"{key}/")) is not None:
        raise NeverAwaited(message)


def never_awaited(recorder: Recorder, path: str = "") -> str | None:
    """Describes the calls that the handler did not await, for the error message."""
    calls: Iterable[Call[Any]] = [call for call, place in recorder.unawaited.items() if place.startswith(path)]
    for call in calls:
        del recorder.unawaited[call]
        call.abandon()
    shown = list(dict.fromkeys(call.shown for call in calls))
    if not shown:
        return None
    verb, write = ("entered", "async with") if shown[0].startswith("ctx.cleanup") else ("awaited", "await")
    return f"{', '.join(shown)} was called and never {verb}, so it did not happen. Write: {write} {shown[0]}"
