"""Opens the plane that a command works on, in a database or behind a server, and says in plain words where its data is."""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from cortex_plane.adapters.cli.logs import configure_logs
from cortex_plane.core.errors import WrongDatabase
from cortex_plane.core.server_urls import NeedsDatabase, is_server
from cortex_plane.settings import Settings, load_settings

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

SQLITE = "sqlite:///"


@asynccontextmanager
async def existing_plane(url: str | None) -> AsyncIterator[Plane]:
    """For commands that have no agents: the plane in a database, or the one behind a server."""
    settings = _settings(url)
    if not settings.server or (url is not None and not is_server(url)):
        async with database_plane(url) as plane:
            yield plane
        return
    from cortex_plane.adapters.remote.plane import RemotePlane

    configure_logs(settings, quiet=True)
    async with RemotePlane(settings) as plane:
        yield plane


def goes_to_a_server(url: str | None, app: str | None = None) -> bool:
    """An app works on a database: whoever names one as a word of the command does not mean a server."""
    if is_server(url) and app is not None:
        raise NeedsDatabase("--app")
    return is_server(url) or (url is None and app is None and bool(load_settings().server))


def _settings(url: str | None) -> Settings:
    return load_settings({"server" if is_server(url) else "database_url": url})


def refuse_a_server(settings: Settings, database_url: str | None) -> None:
    """A command that needs the database must not quietly make one of its own, where everything else goes to a server."""
    if database_url is None and settings.server and settings.database_url == Settings().database_url:
        raise NeedsDatabase("CORTEX_SERVER is set, but this command")


@asynccontextmanager
async def database_plane(database_url: str | None) -> AsyncIterator[Plane]:
    """Nothing is made just because somebody looked."""
    from cortex_plane.plane import Plane

    settings = load_settings({"database_url": database_url})
    refuse_a_server(settings, database_url)
    configure_logs(settings, quiet=True)
    await _refuse_to_make(settings.database_url)
    async with Plane(settings=settings) as plane:
        yield plane


async def _refuse_to_make(database_url: str) -> None:
    from cortex_plane.wiring import open_store

    store = open_store(database_url)
    if file := sqlite_file(database_url):
        if not file.exists():
            raise WrongDatabase(missing_file(file))
    elif not (await store.schema.status()).current:
        raise WrongDatabase(f"{store.description} has no Cortex Plane schema yet. To make it: cortex db upgrade")


def sqlite_file(database_url: str) -> Path | None:
    return Path(unquote(database_url.removeprefix(SQLITE))) if database_url.startswith(SQLITE) else None


def missing_file(file: Path) -> str:
    return (
        f"There is no database file {file}. The first worker makes it: cortex worker APP\n"
        "If the data is elsewhere, say where with --database-url or CORTEX_DATABASE_URL; if a server has it, with --server."
    )


def me() -> str:
    """How this command signs what it does."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError, ImportError):
        return "cli"
