"""A worker with a ten-step agent, run as a process of its own and killed.

Each step and each tool appends one line to a file: what the database says is compared with it. The file is also the other
side that `verify` asks.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import apsw

from cortex_plane import Applied, Context, Plane, Settings
from cortex_plane.durable import segments
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


def stop_between_writes(database_url: str) -> None:
    """Stops this process. On SQLite not while another of its threads writes: it would keep the file locked for everybody."""
    if database_url.startswith("sqlite:///"):
        connection = apsw.Connection(database_url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        connection.execute("begin immediate; rollback")
    os.kill(os.getpid(), signal.SIGSTOP)


def register(plane: Plane, effects: str, die: list[Any] | None = None) -> None:
    left = [die[2]] if die and die[0] == "effect" else [0]

    def about_to(moment: str) -> None:
        if die and die[0] == "effect" and die[1] == moment:
            left[0] -= 1
            if left[0] == 0:
                die_now()

    async def effect(name: str, invocation_id: str = "") -> dict[str, str]:
        about_to("before")
        append(effects, f"{name} {invocation_id}")
        about_to("after")
        return RESULTS[name]

    async def work(name: str) -> dict[str, str]:
        if die == ["pause", name]:
            stop_between_writes(plane.settings.database_url)
        append(effects, name)
        return RESULTS[name]

    def verify(name: str) -> Any:
        async def ask(invocation_id: str) -> Applied | None:
            return Applied(RESULTS[name]) if f"{name} {invocation_id}" in lines(effects) else None

        return ask

    @plane.agent("ten", crash_limit=1000, max_retries=0)
    async def ten(ctx: Context) -> list[Any]:
        found: list[Any] = []
        for name in STEPS:
            if name in TOOLS:
                found.append(await ctx.tool(name, verify=verify(name))(effect, name))
            else:
                found.append(await ctx.step(name, work, name))
            ctx.memory.add_fact(f"{name} is done")
        return found


def freeze(tool: str, moment: str, name: str) -> None:
    """Right before the tool is called: that it is about to be is acknowledged."""
    if (moment, name) == ("before_tool", tool):
        os.kill(os.getpid(), signal.SIGSTOP)


async def main(url: str, effects: str, die: list[Any], lease_seconds: float = 0.6, seals: bool = False) -> None:
    """With `seals`, entries of these short checkpoints are sealed, two or three at a time."""
    if seals:
        segments.SEAL_ABOVE_BYTES, segments.SMALLEST_BYTES = 1, 700
    settings = Settings(database_url=url, lease_seconds=lease_seconds, data_dir=f"{effects}.files")
    async with Plane(settings=settings) as plane:
        register(plane, effects, die)
        if die and die[0] == "freeze":
            plane.fault = partial(freeze, die[1])
        store = plane.store
        if die and die[0].startswith("checkpoints/"):
            Death(store, *die)
        await plane.run_worker(concurrency=1)
