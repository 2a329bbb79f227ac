"""`ctx.step` and `ctx.llm`, within the budget of the job.

A job's own budget: once it is spent, people are asked before anything new is done.

What they grant is kept in the journal. Inside ctx.gather nobody can be asked: it is asked for what comes after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from cortex_plane.approvals.model import Gate
from cortex_plane.durable.approvals import Runner, ask_as, check_awaited_inside
from cortex_plane.durable.calls import (
    PLAIN,
    StepOptions,
    answer,
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
from cortex_plane.durable.scopes import StepScope, checked_step_name
from cortex_plane.worker.failures import FINAL


async def stay_in_budget(recorder: Recorder) -> None:
    recorder.cleaning.before_new_work()
    budget, journal = recorder.config.budget_cents, recorder.journal
    if budget is None or recorder.scopes.here().in_gather:
        return
    while journal.spent[2] >= budget + sum(journal.granted_cents):
        key = f"$budget#{len(journal.granted_cents) + 1}"
        decision = await ask_as(recorder, key, _gate(recorder, budget), "budget")
        journal.granted_cents.append(decision.details["more_cents"])


def _gate(recorder: Recorder, budget: int) -> Gate:
    granted, spent = sum(recorder.journal.granted_cents), recorder.journal.spent[2]
    details = {"spent_cents": spent, "budget_cents": budget + granted, "more_cents": budget}
    fields = {name: {"const": value} for name, value in details.items()} | {"more_cents": {"type": "integer", "minimum": 1}}
    return Gate(
        f"Allow {recorder.claimed.job_type} to spend {budget:,} more cents? "
        f"This job has spent {spent:,} of its budget of {budget + granted:,}.",
        details,
        editable={"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False},
    )


# -- steps -------------------------------------------------------------------------------------
# `ctx.step(...)`: work that is done once, and remembered. Also `ctx.tool`, `ctx.llm`: steps of a special kind.


@dataclass(slots=True)
class StepRunner(Runner):
    """One named step of a run, of kind `step` or `llm`."""

    recorder: Recorder
    name: str
    options: StepOptions = PLAIN
    kind: str = "step"
    spend: Callable[[Any], None] | None = None
    _block: Block | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        checked_step_name(self.name)

    @property
    def method(self) -> str:
        return self.kind

    async def run(self, work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        recorder = self.recorder
        recorder.check()
        scope = recorder.scopes.here()
        key, digest = scope.key(self.name), input_digest(args, kwargs)[:16]
        entry = recorder.journal.take(key)
        if entry is not None:
            return decode_result(recorder, self.name, answer(recorder, key, self.name, self.kind, entry, digest), work)
        await stay_in_budget(recorder)
        recorder.reach("before_step", self.name)
        started_at, after = recorder.now(), recorder.journal.step_index
        before = recorder.journal.tools_asked
        try:
            value = await self._attempts(scope, key, work, args, kwargs)
            if self.spend is not None:
                self.spend(value)
        except FINAL:
            raise
        except Exception as error:
            raise noted_failure(recorder, self.name, key, {"kind": self.kind, "input": digest}, error, started_at) from error
        check_awaited_inside(recorder, key)
        tools = recorder.journal.tools_asked - before
        result = await encode_result(recorder, self.name, value, work)
        await self._keep(scope, key, digest, result.text, started_at, tools, after)
        return result.value

    async def _keep(self, scope: StepScope, key: str, digest: str, text: str, started_at: int, tools: int, after: int) -> None:
        journal = self.recorder.journal
        inside = journal.forget_inside(key)
        entry = {"kind": self.kind, "input": digest} | ({"tools": inside} if inside else {})
        journal.put(key, entry, text, after)
        journal.log_step(self.name, started_at, self.recorder.now(), text, tools)
        if self.kind == "step" or not scope.in_step or self.recorder.config.checkpoint_granularity == "per_llm_response":
            await self.recorder.save(self.name)
            self.recorder.reach("after_step", self.name)

    async def _attempts(
        self, outside: StepScope, key: str, work: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        policy, services, tried = self.options.retry, self.recorder.services, 0
        while True:
            try:
                with self.recorder.scopes.entered(outside.inside(key)):
                    doing = within(self.options.timeout, self.name, called(work, args, kwargs))
                    if services.telemetry is not None:
                        doing = services.telemetry.working(self.kind, self.name, doing)
                    return await doing
            except FINAL:
                raise
            except Exception as error:
                if await waited(self.recorder, key, policy, error):
                    continue
                if tried >= policy.max_retries:
                    raise
                await pause_before_retry(self.recorder, key, policy, tried, error)
            tried += 1

    # -- as a block ------------------------------------------------------------------------------

    async def __aenter__(self) -> Block:
        recorder = self.recorder
        recorder.check()
        scope = recorder.scopes.here()
        key = scope.key(self.name)
        entry = recorder.journal.take(key)
        if entry is not None:
            self._block = Block(False, answer(recorder, key, self.name, self.kind, entry, BLOCK), key=key, scope=scope)
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
        if isinstance(error, FINAL):
            return
        if isinstance(error, Exception):
            failure = {"kind": self.kind, "input": BLOCK}
            raise noted_failure(self.recorder, self.name, block.key, failure, error, block.started_at) from error
        check_awaited_inside(self.recorder, block.key)
        tools = self.recorder.journal.tools_asked - block.tools
        result = await encode_result(self.recorder, self.name, block.result)
        await self._keep(block.scope, block.key, BLOCK, result.text, block.started_at, tools, block.after)
        block.result = result.value


BLOCK = "block"


@dataclass(slots=True)
class Block:
    """An inline step: `async with ctx.step("charge") as step: if step.pending: step.result = …`."""

    pending: bool
    """False when the step is recorded: then `result` holds the recorded result, and the work must be skipped."""
    result: Any
    key: str = field(repr=False)
    scope: StepScope = field(repr=False)
    started_at: int = field(default=0, repr=False)
    tools: int = field(default=0, repr=False)
    after: int = field(default=0, repr=False)
    inside: Any = field(default=None, repr=False)
