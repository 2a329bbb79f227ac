"""A house for each test, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cortex_plane.approvals import http_channels as channel_callbacks
from tests.contract.support import Raw, raw_client
from tests.doors.house import House, Person, open_house


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is slow, not wrong."""
    monkeypatch.setattr(channel_callbacks, "PATIENCE_SECONDS", 60.0)


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    async with open_house(database_url) as made:
        yield made


@pytest.fixture
async def alice(house: House) -> Person:
    return await house.person("alice", "approver", "viewer")


@pytest.fixture
async def bob(house: House) -> Person:
    return await house.person("bob", "approver", "viewer")


@pytest.fixture
async def raw(house: House, database_url: str) -> AsyncIterator[Raw]:
    async with raw_client(database_url, house.plane.clock) as client:
        yield client
