"""A program with a worker, run by the tests as a process of its own.

Every start of a handler is one line of a file that is only ever appended to: what the database says is compared with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from cortex_plane import Backoff, Context, Plane, RetryPolicy, Settings
from cortex_plane.worker import slots as slot_pool

AT_ONCE = Backoff(base_seconds=0.0)
SILENT = ("workers/register", "workers/close_lost", "checkpoints/save")


@dataclass
class Config:
    url: str
    effects: str
    lease_seconds: float = 0.6
    grace_seconds: float = 1.0
    event_loop_timeout: float = 120.0
    concurrency: int = 2
    ahead: int | None = None
    """How much is claimed ahead, where a test must know."""
    queues: list[str] = field(default_factory=lambda: ["default"])
    host: str | None = None
    """The machine that the worker believes to run on: its neighbours cannot look for its process."""
    network: str | None = None
    """The namespace that the process enters before it does anything."""
    die: list[Any] = field(default_factory=list)
    """Statement, moment and count at which the process kills itself."""
    settings: dict[str, Any] = field(default_factory=dict)
    """More of them, for the channels."""


def record(path: str, what: str, ctx: Context) -> None:
    """One line in one write, so that lines of several processes never mix."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{what} {ctx.job_id} {ctx.run_id}\n".encode())
    finally:
        os.close(file)


def recorded(path: str) -> str:
    with open(path, encoding="utf-8") as lines:
        return lines.read()


def register_agents(plane: Plane, effects: str, die: list[Any] | None = None) -> None:
    started = 0

    def start(ctx: Context) -> None:
        nonlocal started
        started += 1
        record(effects, "start", ctx)
        if die and die[:2] == ["handler", "started"] and started == die[2]:
            die_now()

    @plane.agent("steady", crash_limit=1000)
    async def steady(ctx: Context, seconds: float = 0.0) -> str:
        start(ctx)
        await asyncio.sleep(seconds)
        return ctx.job_id

    @plane.agent("flaky", retry=RetryPolicy("in_place", 3, AT_ONCE), crash_limit=1000)
    async def flaky(ctx: Context) -> str:
        start(ctx)
        if f"fail {ctx.job_id}" not in recorded(effects):
            record(effects, "fail", ctx)
            raise ValueError("the first time")
        return ctx.job_id

    @plane.agent("once", on_crash="fail", retry=RetryPolicy("chain", 5, AT_ONCE))
    async def once(ctx: Context) -> str:
        start(ctx)
        return ctx.job_id

    @plane.agent("plain")
    def plain(ctx: Context, seconds: float) -> str:
        start(ctx)
        until = time.monotonic() + seconds
        while time.monotonic() < until and not ctx.cancelled:
            time.sleep(0.01)
        record(effects, "told" if ctx.cancelled else "done", ctx)
        return ctx.job_id

    @plane.agent("block")
    async def block(ctx: Context, seconds: float) -> str:
        start(ctx)
        if ctx.attempt == 1:
            time.sleep(seconds)  # noqa: ASYNC251 - blocking the loop is what this agent is for.
        return ctx.job_id

    @plane.agent("asking")
    async def asking(ctx: Context, approver: str) -> str:
        return (await ctx.approval("Deploy 1.4.0 to production", approvers=approver)).outcome

    waiting = "import os, sys, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"
    plane.command("program", [sys.executable, "-c", waiting], crash_limit=1000)


def die_now() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # Nothing after this line ever happens.


class Death:
    """Kills this process at a chosen moment of a chosen statement, the n-th time that it has an effect.

    before        nothing has reached the database
    uncommitted   the statement is done, its transaction is open
    committed     it is committed, and the answer has not been read
    answered      the caller knows the answer, and has done nothing with it
    """

    def __init__(self, store: Any, statement: str, moment: str, count: int) -> None:
        self._statement, self._moment, self._left = statement, moment, count
        self._armed = False
        if moment == "answered":
            noun, _, verb = statement.partition("/")
            self._wrap_caller(store.checkpoints if noun == "checkpoints" else store.queue, verb)
        elif hasattr(store.database.session, "_writer"):
            self._wrap_sqlite(store.database.session)
        else:
            self._wrap_postgres(store.database.session)

    def _is_meant(self, name: str) -> bool:
        """A statement may have forms of its own for one, for many, and on each store: save, save_one, save_batch."""
        return name == self._statement or name.startswith(f"{self._statement}_")

    def _counts(self, answer: Any) -> bool:
        """Some statements answer nothing at all; those count each time."""
        self._left -= bool(answer) or self._statement in SILENT
        return self._left == 0

    def _wrap_caller(self, queue: Any, method: str) -> None:
        real = getattr(queue, method)

        async def call(*values: Any) -> Any:
            answer = await real(*values)
            if self._counts(answer):
                die_now()
            return answer

        setattr(queue, method, call)

    def _wrap_sqlite(self, database: Any) -> None:
        execute, committed = database._execute, database._writer.committed

        def dying_execute(wanted: Any, values: Any, connection: Any) -> Any:
            if not self._is_meant(wanted.name):
                return execute(wanted, values, connection)
            if self._moment == "before" and self._counts(True):
                die_now()
            rows = execute(wanted, values, connection)
            now = self._moment != "before" and self._counts(rows)
            if now and self._moment == "uncommitted":
                die_now()
            self._armed = self._armed or now
            return rows

        def dying_committed(changed: bool) -> None:
            if self._armed:
                die_now()
            committed(changed)

        database._execute, database._writer.committed = dying_execute, dying_committed

    def _wrap_postgres(self, database: Any) -> None:
        fetch = database._fetch

        async def dying_fetch(wanted: Any, values: Any) -> Any:
            if not self._is_meant(wanted.name):
                return await fetch(wanted, values)
            if self._moment == "before":
                if self._counts(True):
                    die_now()
                return await fetch(wanted, values)
            async with database._pool.acquire() as connection:
                async with connection.transaction():
                    rows = await connection.fetch(wanted.sql, *[values[name] for name in wanted.parameters])
                    now = self._counts(rows)
                    if now and self._moment == "uncommitted":
                        die_now()
                if now:
                    die_now()
            return rows

        database._fetch = dying_fetch


def enter_network(namespace: str) -> None:
    """For this thread and all that it starts."""
    with open(f"/var/run/netns/{namespace}", "rb") as entry:
        if ctypes.CDLL(None, use_errno=True).setns(entry.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


async def main(**options: Any) -> None:
    config = Config(**options)
    if config.network is not None:
        enter_network(config.network)
    if config.host is not None:
        socket.gethostname = lambda name=config.host: name  # type: ignore[misc]
    if config.ahead is not None:
        slot_pool.LONGEST_WAIT_SECONDS = 3600.0  # What was claimed ahead stays here.
        slot_pool.SlotPool._ahead = lambda pool, fixed=config.ahead: fixed if pool._pace else 0  # type: ignore[method-assign, misc]
    settings = Settings(
        database_url=config.url,
        lease_seconds=config.lease_seconds,
        grace_seconds=config.grace_seconds,
        event_loop_timeout=config.event_loop_timeout,
        data_dir=f"{config.effects}.files",
        **config.settings,
    )
    async with Plane(settings=settings) as plane:
        register_agents(plane, config.effects, config.die)
        store = plane.store
        if config.die and config.die[0] != "handler":
            Death(store, *config.die)
        loop = asyncio.get_running_loop()

        def asked_to_stop() -> None:
            loop.remove_signal_handler(signal.SIGTERM)  # The second signal does what signals do.
            plane.stop_workers()

        loop.add_signal_handler(signal.SIGTERM, asked_to_stop)
        await plane.run_worker(queues=config.queues, concurrency=config.concurrency)
