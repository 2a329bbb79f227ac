"""The only place that picks adapters."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from cortex_plane.adapters.system import SystemClock, new_id
from cortex_plane.core.errors import WrongDatabase
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.store import Store

POSTGRES = ("postgresql", "postgres")


def open_store(database_url: str, clock: Clock | None = None, ids: NewId = new_id) -> Store:
    """The store that an address names, not opened yet."""
    scheme = urlsplit(database_url).scheme
    if scheme in POSTGRES:
        from cortex_plane.adapters.storage.postgres.store import PostgresStore

        return PostgresStore(database_url, ids)
    if scheme == "sqlite":
        from cortex_plane.adapters.storage.sqlite.store import SqliteStore

        return SqliteStore(_sqlite_path(database_url), clock or SystemClock(), ids)
    raise WrongDatabase(
        f"{database_url!r:.80} is not a database address. Use sqlite:///file.db or postgresql://user:password@host/database."
    )


def _sqlite_path(database_url: str) -> Path:
    """`sqlite:///jobs.db` is relative, `sqlite:////var/jobs.db` is absolute."""
    path = unquote(database_url.removeprefix("sqlite://"))
    if not path.startswith("/") or path == "/":
        raise WrongDatabase(
            f"{database_url!r:.80} names no file. Use sqlite:///file.db, or sqlite:////folder/file.db for an absolute path."
        )
    if path == "/:memory:":
        raise WrongDatabase("A database in memory cannot outlive the process, which is all that we are for. Use a file.")
    return Path(path[1:])
