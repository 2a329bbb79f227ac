"""`make chaos`: all faults with figures. CHAOS_JOBS says how many jobs each meets."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

import structlog

from tests.end_to_end.chaos.campaign import TRIALS, NotHere, run

JOBS = int(os.environ.get("CHAOS_JOBS", "1500"))


def main() -> int:
    logging.disable(logging.CRITICAL)  # Connections that break are what this is about.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    only = sys.argv[1:]
    wrong = 0
    print(f"{'fault':<48}{'jobs':>7}{'lost':>7}{'doubled':>9}{'seconds to recover':>20}", flush=True)
    for trial in TRIALS:
        if only and not any(word in trial.name for word in only):
            continue
        try:
            figures = asyncio.run(run(trial, JOBS))
        except NotHere as why:
            print(f"{trial.name:<48}  not run: {why}", flush=True)
            continue
        wrong += figures.lost + figures.doubled
        print(
            f"{trial.name:<48}{figures.jobs:>7}{figures.lost:>7}{figures.doubled:>9}{figures.seconds:>20.1f}",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
