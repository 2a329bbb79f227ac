"""Three agents in one file: an async function, a plain function, and a program.

In one terminal:      cortex worker examples/hello.py
In another:           cortex jobs submit greet name=Ada --wait
                      cortex jobs submit count-words text="to be or not to be" --wait
                      cortex jobs submit list-folder folder=. --wait
"""

from __future__ import annotations

import asyncio
from collections import Counter

from cortex_plane import Context, Plane

plane = Plane()  # Keeps everything in cortex.db, or where CORTEX_DATABASE_URL says.


@plane.agent("greet")
async def greet(ctx: Context, name: str = "world") -> str:
    """Async functions run side by side in one event loop."""
    await asyncio.sleep(1)  # Stands for a call to a model, or to another service.
    return f"Hello, {name}!"


@plane.agent("count-words", max_retries=1)
def count_words(ctx: Context, text: str) -> dict[str, int]:
    """Plain functions run in threads, so they may block."""
    return Counter(text.split())


# Programs run in a folder of their own; what they print is kept in a log file.
list_folder = plane.command("list-folder", ["ls", "-l", "{folder}"])
