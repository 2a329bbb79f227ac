"""Shared options of commands, and the plane or app that a command works on."""

from __future__ import annotations

import getpass
import importlib.util
import sys
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

from cyclopts import Parameter

from cortex_plane.cli.logs import configure_logs
from cortex_plane.errors import DatabaseConfigError, InvalidInput, NotFound, did_you_mean
from cortex_plane.server_urls import NeedsDatabase, checked_server, is_server
from cortex_plane.settings import Settings, load_settings

if TYPE_CHECKING:
    from cyclopts import Token

    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


def _place(_kind: Any, tokens: Sequence[Token]) -> str:
    """Both options accept both kinds of URL; the scheme decides between server and database."""
    given = tokens[0]
    return checked_server(given.value) if given.keyword == "--server" else given.value


def _database(_kind: Any, tokens: Sequence[Token]) -> str:
    if is_server(tokens[0].value):
        raise NeedsDatabase("This command")
    return tokens[0].value


PlaneUrl = Annotated[
    str | None,
    Parameter(
        name=["--database-url", "--server"],
        metavar="URL",
        converter=_place,
        help="URL of the database, sqlite:///file.db or postgresql://user@host/database; or of a server, "
        "https://plane.example.com, with the API key in CORTEX_API_KEY.",
    ),
]
"""For commands that work on a database or through a server. There is no option for the API key: arguments are visible to other
users of the machine, and stored in the shell's history."""

OnlyDatabaseUrl = Annotated[
    str | None,
    Parameter(
        name="--database-url",
        metavar="URL",
        converter=_database,
        help="URL of the database: sqlite:///file.db or postgresql://user@host/database.",
    ),
]

AsJson = Annotated[bool, Parameter(name="--json", help="Print only one JSON document on stdout.")]

Reason = Annotated[str | None, Parameter(metavar="TEXT", help="The reason, stored with the change and in the audit log.")]

JobIdOrPrefix = Annotated[str, Parameter(name="ID", help="The job's id, or the first part of it.")]

App = Annotated[
    str | None,
    Parameter(metavar="APP", help="The app with the agents: file.py, file.py:plane or module:plane (default: CORTEX_APP)."),
]


# -- planes ------------------------------------------------------------------------------------
# The plane that a command works on: a database, or a server.


SQLITE = "sqlite:///"


@asynccontextmanager
async def existing_plane(url: str | None) -> AsyncIterator[Plane | Client]:
    """The plane for commands that need no agents: in a database, or behind a server."""
    settings = _settings(url)
    if not settings.server or (url is not None and not is_server(url)):
        async with database_plane(url) as plane:
            yield plane
        return
    from cortex_plane.client import Client

    configure_logs(settings, quiet=True)
    async with Client(settings.server, settings.api_key, settings.server_tenant) as plane:
        yield plane


@asynccontextmanager
async def plane_for(app: str | None, url: str | None) -> AsyncIterator[Plane | Client]:
    """The plane of an app, with its agents, channels and database; without an app, like `existing_plane`. Through a server,
    the app is ignored."""

    if goes_to_a_server(url, app) or not (app or load_settings().app):
        async with existing_plane(url) as plane:
            yield plane
        return
    plane = load_app(app, url)
    configure_logs(plane.settings, quiet=True)
    async with plane:
        yield plane


def goes_to_a_server(url: str | None, app: str | None = None) -> bool:
    """Whether the command goes through a server. An app given on the command line implies a database."""
    if is_server(url) and app is not None:
        raise NeedsDatabase("--app")
    return is_server(url) or (url is None and app is None and bool(load_settings().server))


def _settings(url: str | None) -> Settings:
    return load_settings({"server" if is_server(url) else "database_url": url})


def refuse_a_server(settings: Settings, database_url: str | None) -> None:
    """Raises NeedsDatabase if CORTEX_SERVER is set but no database: the command must not create a local one silently."""
    if database_url is None and settings.server and settings.database_url == Settings().database_url:
        raise NeedsDatabase("CORTEX_SERVER is set, but this command")


@asynccontextmanager
async def database_plane(database_url: str | None) -> AsyncIterator[Plane]:
    """The plane in a database. Raises DatabaseConfigError instead of creating a database."""
    from cortex_plane.plane import Plane

    settings = load_settings({"database_url": database_url})
    refuse_a_server(settings, database_url)
    configure_logs(settings, quiet=True)
    await _require_schema(settings.database_url)
    async with Plane(settings=settings) as plane:
        yield plane


async def _require_schema(database_url: str) -> None:
    from cortex_plane.wiring import open_store

    store = open_store(database_url)
    if file := sqlite_file(database_url):
        if not file.exists():
            raise DatabaseConfigError(missing_file(file))
    elif not (await store.schema.status()).current:
        raise DatabaseConfigError(f"{store.description} has no Cortex Plane schema yet. To create it: cortex db upgrade")


def sqlite_file(database_url: str) -> Path | None:
    return Path(unquote(database_url.removeprefix(SQLITE))) if database_url.startswith(SQLITE) else None


def missing_file(file: Path) -> str:
    return (
        f"There is no database file {file}. Create it with cortex db upgrade, or start a worker: cortex worker APP\n"
        "To use another database, pass --database-url or set CORTEX_DATABASE_URL. To use a server, pass --server."
    )


def me() -> str:
    """The actor of this command, for the audit log."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError, ImportError):
        return "cli"


# -- apps --------------------------------------------------------------------------------------
# Loads APP: `file.py`, `file.py:plane`, `module:plane`, or `module`. The default attribute is `plane`.


ATTRIBUTE = "plane"
FRAMES_SHOWN = 3
PACKAGE = Path(__file__).parents[1]


def load_app(app: str | None, database_url: str | None = None) -> Plane:
    """Imports the plane that APP names. `database_url` overrides its database.

    Raises NotFound or InvalidInput if there is no such plane, or if the import fails."""
    settings = load_settings()  # Also with an app: errors in settings are clearer here than from inside its import.
    wanted = app or settings.app
    if not wanted:
        raise InvalidInput(
            "No app given. Name the file with your plane, such as: cortex worker examples/hello.py\nOr set CORTEX_APP.",
            field="app",
        )
    place, attribute = _parted(wanted)
    plane = _plane_in(_module(place), place, attribute)
    plane.app = _elsewhere(place, attribute)
    refuse_a_server(plane.settings, database_url)
    if database_url is not None:
        plane.settings = replace(plane.settings, database_url=database_url)
    return plane


def _elsewhere(place: str, attribute: str | None) -> str:
    """The app as a process in another folder names it."""
    name = str(Path(place).resolve()) if place.endswith(".py") or "/" in place or "\\" in place else place
    return f"{name}:{attribute}" if attribute else name


def _parted(app: str) -> tuple[str, str | None]:
    place, colon, attribute = app.rpartition(":")
    return (place, attribute) if colon and place and not set("/\\") & set(attribute) else (app, None)


def _module(place: str) -> ModuleType:
    if place.endswith(".py") or "/" in place or "\\" in place:
        return _from_file(Path(place))
    _look_first_in(Path.cwd())
    return _imported(place, place)


# -- files ---------------------------------------------------------------------------------------
def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NotFound(_no_such_file(path))
    if path.suffix != ".py":
        raise InvalidInput(f"{path} is not a Python file. An app is file.py, file.py:plane or module:plane.", field="app")
    folder, names = path.resolve().parent, [path.stem]
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    _look_first_in(folder)
    return _imported(".".join(names), str(path)) if len(names) > 1 else _executed(path)


def _executed(path: Path) -> ModuleType:
    """A file outside a package. It gets a distinct module name if its own would shadow a module of Python, such as `queue`."""
    name = path.stem if path.stem not in sys.modules and path.stem not in sys.stdlib_module_names else f"cortex_app_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(str(path), error) from error
    return module


def _no_such_file(path: Path) -> str:
    if path.is_dir():
        found = sorted(str(file) for file in path.glob("*.py"))
        return f"{path} is a folder. Name the file with your plane{f', such as {found[0]}' if found else ''}."
    if not path.parent.is_dir():
        return f"There is no file {path}, and no folder {path.parent} either. You are in {Path.cwd()}."
    neighbours = {file.name: str(file) for file in path.parent.glob("*.py")}
    hint = did_you_mean(path.name, neighbours) or (
        f" In that folder there are: {', '.join(sorted(neighbours))}." if neighbours else ""
    )
    return f"There is no file {path}.{hint} You are in {Path.cwd()}."


# -- modules -------------------------------------------------------------------------------------
def _look_first_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _imported(name: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotFound(_no_such_module(error.name)) from error
        raise _broken(place, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(place, error) from error


def _no_such_module(name: str) -> str:
    files = [file.stem for file in Path.cwd().glob("*.py")]
    return (
        f'There is no module "{name}".{did_you_mean(name, files)} '
        f"To name a file instead, write its path with .py at the end. You are in {Path.cwd()}."
    )


def _broken(place: str, error: BaseException) -> InvalidInput:
    """The last frames of the user's code, without libraries, importlib and Cortex Plane."""
    if isinstance(error, SystemExit):
        return InvalidInput(f'{place} called exit during its import. Move the call under if __name__ == "__main__".')
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not _is_machinery(frame.filename)]
    lines = [f'  File "{at.filename}", line {at.lineno}, in {at.name}\n    {at.line}' for at in theirs[-FRAMES_SHOWN:]]
    lines += [line.rstrip() for line in traceback.format_exception_only(error)]
    return InvalidInput("\n".join([f"{place} cannot be imported:", *lines]), field="app")


def _is_machinery(filename: str) -> bool:
    if filename.startswith(("<frozen ", str(PACKAGE))):
        return True
    return any(folder in Path(filename).parts for folder in ("site-packages", "importlib"))


# -- attributes ----------------------------------------------------------------------------------
def _plane_in(module: ModuleType, place: str, attribute: str | None) -> Plane:
    from cortex_plane.plane import Plane

    found = _attribute(module, attribute or ATTRIBUTE)
    if isinstance(found, Plane):
        return found
    planes = [name for name, value in vars(module).items() if isinstance(value, Plane)]
    raise _not_a_plane(found, place, attribute or ATTRIBUTE, planes)


def _attribute(module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _not_a_plane(found: Any, place: str, attribute: str, planes: list[str]) -> NotFound | InvalidInput:
    if planes:
        hint = f"Its plane is named {planes[0]!r}: write {place}:{planes[0]}"
    else:
        hint = f"It has no plane. Add one: {attribute} = Plane()"
    if found is None:
        return NotFound(f'{place} has no "{attribute}". {hint}')
    return InvalidInput(f"{place}:{attribute} is of type {type(found).__name__}, not a Plane. {hint}", field="app")
