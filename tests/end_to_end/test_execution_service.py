"""Worker and execution service as processes, killed with SIGKILL around each request between them: every slot runs its agent
once, and is charged once."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_plane import Context, Plane, Settings
from tests.end_to_end.inspection import broken_rules
from tests.forked import Forked
from tests.runtime.helpers import eventually, working

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

PATIENCE_SECONDS = 40.0

# Who dies, when, and around which request: the start of a run, or a look at it.
DEATHS = [
    ("service", "before", "/runs"),
    ("service", "after", "/runs"),
    ("worker", "after", "/runs"),
    ("worker", "after", "/looked"),
]


class Pair:
    """A worker and the service that it calls."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self._log = url, folder / "processes.log"
        self.processes: dict[str, Forked] = {}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]

    def start(self, role: str, die: tuple[str, str] | None = None) -> Forked:
        self.end(role)
        options = {"role": role, "url": self.url, "port": self._port, "die": die}
        self.processes[role] = Forked("tests.end_to_end.scheduled_app", options, self._log)
        return self.processes[role]

    def keep(self, role: str) -> None:
        if role not in self.processes or self.processes[role].poll() is not None:
            self.start(role)

    def end(self, role: str) -> None:
        if role in self.processes:
            self.processes[role].kill()
            self.processes[role].wait(PATIENCE_SECONDS)


@pytest.fixture
def pair(database_url: str, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(database_url, tmp_path)
    yield pair
    for role in list(pair.processes):
        pair.end(role)


async def test_every_slot_runs_once_and_is_charged_once_whoever_is_killed(pair: Pair) -> None:
    ran: list[str] = []
    async with Plane(settings=Settings(database_url=pair.url, lease_seconds=0.6)) as plane:

        @plane.agent("report")
        async def report(ctx: Context) -> None:
            ran.append(ctx.job_id)
            ctx.usage(cents=5)

        await plane.schedules.add("yearly", "agent:report", "0 0 1 1 *", overlap="allow")
        plane.built_in.clear()  # Slots are left to the other process.
        async with working(plane):
            for who, moment, address in DEATHS:
                await _slot_with_a_death(plane, pair, who, (moment, address))

        found = await plane.schedules.slots("yearly")
        assert [slot.status for slot in found] == ["success"] * len(DEATHS)
        assert sorted(ran) == sorted(slot.run_id or "" for slot in found)
        for slot in found:
            assert [(one.unit, one.quantity) for one in await plane.billing.receipts(slot.run_id or "")] == [("cents", 5)]
        assert (await plane.grants.get((await plane.schedules.get("yearly")).grant_id)).uses == len(DEATHS)
        assert await broken_rules(pair.url) == {}


async def _slot_with_a_death(plane: Plane, pair: Pair, who: str, die: tuple[str, str]) -> None:
    victim = pair.start(who, die)
    pair.keep("worker" if who == "service" else "service")
    slot = await plane.schedules.trigger("yearly")
    assert await asyncio.to_thread(victim.wait, PATIENCE_SECONDS) == -signal.SIGKILL
    pair.start(who)

    async def has_ended() -> bool:
        seen = await plane.store.slots.get(slot.id)
        return seen is not None and not seen.open

    await eventually(has_ended, PATIENCE_SECONDS)
