"""Details of a job: steps, tool calls, tokens, progress, children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cortex_plane.durable.resume import UncertainCall, uncertain_calls
from cortex_plane.durable.schema import RESERVED
from cortex_plane.errors import CheckpointCorrupted
from cortex_plane.jobs.events import ProgressMade, TokensUsed
from cortex_plane.jobs.follow import said_by
from cortex_plane.jobs.model import Job, JobId, JobSummary

if TYPE_CHECKING:
    from cortex_plane.durable.service import Checkpoints
    from cortex_plane.stores import Store


LAST = 1_000
"""How many of the latest events are searched for progress."""


@dataclass(frozen=True, slots=True)
class JobDetails:
    """`problem` says why the checkpoint cannot be used, if so; `checkpoint` is the expanded document otherwise."""

    steps: list[dict[str, Any]]
    tokens: TokensUsed | None
    progress: ProgressMade | None
    children: list[JobSummary]
    problem: str | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    checkpoint: Mapping[str, Any] | None = None
    uncertain: list[UncertainCall] = field(default_factory=list)
    """Tool calls whose outcome is unknown; `plane.jobs.settle` settles them."""

    @classmethod
    async def of(cls, store: Store, checkpoints: Checkpoints, job: Job) -> JobDetails:
        progress = await _newest_progress(store, job.id)
        if job.checkpoint_id is None:
            return cls([], None, progress, [])
        try:
            blob = await checkpoints.get(job.id)
        except CheckpointCorrupted as corrupted:
            return cls([], None, progress, [], f"{corrupted.kind}: {corrupted.details}")
        tokens = TokensUsed(**blob["memory_context"]["token_usage"])
        steps = [step for step in blob["execution_log"] if step["step_index"] > 0]
        used = tokens if tokens != TokensUsed(0, 0) else None
        children, uncertain = await _children(store, blob), uncertain_calls(blob, job.status)
        return cls(steps, used, progress, children, None, list(blob["active_tools"]), blob, uncertain)

    def document(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "tokens": _fields(self.tokens),
            "progress": _fields(self.progress),
            "children": self.children,
            "checkpoint_problem": self.problem,
            "uncertain": [asdict(call) for call in self.uncertain],
        }


def _fields(value: TokensUsed | ProgressMade | None) -> dict[str, Any] | None:
    return None if value is None else {name: getattr(value, name) for name in value.__slots__}


async def _newest_progress(store: Store, job_id: JobId) -> ProgressMade | None:
    said = map(said_by, await store.stats.last_events(job_id, LAST))
    return next((one for one in said if isinstance(one, ProgressMade)), None)


async def _children(store: Store, blob: Mapping[str, Any]) -> list[JobSummary]:
    """Children in the order of their calls; a retried child is represented by its last job."""
    steps = blob["memory_context"].get("working_data", {}).get(RESERVED, {}).get("steps", {}).values()
    called = sorted((entry for entry in steps if entry.get("child")), key=lambda entry: int(entry["order"]))
    chains = [await store.jobs.chain(JobId(entry["child"])) for entry in called]
    return [chain[-1] for chain in chains if chain]
