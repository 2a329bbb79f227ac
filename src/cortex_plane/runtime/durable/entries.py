"""One recorded call of the journal. What goes without saying is not written: every step writes all entries before it again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

Entry = dict[str, Any]

STEP = "step"
NOTHING = "null"
WITHOUT_ARGUMENTS = hashlib.sha256(b"[[],{}]").hexdigest()[:16]
"""The digest of the input of a call that was given nothing."""


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
