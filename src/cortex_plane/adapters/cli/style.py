"""Colours without a library, for what must be printed at once. Only in a terminal, and never against NO_COLOR."""

from __future__ import annotations

import os
from typing import TextIO

CODES = {"bold": "1", "dim": "2", "red": "1;31", "cyan": "36"}


def colours_wanted(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str, stream: TextIO) -> str:
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if colours_wanted(stream) else text
