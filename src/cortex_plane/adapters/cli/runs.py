"""`cortex runs`: the executions of jobs, each by one worker."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane
from cortex_plane.adapters.cli.redrawing import watchable
from cortex_plane.adapters.system import utc_now
from cortex_plane.core.errors import InvalidInput

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
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.adapters.cli.run_views import print_runs

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
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.adapters.cli.run_views import print_run

    async with existing_plane(plane_url) as plane:
        run = await plane.runs.get(run_id, job=job)
        names = await plane.workers.names()
    if as_json:
        print_json({"run": run})
        return 0
    print_run(run, names, utc_now())
    next_step("\nTo see its job", f"cortex jobs show {run.job_id}", plane_url)
    return 0
