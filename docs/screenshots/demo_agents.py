"""The agents of the demo: a release that people approve, invoices that sometimes fail, reports, tickets."""

from __future__ import annotations

import asyncio
import random

from cortex_plane import Context, PermanentFailure
from cortex_plane.testing import TestPlane

LARGE = 10_000


class Agents:
    """Their work takes time on the clock of the plane, and none of ours; after `never_end()`, it takes for ever."""

    def __init__(self, plane: TestPlane) -> None:
        self._plane = plane
        self._chance = random.Random(11)
        self._ends = True
        plane.agent("release", queue="releases", max_retries=2)(self.release)
        plane.agent("invoice", queue="billing", max_retries=2)(self.invoice)
        plane.agent("report", queue="reports", max_retries=1)(self.report)
        plane.agent("ticket", max_retries=1)(self.ticket)

    def never_end(self) -> None:
        self._ends = False

    async def release(self, ctx: Context, version: str) -> str:
        ctx.log.info("building", version=version)
        image: str = await ctx.step("build", self._build, version)
        ctx.progress(1, 4, "built")
        tests = await ctx.step("test", self._test)
        ctx.progress(2, 4, "tested")
        ctx.log.info("tests are green", **tests)
        details = {"image": image, "replicas": 3, **tests}
        answer = await ctx.approval(f"Deploy {version} to production", details=details, editable=["replicas"])
        ctx.log.info("approved", by=answer.decided_by)
        live: str = await ctx.tool("deploy", self._deploy, answer.details["image"])
        ctx.progress(4, 4, "live")
        return live

    async def invoice(self, ctx: Context, number: int = 1000, amount: int = 480) -> str:
        await ctx.step("read", self._takes, 1.2)
        ctx.usage(prompt_tokens=1_840, completion_tokens=212, cents=2)
        ctx.log.info("read", number=number, amount=amount)
        if amount >= LARGE:
            await ctx.approval(f"Pay invoice INV-{number}", details={"amount": amount, "currency": "EUR"}, editable=["amount"])
        await ctx.step("match", self._takes, 2.5)
        if self._ends and self._chance.random() < 0.14:
            ctx.log.warning("no order fits", number=number)
            raise PermanentFailure(f"Invoice INV-{number} fits no order")
        await ctx.tool("book", self._takes, 0.8)
        return f"INV-{number} is booked"

    async def report(self, ctx: Context, number: int = 0) -> str:
        await ctx.step("collect", self._takes, 6.0)
        if self._ends and ctx.attempt == 1 and self._chance.random() < 0.3:
            ctx.log.warning("slow answer", service="warehouse")
            raise ConnectionError("The warehouse did not answer within 5 s")
        await ctx.step("summarise", self._takes, 9.0)
        ctx.usage(prompt_tokens=6_200, completion_tokens=900, cents=7)
        return f"Report {number} is sent"

    async def ticket(self, ctx: Context, number: int = 0) -> str:
        await ctx.step("classify", self._takes, 0.7)
        ctx.usage(prompt_tokens=420, completion_tokens=12, cents=1)
        return "question"

    async def _build(self, version: str) -> str:
        if self._ends:
            await self._takes(41)
        return f"registry.example.com/shop:{version}"

    async def _test(self) -> dict[str, int]:
        await self._takes(68)
        return {"passed": 412, "failed": 0}

    async def _deploy(self, image: str) -> str:
        await self._takes(17)
        return f"{image} is live"

    async def _takes(self, seconds: float) -> None:
        if not self._ends:
            await asyncio.Event().wait()
        await self._plane.clock.advance(seconds=seconds * self._chance.uniform(0.5, 1.8))
