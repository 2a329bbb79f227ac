"""`cortex jobs`: list, show, watch, cancel, retry. Submitting has a file of its own."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, JobIdOrPrefix, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane, me
from cortex_plane.adapters.cli.redrawing import watchable
from cortex_plane.adapters.system import utc_now
from cortex_plane.core.errors import InvalidInput, did_you_mean
from cortex_plane.core.states import JobStatus

LONGEST_LIST = 1000


@watchable
async def list_jobs(
    *,
    status: Annotated[str | None, Parameter(metavar="STATUS", help="Only those that are pending, running, failed, …")] = None,
    agent: Annotated[str | None, Parameter(metavar="NAME", help="Only jobs of this agent.")] = None,
    queue: Annotated[
        str | None, Parameter(metavar="NAME", help="Only jobs of this queue; the plane's own are in the queue cortex.")
    ] = None,
    tag: Annotated[str | None, Parameter(metavar="TAG", help="Only jobs with this label.")] = None,
    text: Annotated[str | None, Parameter(metavar="WORDS", help="Only jobs with these words in their payload.")] = None,
    since: Annotated[str | None, Parameter(metavar="WHEN", help="Only jobs created then or later: 2026-01-05T09:00.")] = None,
    until: Annotated[str | None, Parameter(metavar="WHEN", help="Only jobs created before then.")] = None,
    tenant: Annotated[str | None, Parameter(metavar="NAME", help="Only jobs of this tenant.")] = None,
    limit: Annotated[int, Parameter(metavar="N", help=f"How many, up to {LONGEST_LIST}; otherwise 20.")] = 20,
    before: Annotated[str | None, Parameter(metavar="ID", help="Only jobs that are older than this one: the next page.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List jobs, newest first.

    A status is one of pending, running, completed, failed, retry, cancelled, waiting_for_approval.

    Try:
        cortex jobs list
        cortex jobs list --status failed --agent greet
        cortex jobs list --tag demo --text Ada --since 2026-01-05
        cortex jobs list --limit 100 --json
    """
    from cortex_plane.adapters.cli.job_views import print_jobs
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.adapters.cli.times import moment
    from cortex_plane.operations.search_jobs import JobWish

    _check_limit(limit)
    wish = JobWish(
        status=None if status is None else _status_named(status),
        agent=agent,
        queue=queue,
        tag=tag,
        text=text,
        since=None if since is None else moment(since, "since"),
        until=None if until is None else moment(until, "until"),
    )
    async with existing_plane(plane_url) as plane:
        last = None if before is None else await plane.find(before)
        found = await plane.search(wish, tenant=tenant, before=last, limit=limit + 1)
    jobs, more = found[:limit], len(found) > limit
    if as_json:
        print_json({"jobs": jobs, "next_before": jobs[-1].id if more else None})
    elif jobs:
        print_jobs(jobs, utc_now())
        if more:
            next_step("\nThere are more", f"cortex jobs list --before {jobs[-1].id}", plane_url)
    elif before is not None or tenant is not None or wish != JobWish():
        print("No job fits.")
    else:
        next_step("There are no jobs yet. To submit one", "cortex jobs submit AGENT key=value", plane_url, style="")
    return 0


@watchable
async def show(job_id: JobIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show one job: its data, its steps, its runs and its history.

    Try:
        cortex jobs show 0199a8c2
        cortex jobs show 0199a8c2 --json
    """
    from cortex_plane.adapters.cli.job_views import print_job
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        job = await plane.get(job_id)
        story = await plane.story(job.id, with_names=True)
        chain = await plane.chain(job.id)
        inside = await plane.inside(job)
    if as_json:
        print_json({"job": job, **inside.document(), "runs": story.runs, "history": story.entries, "chain": chain})
    else:
        print_job(job, story, inside, utc_now(), chain)
    return 0


async def watch(
    job_id: JobIdOrPrefix,
    /,
    *,
    plane_url: PlaneUrl = None,
    as_json: Annotated[bool, Parameter(name="--json", help="Print one JSON object on each line, as it happens.")] = False,
) -> int:
    """Follow a job until it ends.

    Shows each change of its state, its steps, the lines of its log, its progress and its tokens. When the database is
    away for a while, it goes on where it was. With --json each line has a "type": state, step, tokens, log, progress,
    and at last ended. The exit code is 0 if the job completed, and 7 if it failed or was cancelled.

    Try:
        cortex jobs watch 0199a8c2
        cortex jobs watch 0199a8c2 --json && echo done
    """
    from cortex_plane.adapters.cli.watching import print_events, watch_to_the_end

    async with existing_plane(plane_url) as plane:
        found = await plane.find(job_id)
        if as_json:
            return await print_events(plane, found)
        return await watch_to_the_end(plane, found, plane_url, as_json=False)


async def cancel(
    job_id: JobIdOrPrefix,
    /,
    *,
    reason: Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept in the job's history.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Cancel a job that has not ended.

    A job that runs is cancelled at once; its worker is told, and interrupts the handler.

    Try:
        cortex jobs cancel 0199a8c2 --reason "wrong version"
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        cancelled = await plane.cancel(job_id, actor=me(), reason=reason)
    if as_json:
        print_json({"id": cancelled, "status": JobStatus.CANCELLED})
    else:
        print(f"Cancelled {cancelled}")
    return 0


async def retry(job_id: JobIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Run a finished job again, as a new job.

    The new job has the same work and all its retries, and is linked to the old one.

    Try:
        cortex jobs retry 0199a8c2
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        again = await (await plane.retry(job_id, actor=me())).job()
    if as_json:
        print_json({"id": again.id, "retry_of": again.retry_of, "status": again.status})
    else:
        print(f"Submitted again, as {again.id}")
        next_step("To follow it", f"cortex jobs watch {again.id}", plane_url)
    return 0


def _status_named(text: str) -> JobStatus:
    name = text.strip().upper().replace("-", "_")
    if name not in JobStatus.__members__:
        known = [status.lower() for status in JobStatus]
        raise InvalidInput(
            f'"{text}" is not a status.{did_you_mean(text.lower(), known)} There are: {", ".join(known)}.', field="status"
        )
    return JobStatus[name]


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= LONGEST_LIST:
        raise InvalidInput(f"--limit must be from 1 to {LONGEST_LIST}, not {limit}. For more, use --before.", field="limit")
