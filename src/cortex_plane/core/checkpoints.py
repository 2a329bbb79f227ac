"""A snapshot of a job's progress as storage sees it: a document, the large results that it refers to, and the fence."""

from __future__ import annotations

from dataclasses import dataclass

from cortex_plane.core.jobs import AgentId, JobId, RunId


@dataclass(frozen=True, slots=True)
class Blob:
    """A large result, as JSON text in normal form; the checkpoint refers to it by its SHA-256 (64 hexadecimal digits)."""

    sha256: str
    content: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`document` is JSON text in normal form. It applies only while `run_id` is the job's open run and `previous_id` the
    checkpoint that the job has, and adds what was spent since that one to the job's cost."""

    job_id: JobId
    run_id: RunId
    checkpoint_id: str
    previous_id: str | None
    document: str
    blobs: tuple[Blob, ...] = ()
    cost_cents: int = 0


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """As it is in the database, unchecked: anybody may have changed the document since it was written."""

    job_id: JobId
    agent_id: AgentId
    job_type: str
    checkpoint_id: str | None
    document: str
