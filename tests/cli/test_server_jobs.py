"""`cortex jobs … --server`: the same commands, the same answers, through the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Context, Plane
from tests.cli.twins import Twins, twins

__all__ = ["twins"]

RunIn = Callable[..., Any]
MakeTwins = Callable[..., Twins]


async def fill(plane: Plane) -> dict[str, str]:
    @plane.agent("careful")
    async def careful(ctx: Context, version: str) -> str:
        built = await ctx.step("build", "built ".__add__, version)
        ctx.log.info("built it", version=version)
        ctx.progress(1, 2, "half")
        ctx.usage(prompt_tokens=10, completion_tokens=5)
        return await ctx.step("ship", "shipped ".__add__, built)

    done = await plane.submit("careful", {"version": "1"}, tags=["release"])
    failed = await plane.submit("flaky")
    await plane.run_worker(until_idle=True)
    cancelled = await plane.submit("greet")
    await plane.jobs.cancel(cancelled.id, reason="wrong version")
    waiting = [await plane.submit("greet", {"name": name}, delay=3600) for name in ("Ada", "Grace")]
    ready = [await plane.submit("greet", queue="other") for _ in range(3)]
    return {
        "done": done.id,
        "failed": failed.id,
        "cancelled": cancelled.id,
        "waiting": waiting[0].id,
        "later": waiting[1].id,
        **{f"ready{number}": job.id for number, job in enumerate(ready)},
    }


LOOKING = [
    "jobs list --json",
    "jobs list",
    "jobs list --limit 2 --json",
    "jobs list --limit 2 --before {waiting} --json",
    "jobs list --status failed --agent flaky --queue default --json",
    "jobs list --agent nobody",
    "jobs list --tag nothing",
    "jobs list --text nothing --since 2020-01-01 --until 2100-01-01T00:00+01:00",
    "jobs list --since 2020-01-01 --json",
    "jobs list --since yesterday",
    "jobs list --tenant nobody",
    "jobs list --status completed --queue reports",
    "jobs show {done} --json",
    "jobs show {done}",
    "jobs show {failed} --json",
    "jobs show {cancelled}",
    "jobs show 00000000-0000-7000-8000-000000000000",
    "jobs show 00000000",
    "jobs show nonsense",
    "runs list --job {done} --json",
    "runs list --job {failed} --status failed",
    "runs list --job {done} --status nonsense",
    "runs list --status running",
    "runs list --status failed --json",
    "runs list",
    "runs list --worker nobody",
    "workers list --json",
    "workers list",
    "workers drain nobody",
    "jobs why {waiting} --json",
    "jobs why {ready1}",
    "jobs why {done}",
    "jobs watch {done} --json",
    "jobs watch {done}",
    "jobs watch {failed}",
    "jobs watch {cancelled} --json",
    "jobs watch 00000000-0000-7000-8000-000000000000",
]

STEERING = [
    "jobs submit greet name=Ada --json",
    "jobs submit greet name=Ada --queue q --priority 3 --delay 1h --tag a --serial-key k --max-retries 1 --run-timeout 5m",
    "jobs submit greet --run-at 2099-01-05T09:00 --json",
    "jobs submit greet --deadline 2099-01-05T09:00 --json",
    "jobs submit greet --deadline 2h --run-timeout 5 --json",
    "jobs submit nobody",
    "jobs submit greet --tenant nobody",
    "jobs cancel {waiting} --reason 'wrong version' --json",
    "jobs cancel {waiting}",
    "jobs retry {waiting} --json",
    "jobs retry {later}",
    "jobs retry {failed}",
    "jobs resume {cancelled} --json",
    "jobs resume {cancelled}",
    "jobs resume {done}",
    "jobs resume {later}",
    "jobs release {waiting}",
    "jobs release {done} --json",
    "jobs move {ready2} --front --json",
    "jobs move {ready0} --after {ready1} --reason because",
    "jobs move {ready0}",
    "jobs move {done} --back",
    "jobs priority {ready1} 10 --json",
    "jobs priority {done} 10",
    "jobs list --json",
    "jobs show {waiting} --json",
    "jobs fork {done} --from-step ship --json",
    "jobs fork {done} --from-step nothing",
]


@pytest.mark.parametrize("lines", [LOOKING, STEERING], ids=["looking", "steering"])
def test_the_answer_is_the_same_through_a_server(twins: MakeTwins, lines: list[str]) -> None:
    both = twins(fill)

    for line in lines:
        both.same(line)
