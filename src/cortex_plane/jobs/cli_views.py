"""How jobs and their steps are printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Any

from cortex_plane.cli.output import (
    console,
    document,
    facts,
    heading,
    indented,
    one_line,
    one_line_each,
    stamp,
    status,
    table,
    words,
)
from cortex_plane.durations import ago, rough, span
from cortex_plane.jobs.events import ProgressMade, TokensUsed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from cortex_plane.durable.details import JobDetails
    from cortex_plane.durable.resume import UncertainCall
    from cortex_plane.jobs.model import Job, JobId, JobSummary, Run
    from cortex_plane.jobs.retry import RetryPolicy
    from cortex_plane.jobs.timeline import Timeline


BAR_WIDTH = 30
INDENT = 2


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


# -- job views ---------------------------------------------------------------------------------
# How jobs look: as a list, and one with everything that is known about it.


def print_jobs(jobs: Sequence[JobSummary], now: datetime) -> None:
    rows = [
        [
            words(job.id),
            status(job.status, job.label),
            words(job.job_type),
            words(job.queue),
            words(job.tries),
            words(rough(now - job.created_at)),
            _remark(job),
        ]
        for job in jobs
    ]
    console().print(one_line_each(["ID", "STATUS", "AGENT", "QUEUE", "TRIES", "AGE", ""], rows, right=[4, 5]))


def _remark(job: JobSummary) -> Text:
    if job.error_message:
        return one_line(job.error_message, "red")
    return words("" if job.status_text == _plainly(job.label) else job.status_text, "dim")


def _plainly(label: str) -> str:
    return label.lower().replace("_", " ")


def print_job(job: Job, timeline: Timeline, details: JobDetails, now: datetime, chain: Sequence[JobSummary] = ()) -> None:
    say = console()
    say.print(heading(f"Job {job.id}"), status(job.status, job.label))
    say.print(indented(facts([*_facts(job, timeline.runs, now), *_durable_facts(job, details)])))
    for name, parts in _sections(job, timeline, details, chain):
        say.print()
        say.print(heading(name))
        for part in parts:
            say.print(indented(part))


def _sections(
    job: Job, timeline: Timeline, details: JobDetails, chain: Sequence[JobSummary]
) -> Iterator[tuple[str, list[RenderableType]]]:
    yield "Payload", [document(job.payload)]
    if job.output is not None:
        yield "Output", [document(job.output)]
    if job.error:
        yield "Error", error_parts(job.error)
    if details.problem:
        yield "Checkpoint, damaged", [words(details.problem, "red"), words(f"Its text: cortex checkpoints show {job.id}", "dim")]
    elif details.steps:
        yield "Steps", [step_table(details.steps)]
    if details.uncertain:
        yield "Uncertain calls", _uncertain(job, details.uncertain)
    if details.children:
        yield "Children", [_child_table(details.children)]
    if timeline.runs:
        yield "Runs", [_run_table(timeline.runs)]
    if len(chain) > 1:
        yield f"Retry chain, {sum(link.tries for link in chain)} attempts in all", [_chain_table(chain, job.id)]
    yield "History", [_history_table(timeline)]


def _uncertain(job: Job, calls: Sequence[UncertainCall]) -> list[RenderableType]:
    shown: list[RenderableType] = [
        words(f"{one.call}: {one.doubt or 'its worker died or stopped in it'} (invocation {one.invocation_id})") for one in calls
    ]
    open_calls = [one for one in calls if not one.caught]
    if open_calls and job.status.is_terminal and job.retried_as is None:
        shown.append(words(f"To settle it: cortex jobs settle {job.id} {quote(open_calls[0].call)} --applied RESULT", "dim"))
    return shown


def _facts(job: Job, runs: Sequence[Run], now: datetime) -> Iterator[tuple[str, RenderableType | None]]:
    def when(at: datetime | None) -> str | None:
        return None if at is None else f"{stamp(at)}, {ago(at, now)}"

    yield "agent", words(job.job_type)
    yield "queue", words(job.queue) + words(f", priority {job.priority}" if job.priority else "")
    yield "created", when(job.created_at)
    yield "by", words(job.created_by) if job.created_by else None
    yield "behind it", words(", ".join(job.submitters)) if job.submitters else None
    yield "runs at", when(job.run_at) if job.run_at and job.attempt == 0 else None
    yield "deadline", when(job.deadline_at)
    yield "run timeout", f"{job.timeout_seconds:g} s" if job.timeout_seconds else None
    yield "retry policy", policy_text(job.retry_policy) if job.retry_policy else None
    yield "decide by", when(job.approval_expires_at)
    yield "started", when(job.started_at)
    yield "next try", when(job.next_retry_at)
    yield "finished", when(job.finished_at)
    yield "tries", _tries(job)
    yield "now", words(job.status_text) if job.status_text != _plainly(job.label) else None
    yield "key", words(job.job_key) if job.job_key else None
    yield "serial key", words(job.serial_key) if job.serial_key else None
    yield "tags", words(", ".join(job.tags)) if job.tags else None
    yield "group", job.group_id
    yield "template", job.template_id
    yield "schedule", job.schedule_id
    yield "request", job.request_id
    yield "session", job.session_id
    yield "trace", words(job.trace_id) if job.trace_id else None
    yield "retry of", job.retry_of
    yield "retried as", job.retried_as
    yield "log", words(runs[-1].log_path) if runs and runs[-1].log_path else None


def _durable_facts(job: Job, details: JobDetails) -> Iterator[tuple[str, RenderableType | None]]:
    yield "parent", job.parent_id
    yield "progress", bar(details.progress) if details.progress else None
    yield "tokens", tokens_text(details.tokens) if details.tokens else None
    yield "cost", f"{job.cost_cents:,} cents" if job.cost_cents else None


def policy_text(policy: RetryPolicy) -> str:
    mode = "linked jobs" if policy.mode == "chain" else "in place"
    return f"{policy.max_retries} retries, {mode}, {policy.backoff.base_seconds:g} to {policy.backoff.max_seconds:g} s apart"


def _tries(job: Job) -> str | None:
    if job.attempt == 0:
        return None
    crashes = f", {job.crash_count} lost worker{'s' if job.crash_count > 1 else ''}" if job.crash_count else ""
    return f"{job.tries} ({job.retry_count} of {job.max_retries} retries used{crashes})"


def error_parts(error: Any) -> list[RenderableType]:
    """What went wrong, in which step, and where in the agent's code."""
    if not isinstance(error, dict):
        return [document(error)]
    parts: list[RenderableType] = [words(f"{error.get('type', 'Error')}: {error.get('message', '')}", "red")]
    if step := error.get("step"):
        parts.append(words(f"in step {step}"))
    if trace := str(error.get("traceback") or "").rstrip():
        parts.append(words(trace, "dim"))
    return parts


def _chain_table(chain: Sequence[JobSummary], here: JobId) -> RenderableType:
    """From the first job to the last; this one is marked."""
    rows = [
        [words("▸" if link.id == here else ""), words(link.id), status(link.status, link.label), words(link.tries), _remark(link)]
        for link in chain
    ]
    return table(["", "job", "status", "attempts", ""], rows, right=[3])


def _child_table(children: Sequence[JobSummary]) -> RenderableType:
    rows = [[words(child.id), status(child.status, child.label), words(child.job_type), _remark(child)] for child in children]
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


def _history_table(timeline: Timeline) -> RenderableType:
    rows: list[list[RenderableType]] = []
    before: datetime | None = None
    for entry in timeline.entries:
        rows.append(
            [
                f"{entry.created_at:%H:%M:%S}",
                "" if before is None else f"+{span(entry.created_at - before)}",
                status(entry.new_status, entry.label),
                words(timeline.actor(entry)),
                one_line(timeline.describe(entry)),
            ]
        )
        before = entry.created_at
    return table(["TIME", "", "STATUS", "BY", "WHAT HAPPENED"], rows, right=[1])
