"""Where measured systems keep their data: a PostgreSQL server that syncs every commit, and files on a real disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cortex_plane.testing import PostgresCluster

DURABLE = {"fsync": "on", "synchronous_commit": "on", "shared_buffers": "512MB", "max_wal_size": "4GB"}


def durable_cluster(**settings: str) -> PostgresCluster:
    return PostgresCluster(version=18, settings={**DURABLE, **settings})


@contextmanager
def fresh_database(cluster: PostgresCluster, template: str = "template1") -> Iterator[str]:
    """Gone afterwards. Copied file by file, so that a large template leaves nothing to be flushed during a measurement."""
    cluster.execute(f'create database bench template "{template}" strategy file_copy')
    try:
        yield cluster.url("bench")
    finally:
        cluster.drop_database("bench")


@contextmanager
def fresh_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cortex-bench-") as folder:
        yield Path(folder)
