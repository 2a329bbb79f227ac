"""The agent as a service of Restate; hypercorn serves `app`."""

from __future__ import annotations

from functools import partial
from typing import Any

import restate  # type: ignore[import-not-found]

from bench.durable.story import result

service = restate.Service("bench")


@service.handler()  # type: ignore[untyped-decorator]
async def agent(ctx: Any, asked: dict[str, int]) -> None:
    for number in range(asked["steps"]):
        await ctx.run_typed(f"step {number}", partial(result, asked["result_bytes"]))


app = restate.app([service])
