"""What a run tells while it goes on: lines of its log, how far it is. For people who watch, never for resuming."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple

from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import HistoryEntry, Job, JobId, RunId

EventKind = Literal["log", "progress"]


@dataclass(frozen=True, slots=True)
class NewEvent:
    """`at` is in microseconds since 1970; `data` is JSON text in normal form."""

    job_id: JobId
    run_id: RunId
    at: int
    kind: EventKind
    data: str


@dataclass(frozen=True, slots=True)
class JobEvent:
    seq: int
    job_id: JobId
    run_id: RunId
    at: datetime
    kind: EventKind
    data: Any


# -- following a job ----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Position:
    """How far a job was told: its history, its steps, what its runs said. Whoever has it is told what came later."""

    revision: int = 0
    step_index: int = 0
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.revision}.{self.step_index}.{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Position:
        parts = text.strip().split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
            raise InvalidInput(f"{text!r:.60} is not a position. Give one as it was told, such as 3.2.17.", field="position")
        return cls(*(int(part) for part in parts))


@dataclass(frozen=True, slots=True)
class StateChanged:
    type: ClassVar[str] = "state"
    entry: HistoryEntry


class Mark(NamedTuple):
    """Is another when there is something new to tell of a job."""

    revision: int
    checkpoint_id: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class StepRecorded:
    """As the checkpoint's execution log has it."""

    type: ClassVar[str] = "step"
    index: int
    name: str
    started_at: datetime
    finished_at: datetime
    tool_calls: int
    summary: str


@dataclass(frozen=True, slots=True)
class TokensUsed:
    """All that the job has used so far."""

    type: ClassVar[str] = "tokens"
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class LineLogged:
    type: ClassVar[str] = "log"
    run_id: RunId
    level: str
    message: str
    data: Any


@dataclass(frozen=True, slots=True)
class ProgressMade:
    type: ClassVar[str] = "progress"
    run_id: RunId
    done: Any
    total: Any
    text: str


@dataclass(frozen=True, slots=True)
class NothingNew:
    """A look found nothing. Tells that the stream is alive, and how the job stands."""

    type: ClassVar[str] = "nothing"
    job: Job


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The last of a stream: everything was told."""

    type: ClassVar[str] = "ended"
    job: Job


News = StateChanged | StepRecorded | TokensUsed | LineLogged | ProgressMade | NothingNew | JobEnded


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """`position` is where to go on from once this was read."""

    at: datetime
    position: Position
    news: News


def as_document(told: TimedEvent) -> dict[str, Any]:
    """The same for every door: one flat object whose `type` says what else it holds."""
    head = {"type": told.news.type, "position": str(told.position), "at": told.at}
    match told.news:
        case StateChanged(entry):
            return head | {
                "status": entry.new_status,
                "previous_status": entry.previous_status,
                "cause": entry.cause,
                "actor": entry.actor,
                "run_id": entry.run_id,
                "details": entry.metadata,
            }
        case NothingNew(job):
            return head | {"status": job.status}
        case JobEnded(job):
            return head | {
                "status": job.status,
                "output": job.output,
                "error": job.error,
                "error_message": job.error_message,
                "cost_cents": job.cost_cents,
            }
        case news:
            return head | {name: getattr(news, name) for name in news.__slots__}
