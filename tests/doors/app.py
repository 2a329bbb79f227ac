"""A process that decides, or a worker that goes on afterwards, and that is killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cortex_plane import Context, Plane, Settings
from cortex_plane.approvals import decision_store as deciding
from cortex_plane.approvals import store as approvals
from cortex_plane.storage.transactions import Transaction
from tests.durable.app import append
from tests.end_to_end.app import Death, die_now

AT_THE_END = 0
"""All statements are done, and their transaction is open."""
COMMITTED = -1
"""It is committed, and nobody has been told."""


def register(plane: Plane, effects: str) -> None:
    async def note(what: str) -> None:
        append(effects, what)

    @plane.agent("gate", crash_limit=1000, max_retries=0)
    async def gate(ctx: Context) -> str:
        await ctx.step("before", note, f"before {ctx.job_id}")
        decision = await ctx.approval("Go on?", approvers="alice")
        await ctx.step("after", note, f"after {ctx.job_id}")
        return decision.outcome


def dying(script: Callable[..., Transaction[Any]], point: int) -> Callable[..., Transaction[Any]]:
    """The script, in a process that is killed before its n-th statement, or at its end."""

    def played(*values: Any) -> Transaction[Any]:
        inner, answer = script(*values), None
        statement = 0
        while True:
            try:
                wanted = inner.send(answer)  # type: ignore[arg-type]
            except StopIteration as done:
                if point == AT_THE_END:
                    die_now()
                return done.value
            statement += 1
            if statement == point:
                die_now()
            answer = yield wanted

    return played


async def main(url: str, effects: str, *, decide: str = "", point: int = 0, die: list[Any] | None = None) -> None:
    async with Plane(settings=Settings(database_url=url, lease_seconds=0.6, data_dir=f"{effects}.files")) as plane:
        register(plane, effects)
        if decide:
            deciding.decide = dying(deciding.decide, point)
            approvals.decide = deciding.decide  # type: ignore[attr-defined]
            await plane.approvals.approve(decide, by="alice")
            if point == COMMITTED:
                die_now()
        else:
            Death(plane.store, *(die or []))
            await plane.run_worker(concurrency=1)
