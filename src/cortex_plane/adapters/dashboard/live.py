"""Tells open pages that it is time to look again. What they then see is drawn anew from the database, by any server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter

from cortex_plane.adapters.http.access import ThePlane, known
from cortex_plane.adapters.http.routes.job_events import EventStream
from cortex_plane.core.access import Caller
from cortex_plane.core.errors import CortexError
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False)

AT_MOST_EVERY_SECONDS = 1.5
AT_LEAST_EVERY_SECONDS = 5.0


@router.get("/live", response_class=EventStream)
async def ticks(_caller: Annotated[Caller, known()], plane: ThePlane) -> EventStream:
    return EventStream(_ticks(plane))


async def _ticks(plane: Plane) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    try:
        signals = (await plane.store).signals
    except CortexError:
        return
    woken = asyncio.Event()
    signals.subscribe(woken)
    try:
        while True:
            await asyncio.sleep(AT_MOST_EVERY_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(AT_LEAST_EVERY_SECONDS - AT_MOST_EVERY_SECONDS):
                    await woken.wait()
            woken.clear()
            yield "event: tick\ndata: {}\n\n"
    finally:
        signals.unsubscribe(woken)
