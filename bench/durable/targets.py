"""What we promise ourselves of durable steps, each as a ratio to DBOS on the same store."""

from __future__ import annotations

from bench.durable.systems import DBOS
from bench.readings import Readings
from bench.systems import OURS, StoreName
from bench.targets import Target, Verdict

RATIOS = (
    ("100 at once, empty results", "many", 30.0),
    ("100 at once, 4 KiB results", "large", 10.0),
    ("one agent after the other", "alone", 5.0),
    ("one long agent", "long", 5.0),
)
STORES: tuple[StoreName, ...] = ("PostgreSQL", "SQLite")


def judge(readings: Readings) -> list[Verdict]:
    return [
        Verdict(Target(f"{what}, {store}", measure, store, DBOS, ratio), readings.ratio(store, measure, OURS, DBOS))
        for store in STORES
        for what, measure, ratio in RATIOS
    ]
