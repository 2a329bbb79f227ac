"""What holds for every page: nothing to scroll sideways, names for all that can be used, colours that can be read.

axe-core, from the wheel of axe-playwright-python, looks for what shuts people out; beside it, what it does not look at.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from playwright.async_api import Page

# Every rule of WCAG 2.2 A and AA, and what is good practice: headings in order, one main part, everything in a landmark.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN_AXE = """async (rules) => {
  const { violations } = await axe.run(document, { runOnly: rules });
  const told = (id, node) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 300)}`;
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => told(id, node)));
}"""
# What lies beyond the right edge and is not kept in by something that clips or scrolls.
BEYOND = """() => {
  const width = document.documentElement.clientWidth;
  const isKept = (element) => {
    for (let box = element.parentElement; box && box !== document.body; box = box.parentElement) {
      if (getComputedStyle(box).overflowX !== "visible") return true;
    }
    return false;
  };
  return [...document.body.querySelectorAll("*")]
    .filter((element) => element.getClientRects().length && element.getBoundingClientRect().right > width + 1 && !isKept(element))
    .map((element) => `${element.tagName} ${element.className} ends at ${element.getBoundingClientRect().right}`);
}"""
# Of cards: whatever is drawn over their edge looks broken, even where the page does not scroll.
OVER_THE_EDGE = """() => [...document.querySelectorAll(".card:not(.flush)")].flatMap((card) => {
  const edge = card.getBoundingClientRect().right;
  return [...card.querySelectorAll("*")]
    .filter((element) => !element.closest(".popup, pre, .log") && element.getClientRects().length)
    .filter((element) => element.getBoundingClientRect().right > edge + 1)
    .filter((element) => getComputedStyle(element.parentElement).overflowX === "visible")
    .map((element) => `${element.tagName} ${element.className}: ${element.textContent.slice(0, 60)}`);
})"""

# What lists, which may scroll, would hide.
SCROLLED = """() => [...document.querySelectorAll(".flush")]
  .filter((card) => card.scrollWidth > card.clientWidth + 1)
  .map((card) => `a list is ${card.scrollWidth} wide in ${card.clientWidth}`)"""


@cache
def axe_source() -> str:
    package = find_spec("axe_playwright_python")
    assert package is not None
    assert package.origin is not None
    return (Path(package.origin).parent / "axe.min.js").read_text()


async def barriers(page: Page, only: str = "") -> list[str]:
    """What axe-core finds, by all rules or by one. Evaluated from outside, so the policy of the page need not allow it."""
    await page.evaluate(axe_source())
    found: list[str] = await page.evaluate(
        RUN_AXE, {"type": "rule", "values": [only]} if only else {"type": "tag", "values": RULES}
    )
    return found


async def too_wide(page: Page) -> list[str]:
    scrolls: bool = await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    beyond: list[Any] = await page.evaluate(BEYOND)
    over: list[Any] = await page.evaluate(OVER_THE_EDGE)
    hidden: list[Any] = await page.evaluate(SCROLLED)
    return [*(["the page scrolls sideways"] if scrolls else []), *map(str, beyond[:5]), *map(str, over[:5]), *map(str, hidden)]


async def reached_by_tab(page: Page, most: int = 200) -> set[str]:
    """The outer text or name of everything that Tab leads to, until it begins anew."""
    reached: list[str] = []
    for _ in range(most):
        await page.keyboard.press("Tab")
        found: str | None = await page.evaluate(
            """() => {
              const here = document.activeElement;
              if (!here || here === document.body) return null;
              if (here.dataset.wasReached) return null;
              here.dataset.wasReached = "yes";
              return (here.getAttribute("aria-label") || here.innerText || here.name || here.tagName).trim();
            }"""
        )
        if found is None:
            break
        reached.append(found)
    return set(reached)
