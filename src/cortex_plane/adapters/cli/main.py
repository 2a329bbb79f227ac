"""The command tree. What a command needs is imported when that command runs, so that `cortex --help` answers at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cortex_plane.adapters.cli.errors import guarded

if TYPE_CHECKING:
    from cyclopts import App

HERE = "cortex_plane.adapters.cli"


class Command(NamedTuple):
    """Where its function is, what it takes besides options, and what it does: the first line of that function's help."""

    target: str
    arguments: str
    sentence: str


GROUPS = {
    "jobs": "Submit jobs, look at them and steer them.",
    "db": "Look after the database.",
}

COMMANDS = {
    "worker": Command("worker:worker", "[APP]", "Run the agents of an app until you stop it."),
    "jobs submit": Command("submitting:submit", "AGENT [PAYLOAD ...]", "Submit a job for an agent."),
    "jobs list": Command("jobs:list_jobs", "", "List jobs, newest first."),
    "jobs show": Command("jobs:show", "ID", "Show one job: its data, its runs and its history."),
    "jobs watch": Command("jobs:watch", "ID", "Follow a job until it ends."),
    "jobs cancel": Command("jobs:cancel", "ID", "Cancel a job that has not ended."),
    "jobs retry": Command("jobs:retry", "ID", "Run a finished job again, as a new job."),
    "db status": Command("db:status", "", "Show which schema the database has."),
    "db upgrade": Command("db:upgrade", "", "Create the schema, or bring an older one up to date."),
    "db repair": Command("db:repair", "", "Mend jobs that a damaged database shows as running though nothing runs them."),
    "doctor": Command("doctor:doctor", "", "Check this installation and say what is wrong."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: _run(words))


def _run(words: list[str]) -> int:
    match words:
        case [] | ["help" | "--help" | "-h"]:
            from cortex_plane.adapters.cli.front_page import front_page

            print(front_page({path: command.sentence for path, command in COMMANDS.items()}, sys.stdout))
            return 0
        case ["--version" | "-V"]:
            from cortex_plane import __version__

            print(f"cortex-plane {__version__}")
            return 0
        case _:
            result = command_tree()(words, exit_on_error=False, print_error=False, result_action="return_value")
            return result if isinstance(result, int) else 0


def command_tree() -> App:
    root = _app("cortex", {path: command.sentence for path, command in COMMANDS.items()})
    groups: dict[str, App] = {"": root}
    for name, sentence in GROUPS.items():
        members = {path.split()[1]: command.sentence for path, command in COMMANDS.items() if path.startswith(f"{name} ")}
        groups[name] = _app(name, members, help=sentence)
        root.command(groups[name])
    for path, command in COMMANDS.items():
        group, _, name = path.rpartition(" ")
        usage = " ".join(["cortex", path, *command.arguments.split(), "[OPTIONS]"])
        groups[group].command(f"{HERE}.{command.target}", name=name, usage=usage)
    return root


def _app(name: str, sentences: Mapping[str, str], **options: Any) -> App:
    from cyclopts import App, Parameter

    from cortex_plane.adapters.cli.help import HelpFormatter

    return App(
        name,
        help_format="plaintext",
        help_formatter=HelpFormatter(sentences),
        version_flags=(),
        default_parameter=Parameter(negative=(), show_default=False),
        suppress_keyboard_interrupt=False,
        **options,
    )
