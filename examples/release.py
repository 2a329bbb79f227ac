"""An agent to look at: steps that take a while, a tool, a question to a person. Kill its worker in the middle and it goes on.

    cortex dev examples/release.py

Open the link, then: Jobs, New job, release-bot, {"version": "1.4.0"}
"""

from __future__ import annotations

import asyncio
import random

from cortex_plane import Context, Plane

plane = Plane()


async def build_image(version: str) -> str:
    await asyncio.sleep(3)
    return f"registry.example.com/shop:{version}"


async def run_tests(image: str) -> dict[str, int]:
    await asyncio.sleep(4)
    return {"passed": 412, "failed": 0}


async def deploy(image: str) -> str:
    await asyncio.sleep(2)
    return f"{image} is live"


@plane.agent("release-bot")
async def release(ctx: Context, version: str = "1.4.0") -> str:
    ctx.log.info("building", version=version)
    image = await ctx.step("build", build_image, version)
    ctx.progress(1, 3, "built")
    ctx.log.info("testing", image=image)
    tests = await ctx.step("test", run_tests, image)
    ctx.progress(2, 3, "tested")
    approval = await ctx.approval(f"Deploy {version} to production", details={"image": image, **tests}, editable=["image"])
    live: str = await ctx.tool("deploy", deploy, image=approval.details["image"])
    ctx.progress(3, 3, "live")
    return live


@plane.agent("flaky", max_retries=2)
async def flaky(ctx: Context, chance: float = 0.5) -> str:
    """Fails as often as it is told to, to see retries."""
    ctx.log.info("trying", attempt=ctx.attempt)
    await asyncio.sleep(0.5)
    if random.random() < chance:
        ctx.log.warning("no luck")
        raise RuntimeError("No luck this time")
    return "lucky"
