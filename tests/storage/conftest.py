"""The fixtures of the contract serve here too: a scene and a raw client on each store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from tests.contract.support import Raw, Scene, raw_client


@pytest.fixture
def scene(store: Store, clock: ManualClock) -> Scene:
    return Scene(store, clock)


@pytest.fixture
async def raw(store: Store, database_url: str, clock: ManualClock) -> AsyncIterator[Raw]:
    async with raw_client(database_url, clock) as client:
        yield client
