"""Ids: UUIDv7 generation, derived ids, and validation of ids and id prefixes."""

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
    """A deterministic UUIDv7: the timestamp of `origin`, and the hash of `origin` and `name` in all other bits."""
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
            if random is None:  # Random bits are buffered: a system call for each id would double its cost.
                self._random = iter(unpack("64I", os.urandom(256)))
                random = next(self._random)
        end = (counter & 0xFFFF) << 32 | random
        return f"{beginning}{counter >> 30:03x}-{0x8000 | counter >> 16 & 0x3FFF:04x}-{end:012x}"


_new_id = _Ids()


def _forget_ids() -> None:
    """Resets the generator after a fork: a child must not reuse the counter, or wait for a lock held by a parent thread."""
    global _new_id  # noqa: PLW0603
    _new_id = _Ids()


NewId = Callable[[], str]
"""A function that returns a new UUIDv7."""


PART_OF_AN_ID = re.compile(r"[0-9a-f-]{4,36}")
ID_LENGTH = 36
DASHES = (8, 13, 18, 23)


def is_id(text: str) -> bool:
    """Whether the text is a complete id, of any kind."""
    return len(text) == ID_LENGTH and is_part_of_an_id(text)


def is_part_of_an_id(text: str) -> bool:
    """Whether the text is an id or the first 4 or more characters of one."""
    return bool(PART_OF_AN_ID.fullmatch(text)) and all((char == "-") == (place in DASHES) for place, char in enumerate(text))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_ids)
