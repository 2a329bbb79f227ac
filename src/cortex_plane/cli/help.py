"""Help pages, and messages for wrong usage."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


TITLES = {"Parameters": "Options"}
WIDEST = 100


class HelpFormatter:
    """Implements cyclopts.help.protocols.HelpFormatter. `sentences` describes each command of a group, in order."""

    def __init__(self, sentences: Mapping[str, str]) -> None:
        self._sentences = sentences

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        from rich.text import Text

        console.print(Text.assemble(("Usage: ", "bold"), str(usage).strip(), "\n"), soft_wrap=True)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        from rich.text import Text

        text = Text(f"{_plain(description)}\n")
        text.highlight_regex(r"(?m)^    .*$", "cyan")
        console.print(text, soft_wrap=True)

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from rich.text import Text

        if not panel.entries:
            return
        rows = list(self._sentences.items()) if panel.format == "command" else list(_parameters(panel))
        names_width = max(len(name) for name, _ in rows)
        room = min(console.width, WIDEST) - names_width - 4
        page = Text(TITLES.get(str(panel.title), str(panel.title)), "bold")
        for name, description in rows:
            lines = textwrap.wrap(description, max(room, 20)) or [""]
            page.append(f"\n  {name.ljust(names_width)}", "not bold cyan")
            page.append("  " + f"\n{' ' * (names_width + 4)}".join(lines), "not bold")
        console.print(page, soft_wrap=True)
        console.print()


def _parameters(panel: HelpPanel) -> Iterator[tuple[str, str]]:
    for entry in panel.entries:
        yield ", ".join(entry.display_labels_with_metavar), _plain(entry.description)


def _plain(text: Any) -> str:
    """The text of a renderable of cyclopts."""
    plain = getattr(getattr(text, "primary_renderable", text), "plain", None)
    return str(plain if plain is not None else text or "").rstrip()


# -- usage -------------------------------------------------------------------------------------
# Messages for wrong arguments, with the help page to read.


KINDS = {int: "a whole number", float: "a number"}


def usage_message(error: CycloptsError) -> str:
    command = " ".join(["cortex", *(error.command_chain or ())])
    return "\n".join([_what_is_wrong(error), *_advice(error, command), f"For help: {command} --help"])


def _advice(error: CycloptsError, command: str) -> list[str]:
    if isinstance(error, UnknownOptionError) and command == "cortex jobs submit":
        return ["Write the agent's arguments without dashes: name=Ada"]
    return []


def _what_is_wrong(error: CycloptsError) -> str:
    error.verbose = False
    match error:
        case UnusedCliTokensError() if error.unused_tokens:
            return f'Unexpected argument "{error.unused_tokens[0]}".'
        case UnknownCommandError() if error.unused_tokens and error.unused_tokens[0].startswith("-"):
            return f'Unknown option "{error.unused_tokens[0]}". Options come after the command.'
        case MissingArgumentError() if error.argument is not None:
            name = error.keyword or error.argument.name
            return f"{name} needs a value." if name.startswith("-") else f"{name.upper()} is missing."
        case CoercionError(token=token, target_type=kind) if token is not None and kind in KINDS:
            return f'{token.keyword or "This"} must be {KINDS[kind]}, not "{token.value}".'
        case _:
            return str(error)
