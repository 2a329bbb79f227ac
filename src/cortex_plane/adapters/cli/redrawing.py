"""`--watch`: a command that shows something shows it again whenever it has changed, until it is left.

The command itself knows nothing of it: it is run again every two seconds, and what it prints is compared.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import io
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from typing import Annotated, Any, Protocol, Self, TextIO, get_type_hints

from cyclopts import Parameter

from cortex_plane.core.errors import Unavailable

EVERY_SECONDS = 2.0
HELP = "Show it anew whenever something has changed, until Ctrl-C. With --json, one document on each line."

Command = Callable[..., Awaitable[int]]


def watchable(command: Command) -> Command:
    """The same command with the option --watch."""

    @functools.wraps(command)
    async def shown(*arguments: Any, watch: bool = False, **options: Any) -> int:
        if not watch:
            return await command(*arguments, **options)
        with _display(as_json=bool(options.get("as_json"))) as display:
            return await _follow(lambda: command(*arguments, **options), display)

    # What cyclopts reads: the command's own parameters and one more, with types that need no module to look them up in.
    del shown.__wrapped__
    types = get_type_hints(command, include_extras=True)
    parameters = [known.replace(annotation=types[known.name]) for known in inspect.signature(command).parameters.values()]
    place = next((at for at, known in enumerate(parameters) if known.name == "database_url"), len(parameters))
    watch_option = Annotated[bool, Parameter(help=HELP)]
    parameters.insert(place, inspect.Parameter("watch", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=watch_option))
    shown.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    shown.__annotations__ = {**types, "watch": watch_option}
    return shown


async def _follow(look: Callable[[], Awaitable[int]], display: Display) -> int:
    """A first look that fails ends it. Later ones may fail for a while: the database comes back."""
    display.show(await _printed_by(look))
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        try:
            display.show(await _printed_by(look))
        except Unavailable as error:
            display.complain(str(error))


async def _printed_by(look: Callable[[], Awaitable[int]]) -> str:
    with redirect_stdout(_Page(sys.stdout)) as page:
        await look()
    return page.getvalue()


class _Page(io.StringIO):
    """Takes the place of stdout, and passes for a terminal where that is one, so that colours stay."""

    def __init__(self, real: TextIO) -> None:
        super().__init__()
        self._real = real

    def isatty(self) -> bool:
        return self._real.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._real.encoding


# -- where it is shown ---------------------------------------------------------------------------


class Display(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, page: str) -> None: ...

    def complain(self, message: str) -> None: ...


def _display(*, as_json: bool) -> Display:
    if as_json:
        return JsonLines()
    return Terminal() if sys.stdout.isatty() else Pages()


class Pages:
    """For a pipe: a whole page for each change, with a blank line between."""

    def __init__(self) -> None:
        self._last: str | None = None
        self._complaint: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, page: str) -> None:
        form = self.form(page)
        if form != self._last:
            print(form if self._last is None else self.separator() + form, end="", flush=True)
        self._last, self._complaint = form, None

    def complain(self, message: str) -> None:
        if message != self._complaint:
            print(message, file=sys.stderr, flush=True)
        self._complaint = message

    def form(self, page: str) -> str:
        return page

    def separator(self) -> str:
        return "\n"


class JsonLines(Pages):
    def form(self, page: str) -> str:
        import orjson

        return orjson.dumps(orjson.loads(page), option=orjson.OPT_APPEND_NEWLINE).decode()

    def separator(self) -> str:
        return ""


class Terminal:
    """One page that is drawn over."""

    def __init__(self) -> None:
        from rich.live import Live

        from cortex_plane.adapters.cli.output import console

        self._live = Live(console=console(), auto_refresh=False, transient=False)
        self._page = ""

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, page: str) -> None:
        self._page = page
        self._draw(page)

    def complain(self, message: str) -> None:
        self._draw(f"{self._page}\n{message}")

    def _draw(self, page: str) -> None:
        from rich.text import Text

        self._live.update(Text.from_ansi(page.rstrip("\n")), refresh=True)
