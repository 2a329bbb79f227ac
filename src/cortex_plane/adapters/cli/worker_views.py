"""How workers look in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.adapters.cli.output import console, one_line_each, words
from cortex_plane.adapters.cli.times import ago, rough

if TYPE_CHECKING:
    from cortex_plane.core.jobs import WorkerId
    from cortex_plane.core.workers import WorkerRecord

LOOKS = {
    "LIVE": ("●", "green"),
    "DRAINING": ("◐", "yellow"),
    "DRAINED": ("○", "bright_black"),
    "STOPPED": ("○", "bright_black"),
    "LOST": ("✗", "red"),
}


def print_workers(workers: Sequence[WorkerRecord], busy: Mapping[WorkerId, int], now: datetime) -> None:
    rows = []
    for worker in workers:
        symbol, colour = LOOKS[worker.standing]
        rows.append(
            [
                words(worker.id),
                words(worker.name),
                words(f"{symbol} {worker.standing}", colour),
                words(f"{busy.get(worker.id, 0)} of {worker.concurrency}"),
                words(ago(worker.heartbeat_at, now)),
                words(rough(now - worker.started_at)),
                words(_remark(worker)),
            ]
        )
    console().print(one_line_each(["ID", "NAME", "STATUS", "BUSY", "HEARD OF", "AGE", "WORKS ON"], rows, right=[3, 5]))


def _remark(worker: WorkerRecord) -> str:
    if worker.draining:
        by = f" by {worker.drain_asked_by}" if worker.drain_asked_by else ""
        return f"to be drained, asked{by}" + (f": {worker.drain_reason}" if worker.drain_reason else "")
    return f"{', '.join(worker.queues)}: {', '.join(worker.job_types)}"
