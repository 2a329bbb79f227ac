"""Jobs that belong together: where a group stands, and what is due for it. Both follow from its members alone.

a member fails for good   stop: all others are cancelled; skip: those that have not begun are; continue: nothing
nothing is under way      sequential: the next member is let go
no member is open         the group is finished, and its callback is submitted
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NewType

from cortex_plane.agents.model import AgentConfig
from cortex_plane.errors import Conflict, CortexError, NotFound
from cortex_plane.jobs.model import INTERNAL_QUEUE, JobId, NewJob, TenantId
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus

GroupId = NewType("GroupId", str)
GroupMode = Literal["parallel", "sequential"]
OnFailure = Literal["stop", "continue", "skip"]

LARGEST_GROUP = 10_000
GROUP_AGENT = "cortex.group"
# Tried for as long as it takes: a look that is given up would leave its group where it stands.
GROUP_AGENT_CONFIG = AgentConfig(
    queue=INTERNAL_QUEUE, retry=RetryPolicy("in_place", 100, Backoff(max_seconds=60.0)), crash_limit=1_000
)


class GroupStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Step(StrEnum):
    """What is due for a group."""

    STOP = "stop"
    SKIP = "skip"
    LET_GO = "let_go"
    FINISH = "finish"
    REST = "rest"


@dataclass(frozen=True, slots=True)
class Tally:
    """How many members stand where. One that was retried stands where its last retry does."""

    waiting: int = 0
    """They may begin, and have not."""
    held: int = 0
    """It is not their turn."""
    under_way: int = 0
    """They run, or have begun and will go on."""
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def open(self) -> int:
        return self.waiting + self.held + self.under_way

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled

    @property
    def members(self) -> int:
        return self.open + self.ended


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A checked group, without its members. `callback` is the job that will be submitted when they have all ended."""

    id: GroupId
    tenant_id: TenantId
    mode: GroupMode = "parallel"
    on_failure: OnFailure = "stop"
    name: str | None = None
    key: str | None = None
    """Submitted again under the same key, it is the same group."""
    request_hash: str | None = None
    callback: NewJob | None = None
    created_by: str | None = None


@dataclass(frozen=True, slots=True)
class SubmittedGroup:
    """What `ctx.group` gives back: the group, and its members in their order."""

    id: GroupId
    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group as the database holds it, with a count of its members."""

    id: GroupId
    tenant_id: TenantId
    name: str | None
    mode: GroupMode
    on_failure: OnFailure
    callback: dict[str, Any] | None
    callback_job_id: JobId | None
    created_by: str | None
    created_at: datetime
    finished_at: datetime | None
    stopping: bool
    tally: Tally

    @property
    def status(self) -> GroupStatus:
        return group_status(self.tally)

    @property
    def is_finished(self) -> bool:
        """It has ended, what follows from that is done, and nobody has retried a member since."""
        return self.finished_at is not None and not self.tally.open


@dataclass(frozen=True, slots=True)
class Member:
    """A row of a list of members; a retry of a member is a row of its own."""

    id: JobId
    job_type: str
    queue: str
    status: JobStatus
    held: bool
    attempt: int
    retry_of: JobId | None
    error_message: str | None
    created_at: datetime
    finished_at: datetime | None


def group_status(tally: Tally) -> GroupStatus:
    """COMPLETED exactly when every member is; one failure makes it FAILED."""
    if tally.open:
        return GroupStatus.RUNNING if tally.under_way or tally.ended else GroupStatus.PENDING
    if tally.failed:
        return GroupStatus.FAILED
    return GroupStatus.CANCELLED if tally.cancelled else GroupStatus.COMPLETED


def next_step(group: Group) -> Step:
    """The first thing that is due. Done over and over until nothing is; then it stays so until another member ends."""
    tally = group.tally
    if tally.failed and tally.open and not group.stopping:
        match group.on_failure:
            case "stop":
                return Step.STOP
            case "skip":
                return Step.SKIP
            case "continue":
                pass
    if tally.held and not tally.waiting and not tally.under_way:
        return Step.LET_GO
    if not tally.open and group.finished_at is None:
        return Step.FINISH
    return Step.REST


def summary(group: Group) -> dict[str, Any]:
    """What the callback is told, as its argument `group`."""
    tally = group.tally
    return {
        "id": group.id,
        "status": group.status,
        "completed": tally.completed,
        "failed": tally.failed,
        "cancelled": tally.cancelled,
    }


class GroupNotFound(NotFound):
    def __init__(self, group_id: str) -> None:
        super().__init__(f"There is no group {group_id}. To see what there is: cortex groups list")
        self.group_id = group_id


class GroupKeyReused(Conflict):
    """The key of a group stands for another one."""

    def __init__(self, key: str, group_id: str) -> None:
        super().__init__(
            f'The key "{key}" belongs to group {group_id}, which was submitted with other members or options. '
            "Give the same as then, or another key."
        )
        self.key, self.group_id = key, group_id


class GroupFinished(Conflict):
    def __init__(self, group_id: str, status: str) -> None:
        super().__init__(f"Group {group_id} is already {status}: no member is left to cancel.")
        self.group_id, self.status = group_id, status


class GroupNotFinished(CortexError, TimeoutError):
    """Raised by `group.wait(timeout=...)` when the group goes on for longer."""

    def __init__(self, group_id: str, status: str, ended: int, members: int, seconds: float) -> None:
        super().__init__(
            f"Group {group_id} is still {status} after {seconds:g} s: {ended} of {members} members have ended. "
            "It goes on; ask again later."
        )
        self.group_id, self.status = group_id, status
