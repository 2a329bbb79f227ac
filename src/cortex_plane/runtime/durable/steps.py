"""`ctx.step(...)`: work that is done once, and remembered. Also `ctx.tool`, `ctx.llm`: steps of a special kind."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from cortex_plane.core.errors import CodeChanged, InvalidInput
from cortex_plane.core.retry import RetryPolicy
from cortex_plane.ports.json_text import loads
from cortex_plane.runtime.durable.calls import answer, called, encode_result, input_digest, noted_failure, within
from cortex_plane.runtime.durable.recorder import Recorder
from cortex_plane.runtime.durable.scopes import Scope, checked_step_name
from cortex_plane.runtime.durable.spending import stay_in_budget
from cortex_plane.runtime.failures import PermanentFailure

Result = TypeVar("Result")

NO_RETRY = RetryPolicy(max_retries=0)


@dataclass(frozen=True, slots=True)
class StepOptions:
    retry: RetryPolicy = NO_RETRY
    timeout: float | None = None


PLAIN = StepOptions()


class StepCall(Generic[Result]):
    """A step with its work: await it, or call it with (other) arguments and await that."""

    __slots__ = ("_args", "_kwargs", "_runner", "_work")

    def __init__(self, runner: StepRunner, work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._runner, self._work, self._args, self._kwargs = runner, work, args, kwargs

    def __await__(self) -> Generator[Any, None, Result]:
        return self._runner.run(self._work, self._args, self._kwargs).__await__()

    def __call__(self, *args: Any, **kwargs: Any) -> StepCall[Result]:
        return StepCall(self._runner, self._work, args, kwargs)


@dataclass(slots=True)
class StepRunner:
    """One named step of a run, of kind `step` or `llm`."""

    recorder: Recorder
    name: str
    options: StepOptions = PLAIN
    kind: str = "step"
    spend: Callable[[Any], None] | None = None
    _block: Block | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        checked_step_name(self.name)

    @overload
    def __call__(self, work: Callable[..., Coroutine[Any, Any, Result]], *args: Any, **kwargs: Any) -> StepCall[Result]: ...

    @overload
    def __call__(self, work: Callable[..., Result], *args: Any, **kwargs: Any) -> StepCall[Result]: ...

    def __call__(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> StepCall[Any]:
        """Runs the work: `await ctx.step("fetch", timeout=10)(fetch, url)`; or makes a function a step: `@ctx.step("fetch")`."""
        return StepCall(self, work, args, kwargs)

    async def run(self, work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        recorder = self.recorder
        recorder.check()
        scope = recorder.scopes.here()
        key, digest = scope.key(self.name), input_digest(args, kwargs)[:16]
        entry = recorder.journal.take(key)
        if entry is not None:
            return answer(recorder, self.name, self.kind, entry, digest)
        await stay_in_budget(recorder)
        recorder.reach("before_step", self.name)
        started_at, after = recorder.now(), recorder.journal.step_index
        before = recorder.journal.tools_asked
        try:
            value = await self._attempts(scope, key, work, args, kwargs)
            if self.spend is not None:
                self.spend(value)
        except (PermanentFailure, InvalidInput, CodeChanged):
            raise
        except Exception as error:
            raise noted_failure(recorder, self.name, key, {"kind": self.kind, "input": digest}, error, started_at) from error
        tools = recorder.journal.tools_asked - before
        return await self._keep(scope, key, digest, encode_result(value, self.name), started_at, tools, after)

    async def _keep(self, scope: Scope, key: str, digest: str, text: str, started_at: int, tools: int, after: int) -> Any:
        journal = self.recorder.journal
        journal.forget_inside(key)
        journal.put(key, {"kind": self.kind, "input": digest}, text, after)
        journal.log_step(self.name, started_at, self.recorder.now(), text, tools)
        if self.kind == "step" or not scope.in_step or self.recorder.config.checkpoint_granularity == "per_llm_response":
            await self.recorder.save(self.name)
            self.recorder.reach("after_step", self.name)
        return loads(text)

    async def _attempts(
        self, outside: Scope, key: str, work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        policy, services, tried = self.options.retry, self.recorder.services, 0
        while True:
            try:
                with self.recorder.scopes.entered(outside.inside(key)):
                    doing = within(self.options.timeout, self.name, called(work, args, kwargs))
                    if services.telemetry is not None:
                        doing = services.telemetry.working(self.kind, self.name, doing)
                    return await doing
            except (PermanentFailure, InvalidInput, CodeChanged):
                raise
            except Exception:
                if tried >= policy.max_retries:
                    raise
            await services.clock.sleep(policy.backoff.delay_seconds(tried, services.random()))
            self.recorder.journal.forget_failures(f"{key}/")
            tried += 1

    # -- as a block ------------------------------------------------------------------------------

    async def __aenter__(self) -> Block:
        recorder = self.recorder
        recorder.check()
        scope = recorder.scopes.here()
        key = scope.key(self.name)
        entry = recorder.journal.take(key)
        if entry is not None:
            self._block = Block(False, answer(recorder, self.name, self.kind, entry, BLOCK), key=key, scope=scope)
        else:
            await stay_in_budget(recorder)
            recorder.reach("before_step", self.name)
            self._block = Block(True, None, key=key, scope=scope, started_at=recorder.now())
            self._block.tools, self._block.after = recorder.journal.tools_asked, recorder.journal.step_index
            self._block.inside = recorder.scopes.entered(scope.inside(key))
            self._block.inside.__enter__()
        return self._block

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        block, self._block = self._block, None
        assert block is not None
        if block.inside is not None:
            block.inside.__exit__(None, None, None)
        if not block.pending or (error is not None and not isinstance(error, Exception)):
            return
        if isinstance(error, PermanentFailure | InvalidInput | CodeChanged):
            return
        if isinstance(error, Exception):
            failure = {"kind": self.kind, "input": BLOCK}
            raise noted_failure(self.recorder, self.name, block.key, failure, error, block.started_at) from error
        tools = self.recorder.journal.tools_asked - block.tools
        text = encode_result(block.result, self.name)
        block.result = await self._keep(block.scope, block.key, BLOCK, text, block.started_at, tools, block.after)


BLOCK = "block"


@dataclass(slots=True)
class Block:
    """An inline step: `async with ctx.step("charge") as step: if step.pending: step.result = …`."""

    pending: bool
    """False when the step is recorded: then `result` is what it was, and the work must be left out."""
    result: Any
    key: str = field(repr=False)
    scope: Scope = field(repr=False)
    started_at: int = field(default=0, repr=False)
    tools: int = field(default=0, repr=False)
    after: int = field(default=0, repr=False)
    inside: Any = field(default=None, repr=False)
