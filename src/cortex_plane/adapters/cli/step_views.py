"""How the inside of a durable job looks: its steps, its progress as a bar, its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cortex_plane.adapters.cli.output import console, one_line, one_line_each, words
from cortex_plane.adapters.cli.times import span
from cortex_plane.core.errors import CheckpointCorrupted
from cortex_plane.core.events import ProgressMade, TokensUsed
from cortex_plane.core.jobs import JobId, JobSummary
from cortex_plane.operations.follow_job import said_by

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from cortex_plane.core.jobs import Job
    from cortex_plane.plane import Plane
    from cortex_plane.ports.store import Store

BAR_WIDTH = 30
INDENT = 2
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Inside:
    """What is recorded of a job besides its states. `problem` says why its checkpoint cannot be used, if it cannot."""

    steps: list[dict[str, Any]]
    tokens: TokensUsed | None
    progress: ProgressMade | None
    children: list[JobSummary]
    problem: str | None = None

    @classmethod
    async def of(cls, plane: Plane, job: Job) -> Inside:
        store = await plane.store
        progress = await _newest_progress(store, job.id)
        if job.checkpoint_id is None:
            return cls([], None, progress, [])
        try:
            blob = await plane.checkpoints.get(job.id)
        except CheckpointCorrupted as corrupted:
            return cls([], None, progress, [], f"{corrupted.kind}: {corrupted.details}")
        tokens = TokensUsed(**blob["memory_context"]["token_usage"])
        steps = [step for step in blob["execution_log"] if step["step_index"] > 0]
        return cls(steps, tokens if tokens != TokensUsed(0, 0) else None, progress, await _children(store, blob))

    def document(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "tokens": _fields(self.tokens),
            "progress": _fields(self.progress),
            "children": self.children,
            "checkpoint_problem": self.problem,
        }


def _fields(value: TokensUsed | ProgressMade | None) -> dict[str, Any] | None:
    return None if value is None else {name: getattr(value, name) for name in value.__slots__}


async def _newest_progress(store: Store, job_id: JobId) -> ProgressMade | None:
    newest: ProgressMade | None = None
    after = 0
    while page := await store.events.list(job_id, after, PAGE):
        for said in map(said_by, page):
            newest = said if isinstance(said, ProgressMade) else newest
        after = page[-1].seq
    return newest


async def _children(store: Store, blob: Mapping[str, Any]) -> list[JobSummary]:
    """Those that the journal knows, each as the last of its retries, in the order in which they were called."""
    steps = blob["memory_context"].get("working_data", {}).get("$cortex", {}).get("steps", {}).values()
    called = sorted((entry for entry in steps if entry.get("child")), key=lambda entry: int(entry["order"]))
    chains = [await store.jobs.chain(JobId(entry["child"])) for entry in called]
    return [chain[-1] for chain in chains if chain]


def step_table(steps: list[dict[str, Any]]) -> RenderableType:
    rows = [
        [
            words(step["step_index"]),
            words(step["step_id"]),
            words(span(datetime.fromisoformat(step["finished_at"]) - datetime.fromisoformat(step["started_at"]))),
            words(step["tool_calls"] or ""),
            one_line(step["result_summary"], "dim", console().width),
        ]
        for step in steps
    ]
    return one_line_each(["STEP", "NAME", "TOOK", "TOOLS", "RESULT"], rows, right=[0, 2, 3], indent=INDENT)


def tokens_text(tokens: TokensUsed) -> Text:
    return words(f"{tokens.prompt_tokens:,} prompt + {tokens.completion_tokens:,} completion tokens")


def bar(progress: ProgressMade) -> Text:
    """`━━━━━━────  6 of 10, 60 %  reading`. Whatever a handler told is shown somehow."""
    done, total = progress.done, progress.total
    text = words(f"  {progress.text}" if progress.text else "")
    if not _is_number(done) or not _is_number(total) or total <= 0:
        return words(done if total is None else f"{done} of {total}") + text
    share = min(max(done / total, 0.0), 1.0)
    filled = round(share * BAR_WIDTH)
    drawn = words("━" * filled, "cyan") + words("─" * (BAR_WIDTH - filled), "dim")
    return drawn + words(f"  {done:g} of {total:g}, {share:.0%}") + text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
