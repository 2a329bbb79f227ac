"""A stock PostgreSQL server: the distribution's own binaries with their default settings, JIT included.

The server of the other tests is built without LLVM and set up for speed, so it cannot show what a stock one does.
`CORTEX_TEST_STOCK=1` runs any test on the stock server instead (`make test-stock`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_plane.testing import PostgresCluster

ASKED_FOR = "CORTEX_TEST_STOCK"
CHOSEN = "CORTEX_STOCK_POSTGRES_BIN"
PLACES = "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/pgsql/bin"
MISSING = f"No stock PostgreSQL is installed. Debian: apt-get install postgresql. Elsewhere: set {CHOSEN} to its bin folder."


def stock_binaries() -> Path | None:
    """The newest that is installed, or the one that the environment names."""
    if chosen := os.environ.get(CHOSEN):
        return Path(chosen)
    found = [folder for place in PLACES for folder in Path("/").glob(place[1:]) if (folder / "initdb").exists()]
    return max(found, key=lambda folder: [int(part) for part in str(folder).split("/") if part.isdigit()], default=None)


def stock_cluster(settings: dict[str, str] | None = None) -> Iterator[PostgresCluster]:
    """For a fixture of session or module scope. Skips where no stock server is installed."""
    binaries = stock_binaries()
    if binaries is None:
        pytest.skip(MISSING)
    with PostgresCluster(binaries=binaries, settings=settings, in_memory=True) as cluster:
        yield cluster


if __name__ == "__main__":
    sys.exit(0 if stock_binaries() else MISSING)
