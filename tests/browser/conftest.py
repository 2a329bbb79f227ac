"""The dashboard in a real browser: one for all tests of a process, a fresh profile and a fresh plane for each."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect

from docs.screenshots.chromium import MISSING, find, launched
from tests.browser.house import House, house_on

# Two cores, and others who work beside: what is slow is not wrong.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    executable = find()
    if executable is None:
        pytest.skip(MISSING)
    async with launched(executable) as browser:
        yield browser


@pytest.fixture
async def house(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """On SQLite."""
    folder = tmp_path_factory.mktemp("house")
    async with house_on(f"sqlite:///{folder}/test.db", browser, folder) as house:
        yield house


@pytest.fixture
async def either_house(browser: Browser, database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """On SQLite, then on PostgreSQL."""
    async with house_on(database_url, browser, tmp_path_factory.mktemp("house")) as house:
        yield house
