"""The only place that picks adapters."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cortex_plane.adapters.system import SystemClock, new_id
from cortex_plane.core.errors import InvalidInput, WrongDatabase
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.execution.service import LocalExecution
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.execution import ExecutionService
from cortex_plane.ports.graphs import GraphExecutor
from cortex_plane.ports.http import Http
from cortex_plane.ports.passwords import Passwords
from cortex_plane.ports.store import Store
from cortex_plane.ports.telemetry import Telemetry
from cortex_plane.settings import Settings

POSTGRES = ("postgresql", "postgres")


def open_store(database_url: str, clock: Clock | None = None, ids: NewId = new_id) -> Store:
    """The store that an address names, not opened yet."""
    scheme = database_url.partition("://")[0]
    if scheme in POSTGRES:
        _check_postgres(database_url)
        from cortex_plane.adapters.storage.postgres.store import PostgresStore

        return PostgresStore(database_url, ids)
    if scheme == "sqlite":
        from cortex_plane.adapters.storage.sqlite.store import SqliteStore

        return SqliteStore(_sqlite_path(database_url), clock or SystemClock(), ids)
    raise WrongDatabase(
        f"A database address begins with sqlite:// or postgresql://, not {scheme!r:.20}. "
        "Use sqlite:///file.db or postgresql://user:password@host/database."
    )


def http_client() -> Http:
    """What the plane speaks to the web with. Loaded when it is first used."""
    from cortex_plane.adapters.http_client import HttpxClient

    return HttpxClient()


@cache
def passwords() -> Passwords:
    from cortex_plane.adapters.passwords import Argon2Passwords

    return Argon2Passwords()


def telemetry() -> Telemetry | None:
    """Who takes traces: None unless this program has to do with OpenTelemetry, or its variables are set. Then nothing of it
    is even loaded."""
    if "opentelemetry.trace" not in sys.modules and not any(name.startswith("OTEL_") for name in os.environ):
        return None
    from cortex_plane.adapters.telemetry import open_telemetry

    return open_telemetry()


def graph_executor(graph: Any) -> GraphExecutor:
    """The executor of a graph, found by the framework that the graph was made with. Frameworks are loaded only then."""
    if isinstance(graph, GraphExecutor):
        return graph
    bases = {f"{base.__module__}.{base.__name__}" for base in type(graph).__mro__}
    if "langgraph.graph.state.StateGraph" in bases:
        raise InvalidInput("A StateGraph is a plan; compile it first: plane.graph(name, builder.compile()).", field="compiled")
    if not any(base.startswith("langgraph.pregel.") for base in bases):
        raise InvalidInput(
            f"plane.graph takes a compiled LangGraph graph, or an executor of graphs, not a {type(graph).__name__}. "
            "LangGraph comes with: pip install 'cortex-plane[langgraph]'",
            field="compiled",
        )
    try:
        from cortex_plane.adapters.frameworks.langgraph import LangGraphExecutor
    except ImportError as error:
        raise InvalidInput(
            f"Graphs of LangGraph need the extra of that name: pip install 'cortex-plane[langgraph]' ({error}).", field="compiled"
        ) from error
    return LangGraphExecutor(graph)


def execution_service(
    settings: Settings, store: Store, directory: Directory, clock: Clock, ids: NewId, http: Http
) -> ExecutionService:
    """Who executes what schedules start: the service that the settings name, or this process."""
    if settings.internal_api_url:
        from cortex_plane.adapters.execution_client import HttpExecution

        return HttpExecution(http, settings.internal_api_url, settings.internal_api_token)
    return LocalExecution(store, directory, clock, ids, settings.payload_limit_bytes)


def _check_postgres(database_url: str) -> None:
    """What the driver would stumble over later, said now, and without showing a password."""
    try:
        parts = urlsplit(database_url)
        for host in parts.netloc.rpartition("@")[2].split(","):
            urlsplit(f"//{host}").port  # noqa: B018 - reading it checks it
        for ports in parse_qs(parts.query).get("port", []):
            [int(port) for port in ports.split(",")]
    except ValueError as error:
        raise WrongDatabase(
            f"The PostgreSQL address cannot be read: {error}. Use postgresql://user:password@host:5432/database."
        ) from None


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
