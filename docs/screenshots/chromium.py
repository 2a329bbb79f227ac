"""The browser in which the dashboard is tested and photographed: one that is installed already. We install none.

`python -m docs.screenshots.chromium` says in one line which one it is, or that it is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, async_playwright

SETTING = "CORTEX_TEST_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = (
    "There is no Chromium here, so the dashboard is not tested in a browser. "
    f"Install chromium (Debian: apt-get install chromium fonts-liberation), or name one in {SETTING}."
)


def find() -> str | None:
    named = os.environ.get(SETTING)
    if named:
        return named if Path(named).is_file() else None
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@asynccontextmanager
async def launched(executable: str) -> AsyncIterator[Browser]:
    """Without a sandbox where root starts it: Chromium refuses otherwise."""
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=as_root)
        try:
            yield browser
        finally:
            await browser.close()


def describe() -> str:
    return f"The dashboard is tested in {found}." if (found := find()) else MISSING


if __name__ == "__main__":
    print(describe(), file=sys.stderr)
