"""`cortex checkpoints`: look at what is recorded of jobs, check it, try new code on it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.adapters.cli.forking import app_plane
from cortex_plane.adapters.cli.options import AsJson, JobIdOrPrefix, OnlyDatabaseUrl
from cortex_plane.adapters.cli.planes import database_plane
from cortex_plane.core.errors import CheckpointCorrupted, InvalidInput

if TYPE_CHECKING:
    from cortex_plane.checkpoints import Finding
    from cortex_plane.core.jobs import JobId
    from cortex_plane.plane import Plane

EXIT_FOUND = 1
TELL_EVERY = 100


async def verify(*, database_url: OnlyDatabaseUrl = None, as_json: AsJson = False) -> int:
    """Check the checkpoint of every job that has not ended.

    Finds those from which a worker could not go on: changed by hand, cut off, of another agent, of a newer version. A
    job with such a checkpoint fails when it is resumed; the checkpoint is never overwritten. The exit code is 0 if all
    are sound, else 1.

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

    Runs the migrations of the platform and of the app's agents on copies, and changes nothing: a job is migrated when
    it is resumed. Jobs of agents that the app does not have are left out. The exit code is 0 if all would go, else 1.

    Try:
        cortex checkpoints migrate --dry-run examples/hello.py
    """
    if not dry_run:
        raise InvalidInput("Jobs are migrated when they are resumed; --dry-run tries it.", field="dry_run")
    async with app_plane(app, database_url) as plane:
        return await _looked_at(plane.checkpoints.try_migrations(), "Tried", as_json)


async def show(job_id: JobIdOrPrefix, /, *, database_url: OnlyDatabaseUrl = None) -> int:
    """Print a job's checkpoint, as indented JSON.

    Large results are kept apart, and appear as "blob" with their SHA-256. A damaged checkpoint is printed as it is
    stored, with what is wrong with it on stderr; the exit code is 1 then.

    Try:
        cortex checkpoints show 0199a8c2
    """
    from cortex_plane.adapters.cli.output import print_json

    async with database_plane(database_url) as plane:
        found = await plane.find(job_id)
        try:
            print_json(await plane.checkpoints.get(found))
            return 0
        except CheckpointCorrupted as corrupted:
            await _print_as_stored(plane, found)
            print(f"Damaged, {corrupted.kind}: {corrupted.details}", file=sys.stderr)
            return EXIT_FOUND


def schema() -> int:
    """Print the JSON Schema of checkpoints.

    It describes what cortex checkpoints show prints, and what the column job.checkpoint holds where checkpoint_added is empty.

    Try:
        cortex schema checkpoint
    """
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.plane import Plane
    from cortex_plane.settings import Settings

    print_json(Plane(settings=Settings()).checkpoints.schema())
    return 0


async def _print_as_stored(plane: Plane, job_id: JobId) -> None:
    from cortex_plane.adapters.cli.output import print_json

    stored = await (await plane.store).checkpoints.load(job_id)
    if stored is None:
        return
    document = _as_stored(stored.document)
    if stored.added is not None:
        document = {"checkpoint": document, "checkpoint_added": _as_stored(stored.added)}
    if isinstance(document, str):
        print(document)
    else:
        print_json(document)


def _as_stored(text: str) -> Any:
    """The text itself where it is no JSON."""
    from cortex_plane.ports.json_text import loads

    try:
        return loads(text)
    except ValueError:
        return text


async def _looked_at(findings: AsyncIterator[Finding], verb: str, as_json: bool) -> int:
    """Says in a terminal how far it is, and then what was found; returns the exit code."""
    from cortex_plane.adapters.cli.output import console, print_json

    count, damaged = 0, []
    with console(stderr=True).status(verb) if sys.stderr.isatty() else nullcontext() as progress:
        async for finding in findings:
            count += 1
            if finding.problem is not None:
                damaged.append(finding)
            if progress is not None and count % TELL_EVERY == 0:
                progress.update(f"{verb} {count:,}, damaged {len(damaged):,}")
    if as_json:
        print_json({"looked_at": count, "damaged": damaged})
    else:
        _report(count, damaged, verb)
    return EXIT_FOUND if damaged else 0


def _report(count: int, damaged: Sequence[Finding], verb: str) -> None:
    from cortex_plane.adapters.cli.output import console, table, words

    say = console()
    counted = "1 checkpoint" if count == 1 else f"{count:,} checkpoints"
    if not damaged:
        sound = f"{verb} {counted}: a worker could go on from each." if count else "No live job has a checkpoint."
        say.print(words(sound, "green"))
        return
    say.print(words(f"{verb} {counted}; a worker could not go on from {len(damaged):,}:", "red"))
    rows = [[words(one.job_id), words(one.agent), words(one.steps), words(one.kind), words(one.problem)] for one in damaged]
    say.print(table(["JOB", "AGENT", "STEPS", "KIND", "PROBLEM"], rows, right=[2]))
