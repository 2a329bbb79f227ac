"""`cortex jobs submit`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane, goes_to_a_server, me
from cortex_plane.core.errors import NotFound, UnknownAgent
from cortex_plane.core.tenants import OWN_TENANT

if TYPE_CHECKING:
    from cortex_plane.core.jobs import Job
    from cortex_plane.plane import Plane


async def submit(
    agent: Annotated[str, Parameter(help="The agent's name.")],
    /,
    *payload: Annotated[str, Parameter(help="Its arguments: key=value pairs, one JSON object, or @file.json (@- for stdin).")],
    queue: Annotated[str | None, Parameter(metavar="NAME", help="The queue; otherwise the agent's own.")] = None,
    priority: Annotated[int, Parameter(metavar="N", help="Higher runs first; otherwise 0.")] = 0,
    delay: Annotated[str | None, Parameter(metavar="TIME", help="Begin only after this long: 90, 90s, 5m, 1h30m, 2d.")] = None,
    run_at: Annotated[
        str | None, Parameter(metavar="WHEN", help="Begin only then: 2026-01-05T09:00 is in UTC, or add +01:00.")
    ] = None,
    serial_key: Annotated[str | None, Parameter(metavar="KEY", help="Of jobs with the same key one runs at a time.")] = None,
    tag: Annotated[tuple[str, ...], Parameter(metavar="TAG", help="A label; may be given again.")] = (),
    max_retries: Annotated[int | None, Parameter(metavar="N", help="How often to try again; or as the agent says.")] = None,
    tenant: Annotated[str, Parameter(metavar="NAME", help="Whose job it is; otherwise the default tenant's.")] = OWN_TENANT,
    timeout: Annotated[str | None, Parameter(metavar="TIME", help="How long one run may take: 90, 5m, 1h.")] = None,
    wait: Annotated[bool, Parameter(help="Follow it until it ends. Exit code 7 if it fails or is cancelled.")] = False,
    app: Annotated[
        str | None, Parameter(metavar="APP", help="The app that has the agent: file.py, file.py:plane or module:plane.")
    ] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Submit a job for an agent.

    A value is read as JSON where it is JSON, and as text otherwise: count=3 is a number, name=Ada is
    text, sizes='[1, 2]' is a list. If the agent's app has never run, name it with --app or CORTEX_APP.

    Try:
        cortex jobs submit greet name=Ada
        cortex jobs submit greet '{"name": "Ada"}' --delay 5m --tag demo
        cortex jobs submit greet name=Ada --wait --app examples/hello.py
    """
    from cortex_plane.adapters.cli.payloads import payload_from
    from cortex_plane.adapters.cli.times import duration, moment
    from cortex_plane.adapters.cli.watching import watch_to_the_end

    options: dict[str, Any] = {
        "queue": queue,
        "priority": priority,
        "delay": None if delay is None else duration(delay, "delay"),
        "run_at": None if run_at is None else moment(run_at, "run-at"),
        "serial_key": serial_key,
        "tags": tag,
        "max_retries": max_retries,
        "tenant": tenant,
        "timeout": None if timeout is None else duration(timeout, "timeout"),
        "created_by": me(),
    }
    arguments = payload_from(payload)
    async with _plane_for(app, plane_url) as plane:
        job = await _submitted(plane, agent, arguments, options)
        await _tell(plane, job, app, plane_url, wait=wait, as_json=as_json)
        return await watch_to_the_end(plane, job.id, plane_url, as_json=as_json) if wait else 0


@asynccontextmanager
async def _plane_for(app: str | None, database_url: str | None) -> AsyncIterator[Plane]:
    """With an app, its agents are made known and its database is used; without one, the database must know the agent.
    Through a server no app is used: its own database is not the one that is meant."""
    from cortex_plane.adapters.cli.apps import load_app
    from cortex_plane.adapters.cli.logs import configure_logs
    from cortex_plane.settings import load_settings

    if goes_to_a_server(database_url, app) or not (app or load_settings().app):
        async with existing_plane(database_url) as plane:
            yield plane
        return
    plane = load_app(app, database_url)
    configure_logs(plane.settings, quiet=True)
    async with plane:
        yield plane


async def _submitted(plane: Plane, agent: str, arguments: dict[str, Any], options: dict[str, Any]) -> Job:
    from cortex_plane.runtime.agents import payload_for

    if code := plane.agents.get(agent):
        payload_for(agent, code.handler, (), arguments)
    try:
        return await (await plane.submit(agent, arguments, **options)).job()
    except UnknownAgent as unknown:
        if plane.agents:
            raise
        raise NotFound(f"{unknown}\nIf its app has never run, name it: --app file.py") from unknown


async def _tell(plane: Plane, job: Job, app: str | None, database_url: str | None, *, wait: bool, as_json: bool) -> None:
    from cortex_plane.adapters.cli.output import console, print_json, words

    if as_json and not wait:
        print_json({"id": job.id, "status": job.status, "agent": job.job_type, "queue": job.queue, "run_at": job.run_at})
    elif not as_json:
        console().print(words(f"Submitted {job.job_type} as "), words(job.id, "bold"), sep="", soft_wrap=True)
    if not as_json and not wait:
        next_step("To follow it", f"cortex jobs watch {job.id}", database_url)
    if not await plane.somebody_works_on(job):
        lead, command = "No worker is running that could take it. To start one", f"cortex worker {app or 'APP'}"
        next_step(lead, command, database_url, style="yellow", stderr=True)
