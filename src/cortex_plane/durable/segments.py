"""Sealed segments: the older entries of a long record, each with its own SHA-256 and that of its predecessor.

    document ──▶ segment 3 ──▶ segment 2 ──▶ segment 1          the document names the newest; nothing in a segment ever changes

A segment holds log entries, tool calls and recorded calls. Whoever reads puts them together in order, the document last: of a
call that was recorded several times, the newest counts; what was recorded inside a finished step no longer does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cortex_plane.durable.schema import RESERVED, STEP, STEPS, Blob, Entry
from cortex_plane.errors import CheckpointCorrupted
from cortex_plane.json import dumps, embedded, loads

SEAL_ABOVE_BYTES = 4096
"""A document that is longer is relieved of its settled entries. Up to there it stays in its row on PostgreSQL."""
SMALLEST_BYTES = 2048
"""The minimum size of a segment. If the settled entries are smaller, the document is long because of the agent's memory."""
LARGEST_BYTES = 256 * 1024

Part = dict[str, Any]
PARTS = {"execution_log": list, "active_tools": list, "steps": dict}

_AROUND = re.compile(r"(?<=#)\d+(?=(?:\[\d+\])?/)")
"""Where in an identity a call around it ends. Names have no `#`."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The segments of a document and their content. `first` is above 1 after a record was started over."""

    first: int = 1
    last: int = 0
    steps: int = 0
    logged: int = 0
    sha256: str | None = None

    @classmethod
    def of(cls, blob: Mapping[str, Any]) -> Sealed:
        engine = blob["memory_context"].get("working_data", {}).get(RESERVED) or {}
        named = engine.get("sealed")
        return cls(**named) if named is not None else cls()

    def anew(self) -> Sealed:
        """For a record that starts over: numbers are not reused."""
        return Sealed(first=self.last + 1, last=self.last)

    def as_json(self) -> dict[str, Any]:
        return {"first": self.first, "last": self.last, "steps": self.steps, "logged": self.logged, "sha256": self.sha256}

    def sealing(self, log: Sequence[str], tools: Sequence[str], steps: Mapping[str, str]) -> tuple[Sealed, Blob]:
        """Builds the next segment from JSON texts, and the reference for the document."""
        seq = self.last + 1
        content = dumps(
            {
                "seq": seq,
                "previous": self.sha256,
                "execution_log": [embedded(text) for text in log],
                "active_tools": [embedded(text) for text in tools],
                "steps": {key: embedded(text) for key, text in steps.items()},
            }
        )
        digest = hashlib.sha256(content.encode()).hexdigest()
        named = Sealed(self.first, seq, self.steps + len(steps), self.logged + len(log), digest)
        return named, Blob(digest, content, seq)


NOTHING_SEALED = Sealed()


def opened(named: Sealed, found: Sequence[Blob]) -> list[Part]:
    """The contents of the segments that a document names, checked. CheckpointCorrupted where one is not as it was sealed."""
    wanted = [segment for segment in found if segment.seq is not None and segment.seq >= named.first]
    parts, previous = [], None
    for number, segment in zip(range(named.first, named.last + 1), wanted, strict=False):
        parts.append(_opened(number, segment, previous))
        previous = segment.sha256
    if len(parts) < named.last - named.first + 1:
        raise CheckpointCorrupted("segment_missing", f"segment {named.first + len(parts)} of {named.last} is not in job_blob.")
    if len(wanted) > len(parts):
        raise CheckpointCorrupted(
            "segment_unknown", f"segment {wanted[len(parts)].seq} is in job_blob, and the checkpoint ends with {named.last}."
        )
    if previous != named.sha256:
        raise CheckpointCorrupted("segment_replaced", f"segment {named.last} is not the one that the checkpoint names.")
    return parts


def _opened(number: int, segment: Blob, previous: str | None) -> Part:
    if segment.seq != number:
        raise CheckpointCorrupted("segment_missing", f"segment {number} is not in job_blob.")
    if hashlib.sha256(segment.content.encode()).hexdigest() != segment.sha256:
        raise CheckpointCorrupted("segment_changed", f"segment {number} in job_blob is not what was written.")
    try:
        part = loads(segment.content)
        fits = all(type(part[name]) is kind for name, kind in PARTS.items())
        order = part["seq"], part["previous"]
    except (ValueError, TypeError, LookupError):
        fits, order = False, None
    if not fits:
        raise CheckpointCorrupted("segment_shape", f"segment {number} in job_blob is no segment of a checkpoint.")
    if order != (number, previous):
        raise CheckpointCorrupted("segment_out_of_order", f"segment {number} does not follow the one before it.")
    return {**part, "sha256": segment.sha256}


def put_together(document: Mapping[str, Any], parts: Iterable[Part]) -> Part:
    """The three lists of a record, of its document and the contents of its segments."""
    log: list[Any] = []
    steps: dict[str, Entry] = {}
    sealed_tools: dict[str, Any] = {}
    for part in parts:
        log += part["execution_log"]
        steps.update(part["steps"])
        sealed_tools.update((tool["invocation_id"], tool) for tool in part["active_tools"])
    engine = document["memory_context"].get("working_data", {}).get(RESERVED) or {}
    steps.update(engine.get("steps", {}))
    steps = _counting({key: entry for key, entry in steps.items() if "again" not in entry})
    wanted = {entry["invocation"] for entry in steps.values() if "invocation" in entry}
    tools = {key: tool for key, tool in sealed_tools.items() if key in wanted}
    tools.update((tool["invocation_id"], tool) for tool in document["active_tools"])
    return {"execution_log": [*log, *document["execution_log"]], "active_tools": list(tools.values()), "steps": steps}


def around(key: str) -> list[str]:
    """The identities of the calls that contain a call."""
    return [key[: found.end()] for found in _AROUND.finditer(key)]


def _counting(steps: dict[str, Entry]) -> dict[str, Entry]:
    """Drops calls recorded inside a step that has completed: the step's result answers for them."""
    finished = {key for key, entry in steps.items() if "error" not in entry and entry.get("kind", STEP) in STEPS}
    return {key: entry for key, entry in steps.items() if key.count("#") == 1 or not any(one in finished for one in around(key))}
