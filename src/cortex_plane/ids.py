"""Ids: UUIDv7 generation, derived ids, and the check of an id or its beginning."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from struct import unpack
from uuid import UUID

MOMENT_BITS = 48
LOW_BITS = 128 - MOMENT_BITS
VERSION, VERSION_AT = 0x7, 76
VARIANT, VARIANT_AT = 0b10, 62


def derived_id(origin: str, name: str) -> str:
    """A UUIDv7 of the origin's own moment; all of its other bits come from both texts."""
    moment = UUID(origin).int >> LOW_BITS
    drawn = int.from_bytes(sha256(f"{origin} {name}".encode()).digest()[:10], "big")
    drawn = drawn & ~(0xF << VERSION_AT) | (VERSION << VERSION_AT)
    drawn = drawn & ~(0b11 << VARIANT_AT) | (VARIANT << VARIANT_AT)
    return str(UUID(int=(moment << LOW_BITS) | drawn))


def new_id() -> str:
    """A UUID of version 7 (RFC 9562). Within a process, each is greater than the one before.

    48 bits of milliseconds, a counter of 42 bits that begins at a random value of its lower half each millisecond, 32 random
    bits: the layout of `uuid.uuid7`, which Python has from 3.14 on.
    """
    return _new_id()


class _Ids:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._milliseconds = self._counter = 0
        self._beginning = ""
        self._random: Iterator[int] = iter(())

    def __call__(self) -> str:
        milliseconds = time.time_ns() // 1_000_000
        with self._lock:
            if milliseconds > self._milliseconds:
                self._milliseconds, self._counter = milliseconds, int.from_bytes(os.urandom(6), "big") >> 7
                self._beginning = f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7"
            else:  # The same millisecond, or a clock that was set back.
                self._counter += 1
            beginning, counter = self._beginning, self._counter
            random = next(self._random, None)
            if random is None:  # Random bits are taken in stock: a call of the system for each id would double its cost.
                self._random = iter(unpack("64I", os.urandom(256)))
                random = next(self._random)
        end = (counter & 0xFFFF) << 32 | random
        return f"{beginning}{counter >> 30:03x}-{0x8000 | counter >> 16 & 0x3FFF:04x}-{end:012x}"


_new_id = _Ids()


def _forget_ids() -> None:
    """A forked process must not go on with the counter of its parent, nor wait for a lock that one of its threads held."""
    global _new_id  # noqa: PLW0603
    _new_id = _Ids()


NewId = Callable[[], str]
"""A fresh UUIDv7."""


PART_OF_AN_ID = re.compile(r"[0-9a-f-]{4,36}")
ID_LENGTH = 36
DASHES = (8, 13, 18, 23)


def is_id(text: str) -> bool:
    """A whole one, of whatever it may be."""
    return len(text) == ID_LENGTH and is_part_of_an_id(text)


def is_part_of_an_id(text: str) -> bool:
    return bool(PART_OF_AN_ID.fullmatch(text)) and all((char == "-") == (place in DASHES) for place, char in enumerate(text))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_ids)
