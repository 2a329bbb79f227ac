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

from cortex_plane.errors import Unavailable

EVERY_SECONDS = 2.0
HELP = "Show it anew whenever something has changed, until Ctrl-C. With --json, one document on each line."

Command = Callable[..., Awaitable[int]]
Printed = Callable[[bool], Awaitable[str]]
"""What the command prints now; as JSON, if that is asked for."""


def watchable(command: Command) -> Command:
    """The same command with the option --watch. It must have --json."""

    @functools.wraps(command)
    async def shown(*arguments: Any, watch: bool = False, as_json: bool = False, **options: Any) -> int:
        if not watch:
            return await command(*arguments, as_json=as_json, **options)

        async def printed(as_json: bool) -> str:
            return await _printed_by(command(*arguments, as_json=as_json, **options))

        with _display(as_json=as_json) as display:
            return await _follow(printed, display)

    # What cyclopts reads: the command's own parameters and one more, with types that need no module to look them up in.
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
    """A first look that fails ends it. Later ones may fail for a while: the database comes back."""
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

    async def look(self, printed: Printed) -> None: ...

    def complain(self, message: str) -> None: ...


def _display(*, as_json: bool) -> Display:
    if sys.stdout.isatty() and not as_json:
        return Terminal()
    return JsonLines() if as_json else Pages()


class JsonLines:
    """A line for each change."""

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
    """For a pipe: a page for each change, with a blank line between. That somebody is a second older is no change."""

    async def tell(self, document: str, printed: Printed, *, is_first: bool) -> None:
        print(("" if is_first else "\n") + await printed(False), end="", flush=True)


class Terminal:
    """One page that is drawn over."""

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
