"""Runs a program's coroutine on the fastest event loop that there is, beside threads that wait for each other briefly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

Result = TypeVar("Result")

SWITCH_SECONDS = 0.0002
"""How long a thread that needs the interpreter waits before it asks for it. The thread that writes to SQLite takes it for each
row that it reads back, and Python's own 5 ms cost a worker a twelfth of its rate."""


def run(program: Coroutine[Any, Any, Result]) -> Result:
    sys.setswitchinterval(SWITCH_SECONDS)
    if find_spec("uvloop") is None:  # Windows, PyPy.
        return asyncio.run(program)
    import uvloop

    return uvloop.run(program)
