"""Who takes part, with which settings, and how many jobs each is given: the slow ones fewer, so that all take seconds."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[1]
OUR_PYTHON = Path(sys.executable)
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"

StoreName = Literal["PostgreSQL", "SQLite"]


@dataclass(frozen=True, slots=True)
class System:
    name: str
    store: StoreName
    driver: str
    python: Path
    jobs: int
    singles: int
    setting: str
    keeps: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    share: float
    spaced: int


FULL = Size(rounds=5, share=1.0, spaced=200)
QUICK = Size(rounds=1, share=0.5, spaced=100)

OURS = "Cortex Plane"
PGQUEUER = "PgQueuer"
PROCRASTINATE = "Procrastinate"
HUEY = "Huey without fsync"
HUEY_FSYNC = "Huey with fsync"

SYSTEMS = (
    System(OURS, "PostgreSQL", "cortex", OUR_PYTHON, 40_000, 2_000, "concurrency 1,000, uvloop", "jobs, runs, history"),
    System(PGQUEUER, "PostgreSQL", "pgqueuer", PEERS_PYTHON, 40_000, 2_000, "batch 100, uvloop", "log rows", {"batch_size": 100}),
    System(
        PROCRASTINATE,
        "PostgreSQL",
        "procrastinate",
        PEERS_PYTHON,
        3_000,
        1_000,
        "concurrency 20",
        "jobs, events",
        {"concurrency": 20},
    ),
    System(OURS, "SQLite", "cortex", OUR_PYTHON, 40_000, 2_000, "synchronous=FULL", "jobs, runs, history"),
    System(HUEY, "SQLite", "huey", PEERS_PYTHON, 40_000, 40_000, "1 thread, 5 ms polling", "nothing", {"fsync": False}),
    System(HUEY_FSYNC, "SQLite", "huey", PEERS_PYTHON, 6_000, 6_000, "1 thread, 5 ms polling", "nothing", {"fsync": True}),
)
