"""The story that every system of durable steps is put through. Standard library only: peers run in another environment.

install ──▶ warm up ──▶ many at once ──▶ many with large results ──▶ one after the other ──▶ long ones ──▶ check the counts

The clock runs from the first submission until the system itself says that the last agent has ended.
"""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Protocol

from bench.order import tell

STEPS = 10
LONG_STEPS = 200
LARGE_BYTES = 4096
AT_ONCE = 100
WARM_UP_AGENTS = 10


@dataclass(frozen=True, slots=True)
class StepsOrder:
    """Where to measure, and how many agents of each kind: the slow systems are given fewer, so that all take seconds."""

    database: str
    many: int
    large: int
    alone: int
    long: int

    @classmethod
    def given(cls) -> StepsOrder:
        return cls(**json.loads(sys.argv[1]))

    def text(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Work:
    measure: str
    agents: int
    steps: int = STEPS
    result_bytes: int = 0
    at_once: int = 1

    @property
    def all_steps(self) -> int:
        return self.agents * self.steps


class StepSystem(Protocol):
    """What a driver does with its system. An agent takes `steps` steps, one after the other; each returns `result(bytes)`."""

    async def install(self) -> None: ...

    async def get_ready(self, work: Work) -> None:
        """The same start for all: tables analyzed, nothing left to write to disk, and whatever runs the agents is up."""

    async def run(self, work: Work) -> None:
        """Submits the agents, at most so many at once, and returns when all have ended."""

    async def check(self, agents: int, steps: int) -> None:
        """Raises when the database does not show that each agent has ended well, with all its steps recorded."""

    async def close(self) -> None: ...


async def measure(system: StepSystem, order: StepsOrder) -> None:
    await system.install()
    warm_up = Work("warm_up", WARM_UP_AGENTS, at_once=WARM_UP_AGENTS)
    await system.get_ready(warm_up)
    await system.run(warm_up)
    for work in works(order):
        await system.get_ready(work)
        began = perf_counter()
        await system.run(work)
        tell(work.measure, work.all_steps / (perf_counter() - began))
    done = [warm_up, *works(order)]
    await system.check(sum(work.agents for work in done), sum(work.all_steps for work in done))
    await system.close()


def works(order: StepsOrder) -> Iterator[Work]:
    yield Work("many", order.many, at_once=AT_ONCE)
    yield Work("large", order.large, result_bytes=LARGE_BYTES, at_once=AT_ONCE)
    yield Work("alone", order.alone)
    yield Work("long", order.long, steps=LONG_STEPS)


def result(size: int) -> str | None:
    """What a step returns: nothing, or text that no compression makes smaller, new each time."""
    return base64.b64encode(random.randbytes(size * 3 // 4)).decode() if size else None
