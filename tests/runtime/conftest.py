"""A plane that goes by real time, for what has to do with leases and processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cortex_plane import Plane, Settings
from cortex_plane.storage.postgres import signals as postgres_signals
from cortex_plane.storage.sqlite.signals import SqliteSignals

NEVER_SECONDS = 3600.0


@pytest.fixture
async def live_plane(database_url: str, tmp_path: Path) -> AsyncIterator[Plane]:
    """Short leases, a short grace, and the machine's own clock."""
    settings = Settings(database_url=database_url, data_dir=str(tmp_path / "files"), lease_seconds=0.9, grace_seconds=0.3)
    async with Plane(settings=settings) as plane:
        yield plane


@pytest.fixture
def nobody_looks_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is noticed under this, a signal has told: the next look without one comes when the test has long been given up."""
    monkeypatch.setattr(SqliteSignals, "poll_seconds", NEVER_SECONDS)
    monkeypatch.setattr(postgres_signals, "POLL_WITH_PUSH_SECONDS", NEVER_SECONDS)
