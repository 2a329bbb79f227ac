"""One fleet of worker processes for each test, on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.fleet import Fleet


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(database_url, tmp_path) as fleet:
        yield fleet
