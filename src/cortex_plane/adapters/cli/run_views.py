"""How runs look: as a list, and one with everything that is known about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cortex_plane.adapters.cli.output import console, document, facts, heading, indented, one_line, one_line_each, status, words
from cortex_plane.adapters.cli.times import ago, rough, span, stamp

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cortex_plane.core.jobs import Run, WorkerId

Names = Mapping["WorkerId", str]

ENOUGH_OF_AN_ID = 18
"""Two whole ids leave no room for the rest. The first half finds it too."""


def print_runs(runs: Sequence[Run], names: Names, now: datetime) -> None:
    rows = [
        [
            words(run.id[:ENOUGH_OF_AN_ID]),
            status(run.status),
            words(run.job_id[:ENOUGH_OF_AN_ID]),
            words(run.attempt),
            words(rough(now - run.started_at)),
            words(_took(run, now)),
            one_line(run.error, "red") if run.error else words(_worker(run, names)),
        ]
        for run in runs
    ]
    console().print(one_line_each(["ID", "STATUS", "JOB", "TRY", "AGE", "TOOK", "WORKER OR ERROR"], rows, right=[3, 4, 5]))


def print_run(run: Run, names: Names, now: datetime) -> None:
    say = console()
    say.print(heading(f"Run {run.id}"), status(run.status))
    say.print(indented(facts(_facts(run, names, now))))
    for name, part in _sections(run):
        say.print()
        say.print(heading(name))
        say.print(indented(part))


def _facts(run: Run, names: Names, now: datetime) -> Iterator[tuple[str, RenderableType | None]]:
    yield "job", words(run.job_id)
    yield "attempt", words(run.attempt)
    yield "worker", words(_worker(run, names)) + words(f"  {run.worker_id}" if run.worker_id in names else "", "dim")
    yield "started", f"{stamp(run.started_at)}, {ago(run.started_at, now)}"
    yield "ended", f"{stamp(run.finished_at)}, {ago(run.finished_at, now)}" if run.finished_at else None
    yield "took", _took(run, now)
    yield "exit code", None if run.exit_code is None else words(run.exit_code)
    yield "log", words(run.log_path) if run.log_path else None


def _sections(run: Run) -> Iterator[tuple[str, RenderableType]]:
    yield "Payload", document(run.params_snapshot)
    if run.error:
        yield "Error", words(run.error, "red")
    if run.artifacts:
        yield "Artifacts", document(run.artifacts)


def _worker(run: Run, names: Names) -> str:
    """An approved job is RUNNING before a worker has taken it over."""
    return "none yet" if run.worker_id is None else names.get(run.worker_id, run.worker_id)


def _took(run: Run, now: datetime) -> str:
    return span((run.finished_at or now) - run.started_at) + ("" if run.finished_at else " …")
