"""The browser in which the dashboard is tested and photographed: one that is here already, or one that apt can bring.

`python -m docs.screenshots.chromium` brings one where that is possible, and says in one line how it went.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, async_playwright

SETTING = "CORTEX_TEST_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")
APT_SECONDS = 300
MISSING = (
    "There is no Chromium here, so the dashboard is not tested in a browser. "
    f"Install chromium, or name one in {SETTING}; as root on Debian, make test installs it."
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


def bring() -> str:
    """What to tell. Nothing is fetched where a browser is here, or where apt may not install one."""
    if (found := find()) is not None:
        return f"The dashboard is tested in {found}."
    if os.environ.get(SETTING) or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return MISSING
    print("Installing Chromium, once, to test the dashboard in it …", flush=True)
    try:
        _apt("update")
        _apt("install", "--yes", "--no-install-recommends", "chromium", "fonts-liberation")
    except (subprocess.SubprocessError, OSError) as error:
        return f"apt-get could not install Chromium ({error!s:.200}). {MISSING}"
    return bring() if find() else MISSING


def _apt(*words: str) -> None:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "-qq", *words], env=quiet, timeout=APT_SECONDS, check=True, capture_output=True)


if __name__ == "__main__":
    print(bring(), file=sys.stderr)
