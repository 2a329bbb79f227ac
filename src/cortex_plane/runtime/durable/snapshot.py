"""The checkpoint as it is stored: one JSON document in normal form, with the CRC-32 of everything else in it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from cortex_plane.ports.json_text import dumped, dumps

SCHEMA_VERSION = 1
BEFORE_CRC = ("active_tools", "agent_id", "checkpoint_id")


def sealed(blob: Mapping[str, Any]) -> tuple[str, int]:
    """The document of a checkpoint, and its CRC. All values are in normal form, or embedded text of it.
    Keys are sorted, so the CRC's place is between two halves."""
    tail = {**blob}
    head = {name: tail.pop(name) for name in BEFORE_CRC}
    front, back = dumped(head)[:-1] + b",", dumped(tail)[1:]
    crc = zlib.crc32(back, zlib.crc32(front))
    return (front + b'"crc32":%d,' % crc + back).decode(), crc


def resealed(blob: Mapping[str, Any]) -> str:
    """A changed checkpoint with its CRC put right: for migrations and forks, never for resuming."""
    rest = {name: value for name, value in blob.items() if name != "crc32"}
    return dumps({**rest, "crc32": crc_of(rest)})


def crc_of(rest: Mapping[str, Any]) -> int:
    """Of a checkpoint without its `crc32`, however the database has laid it out."""
    return zlib.crc32(dumped(rest))
