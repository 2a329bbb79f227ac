"""`cortex checkpoints`, `cortex jobs fork` and `cortex jobs replay`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import (
    App,
    AsJson,
    JobIdOrPrefix,
    OnlyDatabaseUrl,
    PlaneUrl,
    database_plane,
    existing_plane,
    goes_to_a_server,
    me,
)
from cortex_plane.errors import CheckpointCorrupted, InvalidInput

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.durable.service import CheckpointFinding
    from cortex_plane.jobs.model import JobId
    from cortex_plane.plane import Plane


LOOKS = {"same": ("✓", "green"), "ongoing": ("▶", "cyan"), "different": ("✗", "red")}
EXIT_DIFFERENT = 1


async def fork(
    job_id: JobIdOrPrefix,
    /,
    *,
    from_step: Annotated[
        str, Parameter(metavar="NAME", help="The first step that runs again; NAME#2 for its second occurrence.")
    ],
    app: App = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Start a job anew from one of its steps, as a new job.

    The new job has the same payload, and takes over the results of all steps before that one: they are not repeated.
    The old job is not changed. The app is needed only if its agents have never run on this database.

    Try:
        cortex jobs fork 0199a8c2 --from-step deploy
        cortex jobs fork 0199a8c2 --from-step fetch#3 --app examples/hello.py
    """
    from cortex_plane.cli.output import console, print_json, words
    from cortex_plane.durable.fork import steps_of

    async with _plane_for(app, plane_url) as plane:
        origin = await plane.jobs.find(job_id)
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

    The handler is called without side effects: every step is answered from the record, and nothing is written. The exit
    code is 0 if the code requests the recorded steps, whether the job has ended or not. It is 1 if it does not: a worker
    with this code could not resume the job.

    Try:
        cortex jobs replay 0199a8c2 examples/hello.py
    """
    from cortex_plane.cli.output import console, print_json, words

    async with app_plane(app, database_url) as plane:
        found = await plane.jobs.find(job_id)
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
async def _plane_for(app: str | None, database_url: str | None) -> AsyncIterator[Plane | Client]:
    from cortex_plane.settings import load_settings

    named = not goes_to_a_server(database_url, app) and (app or load_settings().app)
    async with app_plane(app, database_url) if named else existing_plane(database_url) as plane:
        yield plane


@asynccontextmanager
async def app_plane(app: str | None, database_url: str | None) -> AsyncIterator[Plane | Client]:
    """The plane of an app, with its code, on the given database."""
    from cortex_plane.cli.logs import configure_logs
    from cortex_plane.cli.planes import load_app

    plane = load_app(app, database_url)
    configure_logs(plane.settings, quiet=True)
    async with plane:
        yield plane


# -- checkpoints -------------------------------------------------------------------------------
# `cortex checkpoints`: show and verify checkpoints, and try new code on them.


EXIT_FOUND = 1
TELL_EVERY = 100


async def verify(*, database_url: OnlyDatabaseUrl = None, as_json: AsJson = False) -> int:
    """Check the checkpoint of every job that has not ended.

    Finds checkpoints that no worker could resume from: edited, truncated, of another agent or of a newer version. A job
    with such a checkpoint fails when it is resumed; the checkpoint is never overwritten. The exit code is 0 if all are
    valid, otherwise 1.

    Try:
        cortex checkpoints verify
        cortex checkpoints verify --json
    """
    async with database_plane(database_url) as plane:
        return await _looked_at(plane.checkpoints.verify(), "Checked", as_json)


async def migrate(
    app: Annotated[
        str | None,
        Parameter(name="APP", help="The app that has the agents: file.py, file.py:plane or module:plane. Otherwise CORTEX_APP."),
    ] = None,
    /,
    *,
    dry_run: Annotated[
        bool, Parameter(help="Try it, and change nothing. Always needed: jobs are migrated when resumed.")
    ] = False,
    database_url: OnlyDatabaseUrl = None,
    as_json: AsJson = False,
) -> int:
    """Try on every job that has not ended whether this code could go on with it.

    Runs the migrations of the platform and of the app's agents on copies, then replays each handler as cortex jobs replay
    does. Nothing is changed: a job is migrated when it is resumed. Reports the jobs whose record does not fit the code, and
    those that would request an approval again because its wording has changed. Jobs of agents that the app does not have
    are skipped. The exit code is 0 if all jobs could be resumed, otherwise 1.

    Try:
        cortex checkpoints migrate --dry-run examples/hello.py
    """
    if not dry_run:
        raise InvalidInput("Jobs are migrated when they are resumed; --dry-run tries it.", field="dry_run")
    async with app_plane(app, database_url) as plane:
        return await _looked_at(plane.checkpoints.try_migrations(), "Tried", as_json)


async def show(job_id: JobIdOrPrefix, /, *, database_url: OnlyDatabaseUrl = None) -> int:
    """Print a job's checkpoint, as indented JSON.

    Large results are stored separately, and appear as "blob" with their SHA-256. A damaged checkpoint is printed as it is
    stored, with the problem on stderr and exit code 1.

    Try:
        cortex checkpoints show 0199a8c2
    """
    from cortex_plane.cli.output import print_json

    async with database_plane(database_url) as plane:
        found = await plane.jobs.find(job_id)
        try:
            print_json(await plane.checkpoints.get(found))
            return 0
        except CheckpointCorrupted as corrupted:
            await _print_as_stored(plane, found)
            print(f"Damaged, {corrupted.kind}: {corrupted.details}", file=sys.stderr)
            return EXIT_FOUND


def schema() -> int:
    """Print the JSON Schema of checkpoints.

    It describes what cortex checkpoints show prints, what the view cortex.job_checkpoint shows, and the column job.checkpoint.

    Try:
        cortex schema checkpoint
    """
    from cortex_plane.cli.output import print_json
    from cortex_plane.plane import Plane
    from cortex_plane.settings import Settings

    print_json(Plane(settings=Settings()).checkpoints.schema())
    return 0


async def _print_as_stored(plane: Plane | Client, job_id: JobId) -> None:
    from cortex_plane.cli.output import print_json

    stored = await plane.store.checkpoints.load(job_id)
    if stored is None:
        return
    document = _as_stored(stored.document)
    if stored.segments:
        document = {"checkpoint": document, "segments": [_as_stored(segment.content) for segment in stored.segments]}
    if isinstance(document, str):
        print(document)
    else:
        print_json(document)


def _as_stored(text: str) -> Any:
    """The text itself if it is not JSON."""
    from cortex_plane.json import loads

    try:
        return loads(text)
    except ValueError:
        return text


async def _looked_at(findings: AsyncIterator[CheckpointFinding], verb: str, as_json: bool) -> int:
    """Shows progress in a terminal, then the findings; returns the exit code."""
    from cortex_plane.cli.output import console, print_json

    count, damaged, asking = 0, [], []
    with console(stderr=True).status(verb) if sys.stderr.isatty() else nullcontext() as progress:
        async for finding in findings:
            count += 1
            if finding.problem is not None:
                damaged.append(finding)
            elif finding.asks_again:
                asking.append(finding)
            if progress is not None and count % TELL_EVERY == 0:
                progress.update(f"{verb} {count:,}, damaged {len(damaged):,}")
    if as_json:
        print_json({"looked_at": count, "damaged": damaged, "asks_again": asking})
    else:
        _report(count, damaged, verb)
        _report_asking(asking)
    return EXIT_FOUND if damaged else 0


def _report(count: int, damaged: Sequence[CheckpointFinding], verb: str) -> None:
    from cortex_plane.cli.output import console, table, words

    say = console()
    counted = "1 checkpoint" if count == 1 else f"{count:,} checkpoints"
    if not damaged:
        sound = f"{verb} {counted}: a worker could resume from each." if count else "No live job has a checkpoint."
        say.print(words(sound, "green"))
        return
    say.print(words(f"{verb} {counted}; no worker could resume from {len(damaged):,}:", "red"))
    rows = [[words(one.job_id), words(one.agent), words(one.steps), words(one.kind), words(one.problem)] for one in damaged]
    say.print(table(["JOB", "AGENT", "STEPS", "KIND", "PROBLEM"], rows, right=[2]))


def _report_asking(asking: Sequence[CheckpointFinding]) -> None:
    from cortex_plane.cli.output import console, table, words

    if not asking:
        return
    jobs = "1 job" if len(asking) == 1 else f"{len(asking):,} jobs"
    console().print(
        words(f"{jobs} would ask for approval again, because the code words it otherwise than it was shown:", "yellow")
    )
    rows = [[words(one.job_id), words(one.agent), words(", ".join(one.asks_again))] for one in asking]
    console().print(table(["JOB", "AGENT", "APPROVAL"], rows))
