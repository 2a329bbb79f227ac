"""Who takes part in the comparison of durable steps, with which settings, and how many agents each is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.durable.story import StepsOrder
from bench.systems import OUR_PYTHON, OURS, PEERS_PYTHON, StoreName

DBOS = "DBOS"
RESTATE = "Restate"


@dataclass(frozen=True, slots=True)
class System:
    """`store` is None for a system that has its own: it stands beside the others on both."""

    name: str
    store: StoreName | None
    driver: str
    python: Path
    setting: str
    agents: tuple[int, int, int, int]

    def order(self, database: str, share: float) -> StepsOrder:
        many, large, alone, long = (max(1, round(agents * share)) for agents in self.agents)
        return StepsOrder(database, many, large, alone, long)


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    share: float


FULL = Size(rounds=5, share=1.0)
QUICK = Size(rounds=1, share=0.3)

SYSTEMS = (
    System(OURS, "PostgreSQL", "durable_cortex", OUR_PYTHON, "fsync, uvloop", (2_000, 1_000, 100, 5)),
    System(DBOS, "PostgreSQL", "durable_dbos", PEERS_PYTHON, "fsync, threads", (120, 120, 40, 3)),
    System(OURS, "SQLite", "durable_cortex", OUR_PYTHON, "synchronous=FULL, uvloop", (2_000, 1_000, 100, 5)),
    System(DBOS, "SQLite", "durable_dbos", PEERS_PYTHON, "its defaults, threads", (120, 120, 40, 3)),
    System(RESTATE, None, "durable_restate", PEERS_PYTHON, "its own log, fsync", (200, 200, 50, 3)),
)
