"""Fixtures of the contract: a scene and a raw client on each store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from tests.contract.approval_scene import Desk
from tests.contract.sessions import Four, sessions
from tests.contract.support import Raw, Scene, raw_client


@pytest.fixture
def scene(store: Store, clock: ManualClock) -> Scene:
    return Scene(store, clock)


@pytest.fixture
async def raw(store: Store, database_url: str, clock: ManualClock) -> AsyncIterator[Raw]:
    async with raw_client(database_url, clock) as client:
        yield client


@pytest.fixture
def desk(scene: Scene, raw: Raw) -> Desk:
    """Where approvals are asked for and decided."""
    return Desk(scene, raw)


@pytest.fixture
async def four(database_url: str, scene: Scene) -> AsyncIterator[Four]:
    """Four connections to PostgreSQL; the test decides who commits when."""
    async with sessions(database_url, 4) as [a, b, c, d]:
        yield a, b, c, d
