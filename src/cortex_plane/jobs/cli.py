"""`cortex jobs`: submit, list, show, watch, cancel, retry, resume, settle, release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import AsJson, JobIdOrPrefix, PlaneUrl, existing_plane, me, plane_for
from cortex_plane.cli.watch import watchable
from cortex_plane.clock import utc_now
from cortex_plane.errors import InvalidInput, NotFound, UnknownAgent, did_you_mean
from cortex_plane.jobs.cli_options import OF_JOB, JobFlags
from cortex_plane.jobs.states import JobStatus
from cortex_plane.people.model import OWN_TENANT

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.jobs.model import Job
    from cortex_plane.plane import Plane


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
    from cortex_plane.cli.output import moment, print_json
    from cortex_plane.jobs.cli_views import print_jobs
    from cortex_plane.jobs.search import JobWish

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
        last = None if before is None else await plane.jobs.find(before)
        page = await plane.jobs.search(wish, tenant=tenant, before=last, limit=min(limit + 1, LONGEST_LIST))
    jobs = [one.summary for one in page.jobs[:limit]]
    following = jobs[-1].id if len(page.jobs) > limit else page.next_before
    if as_json:
        print_json({"jobs": jobs, "next_before": following})
    elif jobs or following:
        if jobs:
            print_jobs(jobs, utc_now())
        if following:
            words = "\nThere are more" if len(jobs) == limit else f"{_found(len(jobs))} among the newest. To look further back"
            next_step(words, f"cortex jobs list --before {following}", plane_url)
    elif before is not None or tenant is not None or wish != JobWish():
        print("No job fits.")
    else:
        next_step("There are no jobs yet. To submit one", "cortex jobs submit AGENT key=value", plane_url, style="")
    return 0


def _found(count: int) -> str:
    return f"\nOnly {count} fit" if count else "None fits"


@watchable
async def show(job_id: JobIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show one job: its data, its steps, its runs and its history.

    Try:
        cortex jobs show 0199a8c2
        cortex jobs show 0199a8c2 --json
    """
    from cortex_plane.cli.output import print_json
    from cortex_plane.jobs.cli_views import print_job

    async with existing_plane(plane_url) as plane:
        job = await plane.jobs.get(job_id)
        timeline = await plane.jobs.timeline(job.id, with_names=True)
        chain = await plane.jobs.chain(job.id)
        details = await plane.jobs.details(job)
    if as_json:
        print_json({"job": job, **details.document(), "runs": timeline.runs, "history": timeline.entries, "chain": chain})
    else:
        print_job(job, timeline, details, utc_now(), chain)
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
    from cortex_plane.jobs.cli_watch import print_events, watch_to_the_end

    async with existing_plane(plane_url) as plane:
        found = await plane.jobs.find(job_id)
        if as_json:
            return await print_events(plane, found)
        return await watch_to_the_end(plane, found, plane_url, as_json=False)


async def cancel(
    job_id: JobIdOrPrefix,
    /,
    *,
    reason: Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept in the job's history.")] = None,
    kill: Annotated[bool, Parameter(negative="", help="At once, also if the job would clean up first.")] = False,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Cancel a job that has not ended.

    A job that runs is cancelled at once; its worker is told, and interrupts the handler. A job that
    has an open cleanup scope is asked to end, and is cancelled when it has cleaned up.

    Try:
        cortex jobs cancel 0199a8c2 --reason "wrong version"
        cortex jobs cancel 0199a8c2 --kill
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        cancelled = await plane.jobs.cancel(job_id, actor=me(), reason=reason, mode="kill" if kill else "cleanup")
        job = await plane.jobs.get(cancelled)
    if as_json:
        print_json({"id": cancelled, "status": job.status, "cancel_requested_at": job.cancel_requested_at})
    elif job.status is JobStatus.CANCELLED:
        print(f"Cancelled {cancelled}")
    else:
        print(f"Asked {cancelled} to end; it cleans up first")
        next_step("To end it at once", f"cortex jobs cancel {cancelled} --kill", plane_url)
    return 0


async def resume(job_id: JobIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Go on with a job that failed or was cancelled, where it stopped.

    The new job is linked to the old one and starts from its checkpoint: recorded steps are not repeated, the step that
    failed runs again, with all its retries. A child that failed is resumed too; an approval that was denied or expired
    is asked for again.

    Try:
        cortex jobs resume 0199a8c2
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        again = await (await plane.jobs.resume(job_id, actor=me())).job()
    if as_json:
        print_json({"id": again.id, "retry_of": again.retry_of, "status": again.status})
    else:
        print(f"Resumed, as {again.id}")
        next_step("To follow it", f"cortex jobs watch {again.id}", plane_url)
    return 0


async def settle(
    job_id: JobIdOrPrefix,
    call: Annotated[str, Parameter(metavar="CALL", help="The tool's name as `jobs show` has it, with #2 for its second time.")],
    /,
    *,
    applied: Annotated[str | None, Parameter(metavar="JSON", help="It took effect, with this result.")] = None,
    not_applied: Annotated[bool, Parameter(negative=(), help="It took no effect, and is made when the job goes on.")] = False,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Say what became of an uncertain tool call, and go on with its job.

    A call is uncertain when its worker died in it, or when it raised something that leaves its effect in doubt. Look at
    the other side first. The job goes on as a new job, linked to the old one.

    Try:
        cortex jobs settle 0199a8c2 refund --applied '{"receipt": 7}'
        cortex jobs settle 0199a8c2 refund --not-applied
    """
    from cortex_plane.cli.output import print_json
    from cortex_plane.json import loads_exactly

    if (applied is None) == (not not_applied):
        raise InvalidInput(
            "Say either --applied with the result as JSON (null if there is none), or --not-applied.", field="applied"
        )
    try:
        result = None if applied is None else loads_exactly(applied)
    except ValueError as error:
        raise InvalidInput(f"--applied takes JSON, such as '{{\"receipt\": 7}}' or null: {error}", field="applied") from None
    async with existing_plane(plane_url) as plane:
        again = await (await plane.jobs.settle(job_id, call, applied=not not_applied, result=result, actor=me())).job()
    if as_json:
        print_json({"id": again.id, "retry_of": again.retry_of, "status": again.status})
    else:
        print(f"Settled; the job goes on as {again.id}")
        next_step("To follow it", f"cortex jobs watch {again.id}", plane_url)
    return 0


async def retry(job_id: JobIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Run a finished job again from the beginning, as a new job.

    The new job has the same work and all its retries, and is linked to the old one. To keep the steps that are done:
    cortex jobs resume.

    Try:
        cortex jobs retry 0199a8c2
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        again = await (await plane.jobs.retry(job_id, actor=me())).job()
    if as_json:
        print_json({"id": again.id, "retry_of": again.retry_of, "status": again.status})
    else:
        print(f"Submitted again, as {again.id}")
        next_step("To follow it", f"cortex jobs watch {again.id}", plane_url)
    return 0


async def release(
    job_id: JobIdOrPrefix,
    /,
    *,
    reason: Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept in the audit log.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Try a job again that is held because its code did not fit.

    A held job goes on by itself when a worker starts with other code. This is for changes that the plane does not see: in
    functions of other modules, or in what they read.

    Try:
        cortex jobs release 0199a8c2
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        released = await plane.jobs.release(job_id, actor=me(), reason=reason)
    if as_json:
        print_json({"id": released, "released": True})
    else:
        print(f"Released {released}")
        next_step("To follow it", f"cortex jobs watch {released}", plane_url)
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


# -- submitting --------------------------------------------------------------------------------
# `cortex jobs submit`.


async def submit(
    agent: Annotated[str, Parameter(help="The agent's name.")],
    /,
    *payload: Annotated[str, Parameter(help="Its arguments: key=value pairs, one JSON object, or @file.json (@- for stdin).")],
    given: Annotated[JobFlags, Parameter(name="*")] = OF_JOB,
    tenant: Annotated[str, Parameter(metavar="NAME", help="Whose job it is; otherwise the default tenant's.")] = OWN_TENANT,
    wait: Annotated[bool, Parameter(help="Follow it until it ends. Exit code 7 if it fails or is cancelled.")] = False,
    app: Annotated[
        str | None, Parameter(metavar="APP", help="The app that has the agent: file.py, file.py:plane or module:plane.")
    ] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Submit a job for an agent.

    A value is read as JSON where it is JSON and the agent takes it so, and as text otherwise: count=3 is
    a number, name=Ada is text, sizes='[1, 2]' is a list. If the agent's app has never run, name it with --app or CORTEX_APP.

    Try:
        cortex jobs submit greet name=Ada
        cortex jobs submit greet '{"name": "Ada"}' --delay 5m --tag demo
        cortex jobs submit greet name=Ada --wait --app examples/hello.py
    """
    from cortex_plane.cli.output import payload_from, with_payload
    from cortex_plane.jobs.cli_watch import watch_to_the_end

    options = {**given.options(), "tenant": tenant}
    payload_from(payload)
    async with plane_for(app, plane_url) as plane:
        job = await with_payload(payload, lambda arguments: _submitted(plane, agent, arguments, options))
        await _tell(plane, job, app, plane_url, wait=wait, as_json=as_json)
        return await watch_to_the_end(plane, job.id, plane_url, as_json=as_json) if wait else 0


async def _submitted(plane: Plane | Client, agent: str, arguments: dict[str, Any], options: dict[str, Any]) -> Job:
    try:
        return await (await plane.submit(agent, arguments, **options)).job()
    except UnknownAgent as unknown:
        if plane.agents:
            raise
        raise NotFound(f"{unknown}\nIf its app has never run, name it: --app file.py") from unknown


async def _tell(plane: Plane | Client, job: Job, app: str | None, database_url: str | None, *, wait: bool, as_json: bool) -> None:
    from cortex_plane.cli.output import console, print_json, words

    if as_json and not wait:
        print_json({"id": job.id, "status": job.status, "agent": job.job_type, "queue": job.queue, "run_at": job.run_at})
    elif not as_json:
        console().print(words(f"Submitted {job.job_type} as "), words(job.id, "bold"), sep="", soft_wrap=True)
    if not as_json and not wait:
        next_step("To follow it", f"cortex jobs watch {job.id}", database_url)
    if not await plane.jobs.has_worker(job):
        lead, command = "No worker is running that could take it. To start one", f"cortex worker {app or 'APP'}"
        next_step(lead, command, database_url, style="yellow", stderr=True)
