"""How jobs look: as a list, and one with everything that is known about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cortex_plane.adapters.cli.output import (
    console,
    document,
    facts,
    heading,
    indented,
    one_line,
    one_line_each,
    status,
    table,
    words,
)
from cortex_plane.adapters.cli.step_views import bar, step_table, tokens_text
from cortex_plane.adapters.cli.times import ago, rough, span, stamp
from cortex_plane.core.states import WaitReason

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from cortex_plane.core.jobs import Job, JobId, JobSummary, Run
    from cortex_plane.insides import Inside
    from cortex_plane.operations.tell_job import Story

WAITS = {
    WaitReason.RETRY: "waits for its next try",
    WaitReason.WORKER_LOST: "its worker was lost",
    WaitReason.INTERRUPTED: "its worker stopped",
    WaitReason.HANDED_BACK: "was handed back",
    WaitReason.SLEEP: "sleeps",
    WaitReason.CHILD: "waits for another job",
}

# Frames of a traceback that are ours, not the agent's.
OUR_FRAMES = re.compile(r'  File "[^"]*(?:cortex_plane[/\\]runtime|concurrent[/\\]futures|[/\\]asyncio)[/\\][^"]*"')


def print_jobs(jobs: Sequence[JobSummary], now: datetime) -> None:
    rows = [
        [
            words(job.id),
            status(job.status),
            words(job.job_type),
            words(job.queue),
            words(job.attempt),
            words(rough(now - job.created_at)),
            _remark(job),
        ]
        for job in jobs
    ]
    console().print(one_line_each(["ID", "STATUS", "AGENT", "QUEUE", "TRIES", "AGE", ""], rows, right=[4, 5]))


def _remark(job: JobSummary) -> Text:
    if job.error_message:
        return one_line(job.error_message, "red")
    return words(WAITS[job.wait_reason] if job.wait_reason else "", "dim")


def print_job(job: Job, story: Story, inside: Inside, now: datetime, chain: Sequence[JobSummary] = ()) -> None:
    say = console()
    say.print(heading(f"Job {job.id}"), status(job.status))
    say.print(indented(facts([*_facts(job, story.runs, now), *_durable_facts(job, inside)])))
    for name, parts in _sections(job, story, inside, chain):
        say.print()
        say.print(heading(name))
        for part in parts:
            say.print(indented(part))


def _sections(job: Job, story: Story, inside: Inside, chain: Sequence[JobSummary]) -> Iterator[tuple[str, list[RenderableType]]]:
    yield "Payload", [document(job.payload)]
    if job.output is not None:
        yield "Output", [document(job.output)]
    if job.error:
        yield "Error", _error(job.error)
    if inside.problem:
        yield "Checkpoint, damaged", [words(inside.problem, "red"), words(f"Its text: cortex checkpoints show {job.id}", "dim")]
    elif inside.steps:
        yield "Steps", [step_table(inside.steps)]
    if inside.children:
        yield "Children", [_child_table(inside.children)]
    if story.runs:
        yield "Runs", [_run_table(story.runs)]
    if len(chain) > 1:
        yield f"Retry chain, {sum(link.attempt for link in chain)} attempts in all", [_chain_table(chain, job.id)]
    yield "History", [_history_table(story)]


def _facts(job: Job, runs: Sequence[Run], now: datetime) -> Iterator[tuple[str, RenderableType | None]]:
    def when(at: datetime | None) -> str | None:
        return None if at is None else f"{stamp(at)}, {ago(at, now)}"

    yield "agent", words(job.job_type)
    yield "queue", words(job.queue) + words(f", priority {job.priority}" if job.priority else "")
    yield "created", when(job.created_at)
    yield "by", words(job.created_by) if job.created_by else None
    yield "runs at", when(job.run_at) if job.run_at and job.attempt == 0 else None
    yield "started", when(job.started_at)
    yield "next try", when(job.next_retry_at)
    yield "finished", when(job.finished_at)
    yield "tries", _tries(job)
    yield "why", words(WAITS[job.wait_reason]) if job.wait_reason else None
    yield "key", words(job.job_key) if job.job_key else None
    yield "serial key", words(job.serial_key) if job.serial_key else None
    yield "tags", words(", ".join(job.tags)) if job.tags else None
    yield "group", job.group_id
    yield "template", job.template_id
    yield "retry of", job.retry_of
    yield "retried as", job.retried_as
    yield "log", words(runs[-1].log_path) if runs and runs[-1].log_path else None


def _durable_facts(job: Job, inside: Inside) -> Iterator[tuple[str, RenderableType | None]]:
    yield "parent", job.parent_id
    yield "progress", bar(inside.progress) if inside.progress else None
    yield "tokens", tokens_text(inside.tokens) if inside.tokens else None
    yield "cost", f"{job.cost_cents:,} cents" if job.cost_cents else None


def _tries(job: Job) -> str | None:
    if job.attempt == 0:
        return None
    crashes = f", {job.crash_count} lost worker{'s' if job.crash_count > 1 else ''}" if job.crash_count else ""
    return f"{job.attempt} ({job.retry_count} of {job.max_retries} retries used{crashes})"


def _error(error: Any) -> list[RenderableType]:
    if not isinstance(error, dict):
        return [document(error)]
    parts: list[RenderableType] = [words(f"{error.get('type', 'Error')}: {error.get('message', '')}", "red")]
    if trace := _agent_frames(str(error.get("traceback") or "")):
        parts.append(words(trace, "dim"))
    return parts


def _agent_frames(trace: str) -> str:
    """The frames of the agent's own code. All of them are in the --json document."""
    frames = re.split(r'(?m)^(?=  File ")', trace)
    return "".join(frame for frame in frames if not OUR_FRAMES.match(frame)).rstrip()


def _chain_table(chain: Sequence[JobSummary], here: JobId) -> RenderableType:
    """From the first job to the last; this one is marked."""
    rows = [
        [words("▸" if link.id == here else ""), words(link.id), status(link.status), words(link.attempt), _remark(link)]
        for link in chain
    ]
    return table(["", "job", "status", "attempts", ""], rows, right=[3])


def _child_table(children: Sequence[JobSummary]) -> RenderableType:
    rows = [[words(child.id), status(child.status), words(child.job_type), _remark(child)] for child in children]
    return table(["JOB", "STATUS", "AGENT", ""], rows)


def _run_table(runs: Sequence[Run]) -> RenderableType:
    rows: list[list[RenderableType]] = [
        [
            str(run.attempt),
            status(run.status),
            f"{run.started_at:%H:%M:%S}",
            span(run.finished_at - run.started_at) if run.finished_at else "…",
            "" if run.exit_code is None else str(run.exit_code),
            one_line(run.error or ""),
        ]
        for run in runs
    ]
    return table(["TRY", "STATUS", "BEGAN", "TOOK", "EXIT", "ERROR"], rows, right=[0, 3])


def _history_table(story: Story) -> RenderableType:
    rows: list[list[RenderableType]] = []
    before: datetime | None = None
    for entry in story.entries:
        rows.append(
            [
                f"{entry.created_at:%H:%M:%S}",
                "" if before is None else f"+{span(entry.created_at - before)}",
                status(entry.new_status),
                words(story.actor(entry)),
                one_line(story.told(entry)),
            ]
        )
        before = entry.created_at
    return table(["TIME", "", "STATUS", "BY", "WHAT HAPPENED"], rows, right=[1])
