"""One recorded call of the journal, and a tool's. What goes without saying is not written: most entries are written often."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cortex_plane.ports.json_text import embedded

Entry = dict[str, Any]

STEP = "step"
NOTHING = "null"
WITHOUT_ARGUMENTS = hashlib.sha256(b"[[],{}]").hexdigest()[:16]
"""The digest of the input of a call that was given nothing."""


@dataclass(slots=True)
class ToolState:
    """A tool call as `active_tools` shows it. `result` is JSON text; a large one is kept apart, and its entry refers to it."""

    tool_name: str
    invocation_id: str
    input_hash: str
    status: str = "pending"
    result: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "tool_name": self.tool_name,
            "invocation_id": self.invocation_id,
            "status": self.status,
            "input_hash": self.input_hash,
            "result": None if self.result is None else embedded(self.result),
        }


def packed(entry: Entry, result: str | None) -> Entry:
    """As it is written; `result` is the JSON text of what it will hold as its result, if any."""
    if entry["kind"] != STEP:
        return entry
    usual = _usual(entry["order"])
    given = {name: value for name, value in entry.items() if name not in usual or value != usual[name]}
    if result == NOTHING:
        given.pop("result", None)
    return given


def whole(entry: Mapping[str, Any]) -> Entry:
    """As it was before it was packed."""
    return {**entry} if "kind" in entry else {**_usual(entry["order"]), **entry}


def _usual(order: int) -> Entry:
    """A step after steps that were logged, one for each entry: given nothing, with nothing to say."""
    return {"kind": STEP, "input": WITHOUT_ARGUMENTS, "after": order - 1, "result": None}
