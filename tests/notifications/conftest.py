"""An office for each test, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.support import Raw, raw_client
from tests.notifications.office import Office, open_office


@pytest.fixture
async def office(database_url: str) -> AsyncIterator[Office]:
    async with open_office(database_url) as made:
        yield made


@pytest.fixture
async def raw(office: Office, database_url: str) -> AsyncIterator[Raw]:
    async with raw_client(database_url, office.clock) as client:
        yield client
