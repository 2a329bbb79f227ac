"""Opens the plane that a command works on, and says in plain words where its data is."""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from cortex_plane.adapters.cli.logs import configure_logs
from cortex_plane.core.errors import WrongDatabase
from cortex_plane.settings import load_settings

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

SQLITE = "sqlite:///"


@asynccontextmanager
async def existing_plane(database_url: str | None) -> AsyncIterator[Plane]:
    """For commands that only talk to the database: no agents, and nothing is made just because somebody looked."""
    from cortex_plane.plane import Plane

    settings = load_settings({"database_url": database_url})
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
        "If the data is elsewhere, say where with --database-url or CORTEX_DATABASE_URL."
    )


def me() -> str:
    """How this command signs what it does."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError, ImportError):
        return "cli"
