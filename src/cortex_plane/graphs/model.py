"""State of graph threads, and questions to people. Packed values are read by the executor only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cortex_plane.jobs.model import JobId, RunId

LAST_TEXT = "\U0010ffff"
"""After every id and namespace."""


class Holder(NamedTuple):
    """The run that writes. Writes of a superseded run are rejected."""

    job_id: JobId
    run_id: RunId


class Packed(NamedTuple):
    """Bytes, and how they were written."""

    kind: str
    content: bytes


@dataclass(frozen=True, slots=True)
class NewGraphCheckpoint:
    thread_id: str
    namespace: str
    checkpoint_id: str
    parent_id: str | None
    run_id: str | None
    body: Packed
    channels: Mapping[str, str]
    """The version of each channel."""
    metadata: str
    """JSON text."""
    values: Mapping[str, Packed]
    """The channels with a new value."""


@dataclass(frozen=True, slots=True)
class GraphWrite:
    thread_id: str
    namespace: str
    checkpoint_id: str
    task_id: str
    place: int
    """Among the writes of its task; below 0 for errors, interrupts and answers to them, of which the last one counts."""
    channel: str
    task_path: str
    packed: Packed


@dataclass(frozen=True, slots=True)
class GraphCheckpoint:
    thread_id: str
    namespace: str
    checkpoint_id: str
    parent_id: str | None
    body: Packed
    metadata: str
    values: Mapping[str, Packed]
    writes: Sequence[GraphWrite]


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """Selects checkpoints of a thread: None matches any. `filter` is JSON that the metadata must contain."""

    thread_id: str
    namespace: str | None = None
    checkpoint_id: str | None = None
    before: tuple[str, str] = (LAST_TEXT, LAST_TEXT)
    """Id and namespace that all of them come before."""
    filter: str = "{}"


# -- questions -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Question:
    """A decision that a person must make before the graph continues."""

    id: str
    """Stable until the question is answered, and unique in the thread."""
    summary: str
    details: Any = None
    editable: bool = False


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    approved: bool
    decided_by: str | None = None
    reason: str | None = None
    details: Any = None
    """As they were shown, or as the person changed them."""


@dataclass(frozen=True, slots=True)
class Asks:
    """The graph waits for the answers to all of these."""

    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Ended:
    output: Any


Reached = Asks | Ended
