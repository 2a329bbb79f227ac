"""`ctx.tool(...)`: a call with side effects, recorded before it is made and after.

pending ──▶ running ──▶ completed
               ├──────▶ failed       it raised, and took no effect: repeated by retry=, or by the job's retry
               └──────▶ (uncertain)  the worker died or stopped in it, or it raised what leaves the effect in doubt

An uncertain call stays pending or running in the record. `verify` says what happened; without it `on_uncertain` decides:
rerun, fail or ask. Before any repetition, also of a call that failed, `verify` is asked. Every repetition has the same id.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NoReturn

import structlog

from cortex_plane.approvals.model import Gate
from cortex_plane.durable.approvals import Runner, ask_as, check_awaited_inside
from cortex_plane.durable.calls import (
    HOW_TO_GO_ON,
    PLAIN_TOOL,
    Applied,
    ToolOptions,
    called,
    decode_result,
    encode_result,
    input_digest,
    noted_failure,
    pause_before_retry,
    waited,
    within,
)
from cortex_plane.durable.checkpoint import Recorder
from cortex_plane.durable.journal import INLINE_BYTES, name_of, scope_of
from cortex_plane.durable.schema import Entry, ToolState
from cortex_plane.durable.scopes import StepScope, checked_step_name, is_beyond, sibling_branches
from cortex_plane.durable.steps import stay_in_budget
from cortex_plane.durable.values import WrongType, return_type
from cortex_plane.errors import CodeChanged, InvalidInput, StepFailed, ToolUncertain
from cortex_plane.json import loads
from cortex_plane.metrics.service import count
from cortex_plane.worker.failures import FINAL, described

log = structlog.get_logger()

IN_DOUBT = (TimeoutError, ConnectionError)
"""The request may have arrived although no response did. StepTimedOut is a TimeoutError."""


@dataclass(slots=True)
class Invocation:
    """One tool call in this run: its scope, its record, and its function."""

    scope: StepScope
    key: str
    tool: ToolState
    work: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    started_at: int
    after: int
    begun: bool
    """It was called before, by this run or an earlier one."""
    asked: int = 0
    """How often approvers have decided that the call is repeated."""
    doubt: str | None = None
    """The exception that left the outcome unknown; None: its worker died or stopped."""
    settled: bool = False
    """An operator has settled the call with a result that does not fit: only an operator can settle it again."""

    @property
    def in_doubt(self) -> bool:
        return self.begun and self.tool.status in ("pending", "running")

    def entry(self) -> Entry:
        entry: Entry = {"kind": "tool", "invocation": self.tool.invocation_id, "input": self.tool.input_hash[:16]}
        if self.asked:
            entry["asked"] = self.asked
        if self.doubt is not None:
            entry["doubt"] = self.doubt
        if self.settled:
            entry["settled"] = True
        return entry


@dataclass(slots=True)
class ToolRunner(Runner):
    recorder: Recorder
    name: str
    options: ToolOptions = PLAIN_TOOL

    def __post_init__(self) -> None:
        checked_step_name(self.name)

    @property
    def method(self) -> str:
        return "tool"

    @property
    def changes_something(self) -> bool:
        if self.options.side_effect is not None:
            return self.options.side_effect
        named = self.recorder.config.side_effect_tools
        return named is None or self.name in named

    async def run(self, work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        recorder = self.recorder
        recorder.check()
        recorder.journal.tools_asked += 1
        scope = recorder.scopes.here()
        key, digest = scope.key(self.name), input_digest(args, kwargs)
        entry = recorder.journal.take(key)
        tool = self._recorded(key, entry, digest)
        if tool is None:
            await self._check_new(scope, key, digest)
        elif entry is not None and entry.get("error") is not None:
            recorder.journal.answered_for(key)
            raise self._recorded_failure(key, tool, entry)
        elif tool.status == "completed":
            recorder.journal.answered_for(key)
            stored = recorder.journal.read(entry["blob"]) if entry and entry.get("blob") else loads(tool.result or "null")
            if not (entry and entry.get("settled")):
                return decode_result(recorder, self.name, stored, work)
            try:
                return return_type(work).decode(stored, f'the result of step "{self.name}"')
            except WrongType as error:
                tool.status, tool.result = "running", None
                recorder.journal.tools[tool.invocation_id] = tool  # Also if it was sealed as completed.
                entry["doubt"] = f"it was settled, and the result that was given does not fit: {error}"[:DOUBT_LIMIT]
        call = Invocation(
            scope,
            key,
            tool or ToolState(self.name, recorder.invocation_id(key), digest),
            work,
            args,
            kwargs,
            started_at=recorder.now(),
            after=recorder.journal.step_index,
            begun=tool is not None or await self._may_repeat(),
            asked=(entry or {}).get("asked") or 0,
            doubt=(entry or {}).get("doubt"),
            settled=bool((entry or {}).get("settled")) and tool is not None and tool.status == "running",
        )
        if call.settled:
            recorder.journal.put(key, call.entry())
        return await self._attempts(call)

    # -- answering -------------------------------------------------------------------------------

    def _recorded(self, key: str, entry: Entry | None, digest: str) -> ToolState | None:
        recorder = self.recorder
        if entry is None:  # Its failure may have been forgotten because the step around it is tried again.
            tool = recorder.journal.tools.get(recorder.invocation_id(key))
        else:
            tool = recorder.journal.tools.get(entry.get("invocation", ""))
            if entry["kind"] != "tool" or tool is None:
                recorder.stop(
                    CodeChanged(
                        self.name, f'"{self.name}" is recorded as a {entry["kind"]}, and the code asks for a tool. {HOW_TO_GO_ON}'
                    )
                )
        if tool is not None and tool.input_hash != digest:
            recorder.stop(
                CodeChanged(
                    self.name,
                    f'Tool "{self.name}" was called with another input than the code gives it now '
                    f"(invocation {tool.invocation_id}); it is not called again. {HOW_TO_GO_ON}",
                )
            )
        return tool

    def _recorded_failure(self, key: str, tool: ToolState, entry: Entry) -> Exception:
        if entry["error"].get("type") == ToolUncertain.__name__:
            return ToolUncertain(self.name, tool.invocation_id, entry.get("doubt"))
        return StepFailed(self.name, entry["error"], key)

    async def _may_repeat(self) -> bool:
        """A call that is not recorded: by a job that failed, and that this one runs again from the beginning, for example."""
        return self.options.verify is not None and self.changes_something and await self.recorder.repeats()

    async def _check_new(self, scope: StepScope, key: str, digest: str) -> None:
        """Checks a new call while recorded calls have not been requested: it is probably the same call, renamed or moved
        into a step, a gather or another branch."""
        if not self.changes_something or not self.recorder.journal.unasked:
            return
        for other in self._expected(key):
            if is_beyond(other, scope.path):
                self._refuse(scope, key, other)
        if any(_is_same_call(scope, key, digest, other, entry) for other, entry in self._expected(key).items()):
            await asyncio.sleep(0)  # Yield to the other branches: one of them may be about to request its recorded call.
            for other, entry in self._expected(key).items():
                if _is_same_call(scope, key, digest, other, entry) and self._is_passed(scope, other):
                    self._refuse(scope, key, other)

    def _expected(self, key: str) -> dict[str, Entry]:
        """Tool calls, and steps with tool calls inside, that are recorded and that this run has still to ask for."""
        journal = self.recorder.journal
        expected = journal.expected(aside=journal.is_aside(key))
        return {other: entry for other, entry in expected.items() if entry["kind"] == "tool" or entry.get("tools")}

    def _is_passed(self, scope: StepScope, other: str) -> bool:
        """Whether the branch of a recorded call has ended or made another call without requesting it."""
        branches = sibling_branches(scope.path, other)
        passed = self.recorder.journal.new_in
        return branches is not None and any(one.startswith(branches[1]) and other.startswith(one) for one in passed)

    def _refuse(self, scope: StepScope, key: str, other: str) -> NoReturn:
        """`other` is the identity of the recorded call."""
        recorded = name_of(other)
        if scope_of(other) == scope.path and recorded != self.name:
            renamed = f'renamed_steps={{"{recorded}": "{self.name}"}}'
            what = f'tool "{recorded}", which is. If it was renamed, give the agent {renamed};'
        else:
            what = f'"{recorded}" ({other}), which is. If it was moved to {key}, put it back;'
        self.recorder.stop(
            CodeChanged(
                self.name,
                f'The code calls tool "{self.name}", which is not recorded, before {what} if it is new, put it '
                f'under ctx.patched(...), or call it after "{recorded}". Otherwise it might take effect twice.',
            )
        )

    # -- calling ---------------------------------------------------------------------------------

    async def _attempts(self, call: Invocation) -> Any:
        policy, tried = self.options.retry, 0
        while True:
            try:
                value = await self._attempt(call)
                break
            except FINAL:
                raise
            except Exception as error:
                if await waited(self.recorder, call.key, policy, error):
                    continue
                if tried >= policy.max_retries:
                    raise noted_failure(self.recorder, self.name, call.key, call.entry(), error, call.started_at) from error
                await pause_before_retry(self.recorder, call.key, policy, tried, error)
            tried += 1
        check_awaited_inside(self.recorder, call.key)
        # A result that cannot be kept leaves the call uncertain: it took effect, and must not count as failed.
        result = await encode_result(self.recorder, self.name, value, call.work)
        await self._keep(call, result.text)
        return result.value

    async def _attempt(self, call: Invocation) -> Any:
        """Settles an uncertain call before it is repeated, and again if the repetition leaves the outcome unknown."""
        if call.begun and (happened := await self._settled(call)) is not None:
            return happened.result
        await stay_in_budget(self.recorder)
        try:
            return await self._make(call)
        except FINAL:
            raise
        except Exception:
            if not call.in_doubt or (happened := await self._settled(call)) is None:
                raise
            return happened.result

    async def _make(self, call: Invocation) -> Any:
        recorder, tool, kwargs = self.recorder, call.tool, call.kwargs
        call.begun, call.doubt, tool.status = True, None, "pending"
        recorder.journal.tools[tool.invocation_id] = tool
        recorder.journal.put(call.key, call.entry())
        if _takes_invocation_id(call.work):
            kwargs = {"invocation_id": tool.invocation_id, **kwargs}
        try:
            value = await self._called_under_lease(call, kwargs)
        except asyncio.CancelledError:
            if tool.status == "pending":  # It was about to begin.
                tool.status = "failed"
            call.doubt = "it was interrupted"
            recorder.journal.put(call.key, call.entry())
            raise
        except Exception as error:
            await self._raised(call, error)
            raise
        recorder.reach("after_tool", self.name)
        return value

    async def _called_under_lease(self, call: Invocation, kwargs: Mapping[str, Any]) -> Any:
        """Checks the lease right before the call. The worker may have been frozen after the acknowledgement, and another
        worker may be making the call. After a pause the beginning is acknowledged again."""
        recorder = self.recorder
        while True:
            if self.changes_something:
                await recorder.save(self.name)
            recorder.reach("before_tool", self.name)
            call.tool.status = "running"
            try:
                with recorder.scopes.entered(call.scope.inside(call.key)):
                    doing = within(self.options.timeout, self.name, called(call.work, call.args, kwargs, self._check_lease))
                    if recorder.services.telemetry is not None:
                        doing = recorder.services.telemetry.working("tool", self.name, doing)
                    return await doing
            except _LeaseInDoubt:
                call.tool.status = "pending"
                log.warning("tool_not_called", tool=self.name, job_id=recorder.claimed.job_id, why="the lease was not renewed")
            while not recorder.services.lease_holds():  # The heartbeat renews it, or ends this run.
                await recorder.services.clock.sleep(LOOK_AT_LEASE_SECONDS)

    def _check_lease(self) -> None:
        if self.changes_something and not self.recorder.services.lease_holds():
            raise _LeaseInDoubt

    async def _raised(self, call: Invocation, error: Exception) -> None:
        """Records at once whether the call took no effect or its outcome is unknown. The exception is recorded with the next
        write only: if the handler gives up, its retry repeats the call."""
        if not self.changes_something or not self._leaves_in_doubt(error):
            call.tool.status = "failed"
        else:
            raised = described(error)
            call.doubt = f"{raised['type']}: {raised['message']}"[:DOUBT_LIMIT]
            self.recorder.journal.put(call.key, call.entry())
        if self.changes_something:
            await self.recorder.save(self.name)

    def _leaves_in_doubt(self, error: Exception) -> bool:
        kinds: tuple[type[Exception], ...] = (*IN_DOUBT, *self.options.uncertain_on)
        return isinstance(error, kinds) or (isinstance(error, ExceptionGroup) and error.subgroup(kinds) is not None)

    async def _keep(self, call: Invocation, text: str) -> None:
        recorder, journal, tool = self.recorder, self.recorder.journal, call.tool
        tool.status, call.doubt = "completed", None
        entry = call.entry()
        if len(text) <= INLINE_BYTES:
            tool.result = text
        else:
            entry["blob"] = journal.keep_apart(call.key, text)
        journal.put(call.key, entry, after=call.after)
        journal.log_step(self.name, call.started_at, recorder.now(), text, 1)
        if self.changes_something or not call.scope.in_step or recorder.config.checkpoint_granularity == "per_tool_call":
            await recorder.save(self.name)
            recorder.reach("after_step", self.name)

    # -- settling --------------------------------------------------------------------------------

    async def _settled(self, call: Invocation) -> Applied | None:
        """The outcome of a call that was started; None if it must be repeated."""
        if not self.changes_something:
            return None
        self.recorder.reach("before_settle", self.name)
        self.recorder.journal.tools.setdefault(call.tool.invocation_id, call.tool)
        if call.settled:
            raise self._uncertain(call)
        if self.options.verify is not None:
            return await self._verified(call)
        return await self._decided(call) if call.in_doubt else None

    async def _verified(self, call: Invocation) -> Applied | None:
        assert self.options.verify is not None
        happened = await called(self.options.verify, (call.tool.invocation_id,), {})
        if happened is not None and not isinstance(happened, Applied):
            raise InvalidInput(
                f'verify of tool "{self.name}" must return Applied(result), or None when the call took no effect.',
                field="verify",
            )
        if happened is None:
            call.tool.status = "failed"
        return happened

    async def _decided(self, call: Invocation) -> Applied | None:
        if self.options.on_uncertain == "rerun":
            return None
        if self.options.on_uncertain == "ask" and not call.scope.in_gather:
            return await self._ask_people(call)
        raise self._uncertain(call)

    def _uncertain(self, call: Invocation) -> ToolUncertain:
        count("uncertain_calls", agent=self.recorder.claimed.job_type)
        error = ToolUncertain(self.name, call.tool.invocation_id, call.doubt)
        noted_failure(self.recorder, self.name, call.key, call.entry(), error, call.started_at)
        return error

    async def _ask_people(self, call: Invocation) -> Applied | None:
        """Asks approvers. Approved, the call is repeated, or it counts as made, with the result that the approver supplied."""
        tool, number = call.tool, call.asked + 1
        gate = Gate(
            f'Call tool "{self.name}" again? It was called, and its outcome is unknown: '
            f"{call.doubt or 'its worker died or stopped'}. If it did, approve with happened set to true.",
            {"tool": self.name, "invocation_id": tool.invocation_id, "happened": False, "result": None},
            editable=["happened", "result"],
        )
        key = f"$uncertain {tool.invocation_id}#{number}"
        if key not in self.recorder.journal.entries:
            count("uncertain_calls", agent=self.recorder.claimed.job_type)
        decision = await ask_as(self.recorder, key, gate, self.name)
        call.asked = number
        return Applied(decision.details["result"]) if decision.details["happened"] is True else None


def _is_same_call(scope: StepScope, key: str, digest: str, other: str, entry: Entry) -> bool:
    """Whether another branch has recorded what may be this call at the same place in that branch."""
    branches = sibling_branches(scope.path, other)
    if branches is None:
        return False
    here, there = key.removeprefix(branches[0]), other.removeprefix(branches[1])
    return here.startswith(f"{there}/") if entry["kind"] != "tool" else here == there and entry.get("input") == digest[:16]


DOUBT_LIMIT = 500
LOOK_AT_LEASE_SECONDS = 0.05


class _LeaseInDoubt(Exception):
    """The lease was not renewed in time: another worker may have taken over."""


def _takes_invocation_id(work: Callable[..., Any]) -> bool:
    """Not cached: a cache would keep the closure of `work` alive."""
    function = work.__func__ if isinstance(work, MethodType) else work
    if type(function) is FunctionType and not function.__dict__:  # An unwrapped function: its code object is enough.
        code = function.__code__
        return "invocation_id" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if isinstance(function, BuiltinFunctionType):  # To read its signature leaves garbage for the collector, each time.
        return False
    try:
        return "invocation_id" in inspect.signature(work).parameters
    except (TypeError, ValueError):
        return False
