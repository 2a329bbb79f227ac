"""Runs a program's coroutine on the fastest event loop that there is, beside threads that wait for each other briefly."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

Result = TypeVar("Result")

SWITCH_SECONDS = 0.0002
"""How long a thread that needs the interpreter waits before it asks for it. The thread that writes to SQLite takes it for each
row that it reads back, and Python's own 5 ms cost a worker a twelfth of its rate."""

MORE_BEFORE_COLLECTION = 10_000
"""How many more objects there are before Python looks for some that refer to themselves. A worker has thousands under way, none
of which do, and Python's own 700 cost it a quarter of its time."""


def run(program: Coroutine[Any, Any, Result]) -> Result:
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(MORE_BEFORE_COLLECTION, *gc.get_threshold()[1:])
    if find_spec("uvloop") is None:  # Windows, PyPy.
        return asyncio.run(program)
    import uvloop

    return uvloop.run(program)
