"""The handler of a graph agent: runs the graph in the thread of its job, and turns its interrupts into questions for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cortex_plane.durable.checkpoint import DEFAULT_SIZES
from cortex_plane.durable.context import Context
from cortex_plane.durable.suspension import RunStopped
from cortex_plane.errors import LeaseLost
from cortex_plane.graphs.model import Asks, GraphAnswer, Holder, Question
from cortex_plane.graphs.store import GraphExecutor, GraphStore, GraphThread
from cortex_plane.json import dumps
from cortex_plane.worker.failures import ApprovalDenied

Ask = Callable[[Context, Question], Awaitable[GraphAnswer]]
"""Answers a question. Until then the job waits without a worker. Must return the same answer for the same question."""

Handler = Callable[..., Awaitable[Any]]


def graph_handler(executor: GraphExecutor, checkpoints: Callable[[], Awaitable[GraphStore]], ask: Ask) -> Handler:
    async def run(ctx: Context, **input: Any) -> Any:  # noqa: A002 - the users' word
        if ctx.recorder is not None:
            ctx.recorder.reach("before_step", "graph")  # A replay does nothing, so it ends here.
        watcher = Watcher(ctx)
        sizes = ctx.services.sizes if ctx.services is not None else DEFAULT_SIZES
        thread = GraphThread(ctx.job_id, Holder(ctx.job_id, ctx.run_id), await checkpoints(), watcher, sizes.limit_bytes)
        try:
            reached = await executor.run(thread, input)
            while isinstance(reached, Asks):
                answers = {question.id: await ask(ctx, question) for question in reached.questions}
                reached = await executor.resume(thread, answers)
        except LeaseLost as lost:
            raise RunStopped(lost) from lost
        finally:
            watcher.count()
        return reached.output

    return run


async def by_approval(ctx: Context, question: Question) -> GraphAnswer:
    """Asks through an approval of the job. A denial is returned as an answer: the graph decides what follows."""
    try:
        decided = await ctx.approval(
            question.summary,
            details=question.details,
            editable=question.editable,
            on_denial="raise",
            name=f"interrupt {question.id}",
        )
    except ApprovalDenied as denied:
        return GraphAnswer(False, denied.decided_by, denied.reason, question.details)
    return GraphAnswer(decided.approved, decided.decided_by, decided.reason, decided.details)


class Watcher:
    """Reports finished nodes, and counts token usage of models, each message once in the life of the job."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._told: list[tuple[str | None, int, int, float]] = []  # Threads add to it.
        self._finished = 0
        self._cents = 0.0
        self._noted: list[str] = []
        self._counted: set[str] = set()
        self._notes = 0
        self._recall()

    def _recall(self) -> None:
        """The usage counted by earlier runs. Reading a note also restores the sums to their values after it."""
        journal = self._ctx.recorder.journal if self._ctx.recorder is not None else None
        while journal is not None and (entry := journal.take(_note(self._notes + 1))) is not None:
            self._counted.update(journal.result_of(entry))
            self._notes += 1

    def finished(self, node: str, path: Sequence[str]) -> None:
        self._finished += 1
        name = " / ".join([*path, node])
        self._ctx.progress(self._finished, text=f"{name} finished")
        self._ctx.log.info("node finished", node=name)

    def used(self, message_id: str | None, prompt_tokens: int, completion_tokens: int, cost: float) -> None:
        self._told.append((message_id, prompt_tokens, completion_tokens, cost))

    def count(self) -> bool:
        """Adds the collected usage to the job's sums; returns whether there was any."""
        told, self._told = self._told, []
        new = False
        for message_id, prompt_tokens, completion_tokens, cost in told:
            if message_id is None or message_id not in self._counted:
                self._cents += 100 * cost
                cents = int(self._cents)
                self._cents -= cents
                self._ctx.usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cents=cents)
                new = True
            if message_id is not None and message_id not in self._counted:
                self._counted.add(message_id)
                self._noted.append(message_id)
        return new

    async def before_write(self) -> None:
        if not self.count():
            return
        recorder = self._ctx._durable
        self._notes += 1
        noted, self._noted = self._noted, []
        recorder.journal.put(_note(self._notes), {"kind": "llm"}, dumps(noted))
        await recorder.save("usage")


def _note(number: int) -> str:
    return f"$usage#{number}"
