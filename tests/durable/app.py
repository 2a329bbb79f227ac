"""A worker with a ten-step agent, run as a process of its own and killed.

Each step and each tool appends one line to a file: what the database says is compared with it. The file is also the other
side that `verify` asks.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from cortex_plane import Context, Happened, Plane, Settings
from cortex_plane.runtime.durable import additions
from tests.end_to_end.app import Death, die_now

STEPS = ["read", "plan", "draft", "check", "price", "book", "pay", "notify", "archive", "close"]
TOOLS = {"book", "pay", "notify"}
RESULTS = {name: {"step": name, "text": name * (300 if name == "draft" else 1)} for name in STEPS}


def append(path: str, line: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def register(plane: Plane, effects: str, die: list[Any] | None = None) -> None:
    left = [die[2]] if die and die[0] == "effect" else [0]

    def about_to(moment: str) -> None:
        if die and die[0] == "effect" and die[1] == moment:
            left[0] -= 1
            if left[0] == 0:
                die_now()

    async def effect(name: str, invocation_id: str) -> dict[str, str]:
        about_to("before")
        append(effects, f"{name} {invocation_id}")
        about_to("after")
        return RESULTS[name]

    async def work(name: str) -> dict[str, str]:
        if die == ["pause", name]:
            os.kill(os.getpid(), signal.SIGSTOP)
        append(effects, name)
        return RESULTS[name]

    def verify(name: str) -> Any:
        async def ask(invocation_id: str) -> Happened | None:
            return Happened(RESULTS[name]) if f"{name} {invocation_id}" in lines(effects) else None

        return ask

    @plane.agent("ten", crash_limit=1000, max_retries=0)
    async def ten(ctx: Context) -> list[Any]:
        found: list[Any] = []
        for name in STEPS:
            if name in TOOLS:
                found.append(await ctx.tool(name, effect, name, verify=verify(name)))
            else:
                found.append(await ctx.step(name, work, name))
            ctx.memory.add_fact(f"{name} is done")
        return found


async def main(url: str, effects: str, die: list[Any], lease_seconds: float = 0.6, adds: bool = False) -> None:
    """With `adds`, even these short checkpoints are added to, and every third or fourth is written whole."""
    if adds:
        additions.WHOLE_BELOW_BYTES, additions.LONGEST_BYTES = 0, 1800
    settings = Settings(database_url=url, lease_seconds=lease_seconds, files=f"{effects}.files")
    async with Plane(settings=settings) as plane:
        register(plane, effects, die)
        store = await plane.store
        if die and die[0].startswith("checkpoints/"):
            Death(store, *die)
        await plane.run_worker(concurrency=1)
