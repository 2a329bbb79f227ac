"""`cortex jobs fork` and `replay`: start anew from a step, and compare the code with what is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import App, AsJson, JobIdOrPrefix, OnlyDatabaseUrl, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane, goes_to_a_server, me

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

LOOKS = {"same": ("✓", "green"), "ongoing": ("▶", "cyan"), "different": ("✗", "red")}
EXIT_DIFFERENT = 1


async def fork(
    job_id: JobIdOrPrefix,
    /,
    *,
    from_step: Annotated[str, Parameter(metavar="NAME", help="The first step that runs anew; NAME#2 for its second time.")],
    app: App = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Start a job anew from one of its steps, as a new job.

    The new job has the same payload, and takes the results of all steps before that one from the old job: they are
    not repeated. The old job stays as it is. The app is needed only if its agents have never run here.

    Try:
        cortex jobs fork 0199a8c2 --from-step deploy
        cortex jobs fork 0199a8c2 --from-step fetch#3 --app examples/hello.py
    """
    from cortex_plane.adapters.cli.output import console, print_json, words
    from cortex_plane.runtime.durable.forking import steps_of

    async with _plane_for(app, plane_url) as plane:
        origin = await plane.find(job_id)
        made = await plane.checkpoints.fork(origin, from_step, created_by=me())
        taken_over = steps_of(await plane.checkpoints.get(made.id))
    if as_json:
        print_json({"id": made.id, "fork_of": origin, "from_step": from_step, "taken_over": taken_over})
        return 0
    say = console()
    say.print(words("Forked as "), words(made.id, "bold"), sep="", soft_wrap=True)
    say.print(words(f"  takes over  {', '.join(taken_over) or 'nothing'}"), soft_wrap=True)
    say.print(words(f"  begins at   {from_step}"), soft_wrap=True)
    next_step("To follow it", f"cortex jobs watch {made.id}", plane_url)
    next_step("If no worker runs", f"cortex worker {app or 'APP'}", plane_url)
    return 0


async def replay(
    job_id: JobIdOrPrefix,
    app: Annotated[
        str | None,
        Parameter(name="APP", help="The app that has the agent: file.py, file.py:plane or module:plane. Otherwise CORTEX_APP."),
    ] = None,
    /,
    *,
    database_url: OnlyDatabaseUrl = None,
    as_json: AsJson = False,
) -> int:
    """Compare an agent's code with what is recorded of a job.

    The code is called, but nothing is done and nothing is written: every step is answered from the record. The exit
    code is 0 if the code asks for the same, whether the job has ended or not. It is 1 if it does not: then a worker
    with this code could not go on.

    Try:
        cortex jobs replay 0199a8c2 examples/hello.py
    """
    from cortex_plane.adapters.cli.output import console, print_json, words

    async with app_plane(app, database_url) as plane:
        found = await plane.find(job_id)
        result = await plane.checkpoints.replay(found)
    if as_json:
        print_json({"id": found, "verdict": result.verdict, "answered": result.answered, "message": result.message})
    else:
        symbol, colour = LOOKS[result.verdict]
        steps = "1 call was" if result.answered == 1 else f"{result.answered} calls were"
        say = console()
        say.print(
            words(f"{symbol} {result.verdict}", colour), words(f"  {steps} answered from the record"), sep="", soft_wrap=True
        )
        say.print(words(result.message), soft_wrap=True)
    return EXIT_DIFFERENT if result.verdict == "different" else 0


@asynccontextmanager
async def _plane_for(app: str | None, database_url: str | None) -> AsyncIterator[Plane]:
    from cortex_plane.settings import load_settings

    named = not goes_to_a_server(database_url, app) and (app or load_settings().app)
    async with app_plane(app, database_url) if named else existing_plane(database_url) as plane:
        yield plane


@asynccontextmanager
async def app_plane(app: str | None, database_url: str | None) -> AsyncIterator[Plane]:
    """The plane of an app, with its code, on the database that was asked for."""
    from cortex_plane.adapters.cli.apps import load_app
    from cortex_plane.adapters.cli.logs import configure_logs

    plane = load_app(app, database_url)
    configure_logs(plane.settings, quiet=True)
    async with plane:
        yield plane
