"""The checkpoint as it is stored: one JSON document in normal form, with the CRC-32 of everything else in it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from cortex_plane.ports.json_text import dumped, dumps

SCHEMA_VERSION = 1


def document(
    *,
    checkpoint_id: str,
    agent_id: str,
    created_at: str,
    step_index: int,
    step_id: str,
    status: str,
    active_tools: Sequence[Any],
    memory_context: Mapping[str, Any],
    execution_log: Sequence[Any],
) -> str:
    """Everything given is in normal form, or embedded text of it. Keys are sorted, so the CRC's place is between two halves."""
    head = dumped({"active_tools": active_tools, "agent_id": agent_id, "checkpoint_id": checkpoint_id})
    tail = dumped(
        {
            "created_at": created_at,
            "execution_log": execution_log,
            "memory_context": memory_context,
            "schema_version": SCHEMA_VERSION,
            "status": status,
            "step_id": step_id,
            "step_index": step_index,
        }
    )
    front, back = head[:-1] + b",", tail[1:]
    crc = zlib.crc32(back, zlib.crc32(front))
    return (front + b'"crc32":%d,' % crc + back).decode()


def resealed(blob: Mapping[str, Any]) -> str:
    """A changed checkpoint with its CRC put right: for migrations and forks, never for resuming."""
    rest = {name: value for name, value in blob.items() if name != "crc32"}
    return dumps({**rest, "crc32": crc_of(rest)})


def crc_of(rest: Mapping[str, Any]) -> int:
    """Of a checkpoint without its `crc32`, however the database has laid it out."""
    return zlib.crc32(dumped(rest))
