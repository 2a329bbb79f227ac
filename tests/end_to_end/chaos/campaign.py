"""All faults, each on a fresh database, and the table of what came of them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cortex_plane.testing import PostgresCluster
from tests.end_to_end.chaos import faults
from tests.end_to_end.chaos.ground import Fault, Figures, Ground, ground_in, suffer
from tests.end_to_end.chaos.network import cut_network, namespace_to, wire_to
from tests.pgbouncer import pgbouncer
from tests.stock import stock_binaries


class NotHere(Exception):
    """This machine lacks what the fault needs."""


@dataclass(frozen=True, slots=True)
class Trial:
    fault: str
    store: str
    prepare: Callable[[ExitStack, Path, int], tuple[Ground, Fault]]

    @property
    def name(self) -> str:
        return f"{self.fault} ({self.store})"


def _sqlite(fault: Fault) -> Callable[[ExitStack, Path, int], tuple[Ground, Fault]]:
    return lambda _, folder, jobs: (ground_in(folder, f"sqlite:///{folder}/chaos.db", jobs), fault)


def _postgres(fault: Fault, **settings: str) -> Callable[[ExitStack, Path, int], tuple[Ground, Fault]]:
    def prepare(stack: ExitStack, folder: Path, jobs: int) -> tuple[Ground, Fault]:
        cluster = stack.enter_context(PostgresCluster(settings=settings, in_memory=True))
        return ground_in(folder, cluster.create_database("chaos"), jobs, cluster), fault

    return prepare


def _stock(fault: Fault) -> Callable[[ExitStack, Path, int], tuple[Ground, Fault]]:
    def prepare(stack: ExitStack, folder: Path, jobs: int) -> tuple[Ground, Fault]:
        binaries = stock_binaries()
        if binaries is None:
            raise NotHere("no stock PostgreSQL")
        cluster = stack.enter_context(PostgresCluster(binaries=binaries, in_memory=True))
        return ground_in(folder, cluster.create_database("chaos"), jobs, cluster), fault

    return prepare


def _bounced(fault: Fault) -> Callable[[ExitStack, Path, int], tuple[Ground, Fault]]:
    def prepare(stack: ExitStack, folder: Path, jobs: int) -> tuple[Ground, Fault]:
        ground, _ = _postgres(fault)(stack, folder, jobs)
        assert ground.cluster is not None
        try:
            bouncer = stack.enter_context(pgbouncer(ground.cluster.port, "transaction", pool_size=20))
        except BaseException as error:
            raise NotHere("no PgBouncer") from error
        ground.workers_url = bouncer.url(ground.fleet.url)
        return ground, fault

    return prepare


def _wired(stack: ExitStack, folder: Path, jobs: int) -> tuple[Ground, Fault]:
    ground, _ = _postgres(faults.restart_workers)(stack, folder, jobs)
    wire, url = stack.enter_context(wire_to(ground.fleet.url))
    ground.workers_url = url
    return ground, partial(cut_network, line=wire)


def _in_a_namespace(stack: ExitStack, folder: Path, jobs: int) -> tuple[Ground, Fault]:
    ground, _ = _postgres(faults.restart_workers)(stack, folder, jobs)
    try:
        namespace, url = stack.enter_context(namespace_to(ground.fleet.url))
    except OSError as error:
        raise NotHere(f"no network namespace can be made: {error}") from error
    ground.workers_url, ground.workers_namespace = url, namespace.name
    return ground, partial(cut_network, line=namespace)


def _small_disk(stack: ExitStack, folder: Path, jobs: int) -> tuple[Ground, Fault]:
    disk = folder / "disk"
    disk.mkdir()
    stack.enter_context(_mounted(disk))
    ground = ground_in(folder, f"sqlite:///{disk}/chaos.db", jobs)
    return ground, faults.fill_disk


@contextmanager
def _mounted(folder: Path) -> Iterator[None]:
    if os.geteuid() != 0:
        raise NotHere("only root may mount a small disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        raise NotHere("a small disk could not be mounted")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


TRIALS = [
    Trial("workers killed", "SQLite", _sqlite(faults.kill_workers)),
    Trial("workers killed", "PostgreSQL", _postgres(faults.kill_workers)),
    Trial("a worker of another host killed", "SQLite", _sqlite(faults.kill_on_another_host)),
    Trial("a worker of another host killed", "PostgreSQL", _postgres(faults.kill_on_another_host)),
    Trial("workers restarted", "SQLite", _sqlite(faults.restart_workers)),
    Trial("workers restarted", "PostgreSQL", _postgres(faults.restart_workers)),
    Trial("a worker frozen past its lease", "SQLite", _sqlite(faults.freeze_worker)),
    Trial("a worker frozen past its lease", "PostgreSQL", _postgres(faults.freeze_worker)),
    Trial("disk full", "SQLite", _small_disk),
    Trial("rows locked by others", "PostgreSQL", _postgres(faults.lock_rows)),
    Trial("sessions terminated", "PostgreSQL", _postgres(faults.terminate_backends)),
    Trial("connections exhausted", "PostgreSQL", _postgres(faults.exhaust_connections, max_connections="60")),
    Trial("network cut", "PostgreSQL", _wired),
    Trial("network cut in a namespace", "PostgreSQL", _in_a_namespace),
    Trial("server restarted", "PostgreSQL", _postgres(faults.restart_server)),
    Trial("server killed", "PostgreSQL", _postgres(faults.kill_server)),
    Trial("server killed", "stock PostgreSQL", _stock(faults.kill_server)),
    Trial("workers killed", "PgBouncer", _bounced(faults.kill_workers)),
    Trial("sessions terminated", "PgBouncer", _bounced(faults.terminate_backends)),
]


async def run(trial: Trial, jobs: int) -> Figures:
    """Raises NotHere where the fault cannot be made."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cortex-chaos-")))
        ground, fault = trial.prepare(stack, folder, jobs)
        stack.enter_context(ground.fleet)
        return await suffer(ground, fault)
