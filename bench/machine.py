"""What a reader must know of the machine to judge the figures."""

from __future__ import annotations

import os
from time import perf_counter

from rich.console import Console

from bench.places import fresh_folder

BUSY_LOAD = 0.5


def describe_machine(console: Console) -> None:
    load = os.getloadavg()[0]
    console.print(
        f"{os.cpu_count()} cores, load {load:.1f}; a synced write of 8 KiB takes {sync_microseconds():.0f} µs.", highlight=False
    )
    if load > BUSY_LOAD:
        console.print("[yellow]Something else is running here. Wait until it is done, or trust the ratios more than the rates.")


def sync_microseconds(times: int = 200) -> float:
    """The floor under every durable commit."""
    with fresh_folder() as folder:
        file = os.open(folder / "probe", os.O_CREAT | os.O_WRONLY)
        try:
            os.write(file, bytes(8192))
            os.fsync(file)
            began = perf_counter()
            for _ in range(times):
                os.pwrite(file, os.urandom(8192), 0)
                os.fdatasync(file)
            return 1e6 * (perf_counter() - began) / times
        finally:
            os.close(file)
