"""`ctx.tool(...)`: a call that changes something outside. What it is about to do is durable before it is done.

pending ──▶ running ──▶ completed          found pending or running by a later run: uncertain
               └──────▶ failed             verify says what happened; else on_uncertain: rerun, fail or ask
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Literal, TypeVar, overload

from cortex_plane.core.errors import CodeChanged, InvalidInput, StepFailed, ToolUncertain
from cortex_plane.core.gates import Gate
from cortex_plane.ports.json_text import loads
from cortex_plane.runtime.durable.approving import ask_as
from cortex_plane.runtime.durable.calls import HOW_TO_GO_ON, called, encode_result, input_digest, noted_failure, within
from cortex_plane.runtime.durable.entries import Entry, ToolState
from cortex_plane.runtime.durable.journal import INLINE_BYTES
from cortex_plane.runtime.durable.recorder import Recorder
from cortex_plane.runtime.durable.scopes import Scope, checked_step_name
from cortex_plane.runtime.durable.spending import stay_in_budget
from cortex_plane.runtime.failures import PermanentFailure

Result = TypeVar("Result")
OnUncertain = Literal["fail", "rerun", "ask"]


@dataclass(frozen=True, slots=True)
class Happened:
    """What `verify` returns when the call took effect: the result that it would have returned."""

    result: Any = None


Verify = Callable[[str], Awaitable[Happened | None] | Happened | None]
"""Asked with the invocation id whether a call took effect; None when it did not."""


@dataclass(frozen=True, slots=True)
class ToolOptions:
    verify: Verify | None = None
    on_uncertain: OnUncertain = "fail"
    side_effect: bool | None = None
    """None: as the agent's `side_effect_tools` say; a tool has side effects if they say nothing at all."""
    timeout: float | None = None


class ToolCall(Generic[Result]):
    __slots__ = ("_args", "_kwargs", "_runner", "_work")

    def __init__(self, runner: ToolRunner, work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._runner, self._work, self._args, self._kwargs = runner, work, args, kwargs

    def __await__(self) -> Generator[Any, None, Result]:
        return self._runner.run(self._work, self._args, self._kwargs).__await__()

    def __call__(self, *args: Any, **kwargs: Any) -> ToolCall[Result]:
        return ToolCall(self._runner, self._work, args, kwargs)


@dataclass(slots=True)
class ToolRunner:
    recorder: Recorder
    name: str
    options: ToolOptions = ToolOptions()

    def __post_init__(self) -> None:
        checked_step_name(self.name)
        if self.options.on_uncertain not in ("fail", "rerun", "ask"):
            raise InvalidInput('on_uncertain must be "fail", "rerun" or "ask".', field="on_uncertain")

    @overload
    def __call__(self, work: Callable[..., Coroutine[Any, Any, Result]], *args: Any, **kwargs: Any) -> ToolCall[Result]: ...

    @overload
    def __call__(self, work: Callable[..., Result], *args: Any, **kwargs: Any) -> ToolCall[Result]: ...

    def __call__(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> ToolCall[Any]:
        return ToolCall(self, work, args, kwargs)

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
        if entry is not None:
            found, value = await self._recorded(scope, key, entry, digest)
            if found:
                return value
        else:
            self._check_renamed(scope)
        await stay_in_budget(recorder)
        tool = ToolState(self.name, recorder.services.new_id(), digest)
        return await self._call(scope, key, tool, work, args, kwargs)

    # -- answering -------------------------------------------------------------------------------

    async def _recorded(self, scope: Scope, key: str, entry: Entry, digest: str) -> tuple[bool, Any]:
        """Whether the call is settled, and with what. One that is not is made anew."""
        recorder = self.recorder
        tool = recorder.journal.tools.get(entry.get("invocation", ""))
        if entry["kind"] != "tool" or tool is None:
            recorder.stop(
                CodeChanged(
                    self.name, f'"{self.name}" is recorded as a {entry["kind"]}, and the code asks for a tool. {HOW_TO_GO_ON}'
                )
            )
        if tool.input_hash != digest:
            recorder.stop(
                CodeChanged(
                    self.name,
                    f'Tool "{self.name}" was called with another input than the code gives it now '
                    f"(invocation {tool.invocation_id}); it is not called again. {HOW_TO_GO_ON}",
                )
            )
        if entry.get("error") is not None:
            raise StepFailed(self.name, entry["error"])
        if tool.status == "completed":
            return True, recorder.journal.read(entry["blob"]) if entry.get("blob") else loads(tool.result or "null")
        if tool.status in ("pending", "running"):
            happened = await self._settle(tool)
            if happened is not None:
                text, after = encode_result(happened.result, self.name), recorder.journal.step_index
                return True, await self._keep(scope, key, tool, text, recorder.now(), after)
        recorder.journal.forget_tool(tool.invocation_id)
        return False, None

    async def _settle(self, tool: ToolState) -> Happened | None:
        """An uncertain call: what happened, or None when it is to be made again."""
        self.recorder.reach("before_settle", self.name)
        if self.options.verify is not None:
            happened = await called(self.options.verify, (tool.invocation_id,), {})
            if happened is not None and not isinstance(happened, Happened):
                raise InvalidInput(
                    f'verify of tool "{self.name}" must return Happened(result), or None when the call took no effect.',
                    field="verify",
                )
            return happened
        if self.options.on_uncertain == "ask" and not self.recorder.scopes.here().in_gather:
            return await self._ask_people(tool)
        if self.options.on_uncertain != "rerun":
            self.recorder.stop(ToolUncertain(self.name, tool.invocation_id))
        return None

    async def _ask_people(self, tool: ToolState) -> Happened | None:
        """Approved, the call is made again; or it has happened, if the approver says so, with the result that they give."""
        gate = Gate(
            f'Call tool "{self.name}" again? It was called when a worker died, and nobody knows whether it took effect. '
            "If it did, approve with happened set to true.",
            {"tool": self.name, "invocation_id": tool.invocation_id, "happened": False, "result": None},
            editable=["happened", "result"],
        )
        decision = await ask_as(self.recorder, f"$uncertain {tool.invocation_id}#1", gate, self.name)
        return Happened(decision.details["result"]) if decision.details["happened"] is True else None

    def _check_renamed(self, scope: Scope) -> None:
        """A call that is new, while one that is recorded was not asked for: as likely as not it is the same one, renamed."""
        if not self.changes_something:
            return
        for key, entry in self.recorder.journal.unasked.items():
            name = key.removeprefix(scope.path)
            if entry["kind"] == "tool" and key.startswith(scope.path) and name.count("#") == 1:
                recorded = name.rpartition("#")[0]
                self.recorder.stop(
                    CodeChanged(
                        self.name,
                        f'The code calls tool "{self.name}", which is not recorded, before tool "{recorded}", which is. If it '
                        f'was renamed, give the agent renamed_steps={{"{recorded}": "{self.name}"}}; if it is new, call it after '
                        f'"{recorded}". Otherwise it might take effect twice.',
                    )
                )

    # -- calling ---------------------------------------------------------------------------------

    async def _call(
        self, scope: Scope, key: str, tool: ToolState, work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        recorder, journal = self.recorder, self.recorder.journal
        started_at, after = recorder.now(), journal.step_index
        journal.tools[tool.invocation_id] = tool
        journal.put(key, _entry(tool))
        if self.changes_something:
            await recorder.save(self.name)
        recorder.reach("before_tool", self.name)
        tool.status = "running"
        if _takes_invocation_id(work):
            kwargs = {"invocation_id": tool.invocation_id, **kwargs}
        try:
            with recorder.scopes.entered(scope.inside(key)):
                doing = within(self.options.timeout, self.name, called(work, args, kwargs))
                if recorder.services.telemetry is not None:
                    doing = recorder.services.telemetry.working("tool", self.name, doing)
                value = await doing
            text = encode_result(value, self.name)
        except Exception as error:
            failure = await self._failed(key, tool, error, started_at)
            if failure is error:
                raise
            raise failure from error
        recorder.reach("after_tool", self.name)
        return await self._keep(scope, key, tool, text, started_at, after)

    async def _keep(self, scope: Scope, key: str, tool: ToolState, text: str, started_at: int, after: int) -> Any:
        recorder, journal = self.recorder, self.recorder.journal
        tool.status = "completed"
        entry = _entry(tool)
        if len(text) <= INLINE_BYTES:
            tool.result = text
        else:
            entry["blob"] = journal.keep_apart(text)
        journal.put(key, entry, after=after)
        journal.log_step(self.name, started_at, recorder.now(), text, 1)
        if self.changes_something or not scope.in_step or recorder.config.checkpoint_granularity == "per_tool_call":
            await recorder.save(self.name)
            recorder.reach("after_step", self.name)
        return loads(text)

    async def _failed(self, key: str, tool: ToolState, error: Exception, started_at: int) -> Exception:
        """That it failed is durable at once, so that nobody takes it for uncertain. What it raised is durable with the next write
        only: if the handler gives up, its retry calls the tool again."""
        tool.status = "failed"
        if self.changes_something:
            await self.recorder.save(self.name)
        if isinstance(error, PermanentFailure | InvalidInput | CodeChanged):
            return error
        return noted_failure(self.recorder, self.name, key, _entry(tool), error, started_at)


def _entry(tool: ToolState) -> Entry:
    return {"kind": "tool", "invocation": tool.invocation_id, "input": tool.input_hash[:16]}


@lru_cache(maxsize=4096)
def _takes_invocation_id(work: Callable[..., Any]) -> bool:
    try:
        return "invocation_id" in inspect.signature(work).parameters
    except (TypeError, ValueError):
        return False
