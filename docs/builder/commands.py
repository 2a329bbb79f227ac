"""Every command with the help that it prints itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

from rich.console import Console

from cortex_plane.cli import errors
from cortex_plane.cli.main import COMMANDS, GROUPS, command_tree
from docs.builder.markdown import code, table

WIDTH = 100


def page() -> str:
    return "\n".join(_parts())


def _parts() -> Iterator[str]:
    yield "# Commands\n"
    yield "Each prints its part of this page with `--help`. Errors go to stderr; `--json` prints one document on stdout.\n"
    yield "## Exit codes\n"
    yield table(["code", "meaning"], _exit_codes())
    seen: set[str] = set()
    for path, command in COMMANDS.items():
        group = path.partition(" ")[0]
        if group in GROUPS and group not in seen:
            seen.add(group)
            yield f"## cortex {group}\n\n{GROUPS[group]}\n"
        yield f"{'###' if group in GROUPS else '##'} cortex {path}\n"
        yield f"{command.sentence}\n"
        yield code(_help(path))


def _help(path: str) -> str:
    out = StringIO()
    console = Console(file=out, width=WIDTH, no_color=True, highlight=False)
    command_tree().help_print(path.split(), console=console)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _exit_codes() -> list[tuple[str, str]]:
    """As the docstring of the module that decides them has it, in two columns."""
    found = re.findall(r"(?:^|\s{2,})(\d+)\s+(\S.*?)(?=\s{3,}|$)", errors.__doc__ or "", re.MULTILINE)
    return sorted(((number, meaning) for number, meaning in found), key=lambda pair: int(pair[0]))
