"""`--watch`: runs a command every two seconds, and prints its output when it has changed."""

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

from cortex_plane.errors import Unavailable

EVERY_SECONDS = 2.0
HELP = "Show it again after every change, until Ctrl-C. With --json, one document per line."

Command = Callable[..., Awaitable[int]]
Printed = Callable[[bool], Awaitable[str]]
"""Returns the current output of the command; as JSON if the argument is true."""


def watchable(command: Command) -> Command:
    """Adds the option --watch to a command. The command must have --json."""

    @functools.wraps(command)
    async def shown(*arguments: Any, watch: bool = False, as_json: bool = False, **options: Any) -> int:
        if not watch:
            return await command(*arguments, as_json=as_json, **options)

        async def printed(as_json: bool) -> str:
            return await _printed_by(command(*arguments, as_json=as_json, **options))

        with _display(as_json=as_json) as display:
            return await _follow(printed, display)

    # The signature that cyclopts reads: the command's parameters and --watch, with resolved types.
    del shown.__wrapped__
    types = get_type_hints(command, include_extras=True)
    parameters = [known.replace(annotation=types[known.name]) for known in inspect.signature(command).parameters.values()]
    place = next((at for at, known in enumerate(parameters) if known.name == "plane_url"), len(parameters))
    watch_option = Annotated[bool, Parameter(help=HELP)]
    parameters.insert(place, inspect.Parameter("watch", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=watch_option))
    shown.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    shown.__annotations__ = {**types, "watch": watch_option}
    return shown


async def _follow(printed: Printed, display: Display) -> int:
    """Errors of the first run end the command. Later ones are shown, and the command is tried again."""
    await display.look(printed)
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        try:
            await display.look(printed)
        except Unavailable as error:
            display.complain(str(error))


async def _printed_by(command: Awaitable[int]) -> str:
    with redirect_stdout(_Page(sys.stdout)) as page:
        await command
    return page.getvalue()


class _Page(io.StringIO):
    """Replaces stdout, and reports a terminal if stdout is one, so that colours are kept."""

    def __init__(self, real: TextIO) -> None:
        super().__init__()
        self._real = real

    def isatty(self) -> bool:
        return self._real.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._real.encoding


# -- display -------------------------------------------------------------------------------------
class Display(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    async def look(self, printed: Printed) -> None: ...

    def complain(self, message: str) -> None: ...


def _display(*, as_json: bool) -> Display:
    if sys.stdout.isatty() and not as_json:
        return Terminal()
    return JsonLines() if as_json else Pages()


class JsonLines:
    """Prints one line for each change."""

    def __init__(self) -> None:
        self._last: str | None = None
        self._complaint: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def look(self, printed: Printed) -> None:
        document, last = await printed(True), self._last
        if document != last:
            await self.tell(document, printed, is_first=last is None)
        self._last, self._complaint = document, None

    async def tell(self, document: str, printed: Printed, *, is_first: bool) -> None:
        import orjson

        print(orjson.dumps(orjson.loads(document)).decode(), flush=True)

    def complain(self, message: str) -> None:
        if message != self._complaint:
            print(message, file=sys.stderr, flush=True)
        self._complaint = message


class Pages(JsonLines):
    """Prints a page for each change, separated by blank lines. Changes are detected in the JSON, so ages do not count."""

    async def tell(self, document: str, printed: Printed, *, is_first: bool) -> None:
        print(("" if is_first else "\n") + await printed(False), end="", flush=True)


class Terminal:
    """Redraws one page in the terminal."""

    def __init__(self) -> None:
        from rich.live import Live

        from cortex_plane.cli.output import console

        self._live = Live(console=console(), auto_refresh=False)
        self._page = ""

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    async def look(self, printed: Printed) -> None:
        self._page = await printed(False)
        self._draw(self._page)

    def complain(self, message: str) -> None:
        self._draw(f"{self._page}\n{message}")

    def _draw(self, page: str) -> None:
        from rich.text import Text

        self._live.update(Text.from_ansi(page.rstrip("\n")), refresh=True)
