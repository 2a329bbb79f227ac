"""`cortex runs`: list and show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.output import console, document, facts, heading, indented, one_line, one_line_each, stamp, status, words
from cortex_plane.cli.planes import AsJson, PlaneUrl, existing_plane
from cortex_plane.cli.watch import watchable
from cortex_plane.clock import utc_now
from cortex_plane.durations import ago, rough, span
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.cli_views import error_parts

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cortex_plane.jobs.model import Run, WorkerId


LONGEST_LIST = 1000

OfJob = Annotated[str | None, Parameter(metavar="ID", help="Of this job; its id, or the first part of it.")]


@watchable
async def list_runs(
    *,
    job: OfJob = None,
    status: Annotated[str | None, Parameter(metavar="STATUS", help="Only those that are running, failed, waiting, …")] = None,
    worker: Annotated[str | None, Parameter(metavar="ID", help="Only those of this worker; its id, or its name.")] = None,
    limit: Annotated[int, Parameter(metavar="N", help=f"How many, up to {LONGEST_LIST}; otherwise 20.")] = 20,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List runs, those of the newest jobs first.

    A job has one run for each attempt. A status is one of running, completed, failed, skipped, cancelled, waiting,
    sleeping, interrupted. All that are running are found, and of the others those among the newest 10,000; for older
    ones name their job.

    Try:
        cortex runs list
        cortex runs list --status running
        cortex runs list --job 0199a8c2
    """
    from cortex_plane.cli.output import print_json

    if not 1 <= limit <= LONGEST_LIST:
        raise InvalidInput(f"--limit must be from 1 to {LONGEST_LIST}, not {limit}.", field="limit")
    async with existing_plane(plane_url) as plane:
        runs = await plane.runs.list(job=job, status=status, worker=worker, limit=limit)
        names = await plane.workers.names() if runs else {}
    if as_json:
        print_json({"runs": runs})
    elif runs:
        print_runs(runs, names, utc_now())
        next_step("\nTo look at one", "cortex runs show ID", plane_url)
    else:
        print("No run fits." if job or status or worker else "Nothing has run yet.")
    return 0


async def show(
    run_id: Annotated[str, Parameter(name="ID", help="The run's id, or the first part of it.")],
    /,
    *,
    job: OfJob = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Show one run: which attempt of which job, on which worker, from when to when, and how it ended.

    Try:
        cortex runs show 0199a8c2
        cortex runs show 0199a8c2 --job 0199a8b1
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        run = await plane.runs.get(run_id, job=job)
        names = await plane.workers.names()
    if as_json:
        print_json({"run": run})
        return 0
    print_run(run, names, utc_now())
    next_step("\nTo see its job", f"cortex jobs show {run.job_id}", plane_url)
    return 0


# -- run views ---------------------------------------------------------------------------------
# How runs look: as a list, and one with everything that is known about it.


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
    for name, parts in _sections(run):
        say.print()
        say.print(heading(name))
        for part in parts:
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


def _sections(run: Run) -> Iterator[tuple[str, list[RenderableType]]]:
    yield "Payload", [document(run.params_snapshot)]
    if run.error:
        yield "Error", error_parts(run.error_details) if run.error_details else [words(run.error, "red")]
    if run.artifacts:
        yield "Artifacts", [document(run.artifacts)]


def _worker(run: Run, names: Names) -> str:
    """An approved job is RUNNING before a worker has taken it over."""
    return "none yet" if run.worker_id is None else names.get(run.worker_id, run.worker_id)


def _took(run: Run, now: datetime) -> str:
    return span((run.finished_at or now) - run.started_at) + ("" if run.finished_at else " …")
