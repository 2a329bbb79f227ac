"""Runs a program's coroutine on the fastest event loop that this platform has."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(program: Coroutine[Any, Any, Result]) -> Result:
    if find_spec("uvloop") is None:  # Windows, PyPy.
        return asyncio.run(program)
    import uvloop

    return uvloop.run(program)
