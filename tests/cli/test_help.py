"""Help that comes at once and teaches by example."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import cortex_plane
from cortex_plane import __version__
from cortex_plane.cli.main import COMMANDS, HERE, main
from tests.cli.conftest import Cortex

FRONT_PAGE = """\
Cortex Plane: durable agent work, on one SQLite file or on PostgreSQL.

Usage: cortex COMMAND [OPTIONS]

Work
  new            Create a small project: an agent, its tests, and a README.
  dev            Run an app, a worker and the dashboard on this machine, and restart the worker when files change.
  worker         Run the agents of an app until you stop it.
  serve          Serve the HTTP API and the dashboard until you stop it.

Jobs
  jobs submit    Submit a job for an agent.
  jobs list      List jobs, newest first.
  jobs show      Show one job: its data, its steps, its runs and its history.
  jobs watch     Follow a job until it ends.
  jobs cancel    Cancel a job that has not ended.
  jobs resume    Go on with a job that failed or was cancelled, where it stopped.
  jobs settle    Say what became of an uncertain tool call, and go on with its job.
  jobs retry     Run a finished job again from the beginning, as a new job.
  jobs release   Try a job again that is held because its code did not fit.
  jobs fork      Start a job anew from one of its steps, as a new job.
  jobs replay    Compare an agent's code with what is recorded of a job.
  jobs why       Explain why a job is not running.
  jobs move      Move a waiting job within its queue.
  jobs priority  Change the priority of a waiting job.
  runs           Inspect the runs of jobs.

Steering
  queues         List, pause and limit queues, agents and tenants.
  workers        List and drain workers.
  gate           Stop new work everywhere, and start it again.
  approvals      List and decide approvals.
  templates      Save job definitions, and submit jobs from them.
  groups         Submit and inspect groups of jobs.
  schedules      Run agents, templates and graphs by cron rules.
  grants         Manage the permissions that scheduled work runs under.
  billing        Manage the accounts that scheduled work is charged to.
  webhooks       Send signed messages when jobs end.

Administration
  tenants        Manage the tenants that own jobs.
  keys           Manage API keys.
  sessions       Manage the conversations that jobs belong to.
  users          Manage users: roles, passwords and addresses.
  user-groups    Manage groups of users, for approvals.
  budgets        Limit what agents and tenants may spend.
  retention      Set how long finished jobs are kept.
  checkpoints    Verify checkpoints, and test new code against them.
  schema         Print the JSON Schema of stored data.
  audit          List audit entries, and verify the audit log.
  db             Inspect and upgrade the database.
  completion     Print a completion script for a shell.
  doctor         Check the settings, the database and the workers.

First steps
  cortex new otters                             create a project, and show the next commands
  cortex worker examples/hello.py               in one terminal
  cortex jobs submit greet name=Ada --wait      in another
  cortex jobs submit --help                     help for a command

Default database: sqlite:///cortex.db. Change it with --database-url, CORTEX_DATABASE_URL or cortex.toml.
To use a server: --server or CORTEX_SERVER, with the API key in CORTEX_API_KEY.
Exit codes: 0 success, 1 unexpected error, 2 invalid input, 3 not found, 4 conflict, 5 unavailable, 6 denied,
7 the job failed or was cancelled, 130 interrupted.
"""

JOBS_PAGE = """\
Usage: cortex jobs COMMAND

Submit, inspect and control jobs.

Commands
  submit    Submit a job for an agent.
  list      List jobs, newest first.
  show      Show one job: its data, its steps, its runs and its history.
  watch     Follow a job until it ends.
  cancel    Cancel a job that has not ended.
  resume    Go on with a job that failed or was cancelled, where it stopped.
  settle    Say what became of an uncertain tool call, and go on with its job.
  retry     Run a finished job again from the beginning, as a new job.
  release   Try a job again that is held because its code did not fit.
  fork      Start a job anew from one of its steps, as a new job.
  replay    Compare an agent's code with what is recorded of a job.
  why       Explain why a job is not running.
  move      Move a waiting job within its queue.
  priority  Change the priority of a waiting job.

"""

CANCEL_PAGE = """\
Usage: cortex jobs cancel ID [OPTIONS]

Cancel a job that has not ended.

A job that runs is cancelled at once; its worker is told, and interrupts the handler. A job that
has an open cleanup scope is asked to end, and is cancelled when it has cleaned up.

Try:
    cortex jobs cancel 0199a8c2 --reason "wrong version"
    cortex jobs cancel 0199a8c2 --kill

Arguments
  ID  The job's id, or the first part of it.

Options
  --reason TEXT                 Why; it is kept in the job's history.
  --kill                        At once, also if the job would clean up first.
  --database-url, --server URL  URL of the database, sqlite:///file.db or
                                postgresql://user@host/database; or of a server,
                                https://plane.example.com, with the API key in CORTEX_API_KEY.
  --json                        Print only one JSON document on stdout.

"""


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_front_page_shows_every_command_or_its_group(cortex: Cortex, words: list[str]) -> None:
    result = cortex(*words)

    assert (result.code, result.err) == (0, "")
    assert result.out == FRONT_PAGE
    assert all(path in result.out or f"\n  {path.split()[0]} " in result.out for path in COMMANDS)


def test_a_group_lists_its_commands(cortex: Cortex) -> None:
    assert cortex("jobs").out == JOBS_PAGE
    assert cortex("jobs", "--help").out == JOBS_PAGE


def test_a_command_explains_its_options(cortex: Cortex) -> None:
    assert cortex("jobs", "cancel", "--help").out == CANCEL_PAGE


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_says_what_it_does_and_shows_an_example(cortex: Cortex, path: str) -> None:
    result = cortex(*path.split(), "--help")

    assert (result.code, result.err) == (0, "")
    assert f"Usage: cortex {path}" in result.out
    assert COMMANDS[path].sentence in result.out
    assert f"Try:\n    cortex {path}" in result.out


@pytest.mark.parametrize("path", COMMANDS)
def test_the_sentence_in_the_tree_is_the_first_line_of_the_function(path: str) -> None:
    command = COMMANDS[path]
    module, _, function = command.target.partition(":")

    text = getattr(importlib.import_module(f"{HERE}.{module}"), function).__doc__

    assert text.splitlines()[0] == command.sentence


def test_the_version_is_printed(cortex: Cortex) -> None:
    assert cortex("--version").out == f"cortex-plane {__version__}\n"


def test_the_program_cortex_is_this_function() -> None:
    (entry,) = entry_points(group="console_scripts", name="cortex")

    assert entry.load() is main


HEAVY = ("asyncio", "asyncpg", "apsw", "cyclopts", "orjson", "rich", "structlog")
# So that the front page comes at once on a slow machine too, what it may load is counted, not how long that takes here.
MOST_MODULES = 70
BARE = f"import sys; sys.path.insert(0, {str(Path(cortex_plane.__file__).parents[1])!r})"
ASK = """
import sys
before = {*sys.modules}
from cortex_plane.cli.main import main
main(["--help"])
print(" ".join({*sys.modules} - before))
"""


def test_the_front_page_loads_no_library_and_few_modules(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-I", "-S", "-c", BARE + ASK], capture_output=True, text=True, check=True)

    loaded = done.stdout.splitlines()[-1].split()
    assert [name for name in HEAVY if name in loaded] == []
    assert len(loaded) <= MOST_MODULES, sorted(loaded)


def test_no_command_loads_a_database_before_it_runs(folder: Path) -> None:
    modules = sorted({f"{HERE}.{command.target.partition(':')[0]}" for command in COMMANDS.values()})
    ask = f"import sys, {', '.join(modules)}; print([name for name in ('apsw', 'asyncpg') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
