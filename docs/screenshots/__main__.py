"""`python -m docs.screenshots [FOLDER]` photographs every page of the dashboard, in light, in dark and on a phone."""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import structlog
from PIL import Image
from playwright.async_api import Browser, BrowserContext

from cortex_plane.dashboard.app import create_dashboard
from docs.screenshots.chromium import MISSING, find, launched
from docs.screenshots.demo import Demo, demo
from docs.screenshots.pages import Page, pages
from docs.screenshots.serving import served
from docs.screenshots.signing_in import signed_in

FOLDER = Path(__file__).parent.parent / "pictures"
LIGHT = {"viewport": {"width": 1240, "height": 820}, "color_scheme": "light"}
DARK = {"viewport": {"width": 1240, "height": 820}, "color_scheme": "dark"}
PHONE = {"viewport": {"width": 375, "height": 760}, "color_scheme": "light", "device_scale_factor": 2, "is_mobile": True}
LOOKS: dict[str, dict[str, Any]] = {"": LIGHT, "-dark": DARK, "-phone": PHONE}
TALLEST = 1_200
COLOURS = 256


async def shoot(folder: Path, wanted: Sequence[str] = ()) -> list[Path]:
    """`wanted` are names of pages; otherwise all."""
    executable = find()
    if executable is None:
        raise SystemExit(MISSING)
    with tempfile.TemporaryDirectory() as data:
        async with demo(Path(data)) as shown, launched(executable) as browser, served(create_dashboard(shown.front)) as root:
            found = [page for page in pages(shown.places) if not wanted or page.name in wanted]
            return [
                path
                for ending, look in LOOKS.items()
                for path in await _in_one_look(browser, shown, root, found, ending, look, folder)
            ]


async def _in_one_look(
    browser: Browser, shown: Demo, root: str, found: Sequence[Page], ending: str, look: dict[str, Any], folder: Path
) -> list[Path]:
    context = await browser.new_context(base_url=root, locale="en-GB", timezone_id="Europe/Berlin", **look)
    await context.clock.set_fixed_time(shown.plane.clock.moment())
    await signed_in(context, shown.plane, root, "operator")
    made = [await _picture(context, page, folder / f"{page.name}{ending}.png") for page in found]
    await context.close()
    return made


async def _picture(context: BrowserContext, page: Page, path: Path) -> Path:
    tab = await context.new_page()
    await tab.goto(page.address)
    await tab.evaluate("document.fonts.ready")
    height = await tab.evaluate("document.documentElement.scrollHeight")
    width, least = tab.viewport_size["width"], tab.viewport_size["height"]  # type: ignore[index]
    await tab.set_viewport_size({"width": width, "height": max(min(height, TALLEST), least)})
    _keep(await tab.screenshot(animations="disabled", caret="hide"), path)
    await tab.close()
    return path


def _keep(picture: bytes, path: Path) -> None:
    """With few colours: pages have few, and the file is a quarter of the size."""
    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    counted = sorted(whole.getcolors(whole.width * whole.height) or [], reverse=True)
    # The most frequent as they are: surfaces and states keep their colours, and edges of letters take what is near.
    palette = Image.new("P", (1, 1))
    palette.putpalette(bytes(part for _, colour in counted[:COLOURS] for part in cast(tuple[int, int, int], colour)))
    whole.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    target.mkdir(parents=True, exist_ok=True)
    pictures = asyncio.run(shoot(target, sys.argv[2:]))
    print(f"{len(pictures)} pictures are in {target}: {sum(path.stat().st_size for path in pictures) // 1024:,} KB.")
