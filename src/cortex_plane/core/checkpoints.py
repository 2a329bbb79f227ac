"""A snapshot of a job's progress as storage sees it: a document, the large results that it refers to, and the fence.

A long document is not written anew at every step. Beside the one that was written whole, the job's row has what the newest
adds to it: a document of the same shape, whose lists hold only what is new.

    whole ──▶ whole + added ──▶ whole + added more ──▶ ... ──▶ whole
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cortex_plane.core.jobs import AgentId, JobId, RunId

RESERVED = "$cortex"
"""The key of the working data under which the engine keeps its own journal."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A large result, as JSON text in normal form; the checkpoint refers to it by its SHA-256 (64 hexadecimal digits)."""

    sha256: str
    content: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`document` is JSON text in normal form. It applies only while `run_id` is the job's open run and `previous_id` the
    checkpoint that the job has, and adds what was spent since that one to the job's cost.

    `added`, if given, is what the document adds to one of its predecessors that was written whole; it is written instead."""

    job_id: JobId
    run_id: RunId
    checkpoint_id: str
    previous_id: str | None
    document: str
    blobs: tuple[Blob, ...] = ()
    cost_cents: int = 0
    added: str | None = None

    @property
    def whole(self) -> str | None:
        """The document, if it is to be written."""
        return self.document if self.added is None else None


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """As it is in the database, unchecked: anybody may have changed the document since it was written."""

    job_id: JobId
    agent_id: AgentId
    job_type: str
    checkpoint_id: str | None
    document: str
    added: str | None = None


def put_together(whole: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """The document of which `added` was made. `whole` is the one that it was added to, or a later one that took its place.
    Raises LookupError, TypeError or AttributeError where they are not of the shape that they were written in."""
    rest = {name: value for name, value in added.items() if name != "log_from"}
    log_from = added["log_from"]
    if type(log_from) is not int or not 0 <= log_from <= len(whole["execution_log"]):
        raise LookupError(f"log_from is {log_from!r}")
    before, after = whole["memory_context"], added["memory_context"]
    known = after["working_data"] if "accumulated_facts" in after else before["working_data"]
    engine = after["working_data"][RESERVED]
    steps = {**before["working_data"][RESERVED]["steps"], **engine["steps"]}
    tools = {tool["invocation_id"]: tool for tool in (*whole["active_tools"], *added["active_tools"])}
    return {
        **rest,
        "active_tools": list(tools.values()),
        "execution_log": [*whole["execution_log"][:log_from], *added["execution_log"]],
        "memory_context": {**before, **after, "working_data": {**known, RESERVED: {**engine, "steps": steps}}},
    }
