"""Options that many commands share, described once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.core.server_urls import NeedsDatabase, checked_server, is_server

if TYPE_CHECKING:
    from cyclopts import Token


def _place(_kind: Any, tokens: Sequence[Token]) -> str:
    """Whichever name it was given by, a server and a database are told apart by the address."""
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
        help="Where the plane is: its database, sqlite:///file.db or postgresql://user@host/database; or a server, "
        "https://plane.example.com, with the key in CORTEX_API_KEY.",
    ),
]
"""Of commands that work on a database and through a server. The key is no option: the words of a command are seen by
others on the machine, and kept by the shell."""

OnlyDatabaseUrl = Annotated[
    str | None,
    Parameter(
        name="--database-url",
        metavar="URL",
        converter=_database,
        help="Where the data is: sqlite:///file.db or postgresql://user@host/database.",
    ),
]

AsJson = Annotated[bool, Parameter(name="--json", help="Print one JSON document, and nothing else, on stdout.")]

Reason = Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept with the change and in the audit log.")]

JobIdOrPrefix = Annotated[str, Parameter(name="ID", help="The job's id, or the first part of it.")]

App = Annotated[
    str | None,
    Parameter(metavar="APP", help="The app that has the agents: file.py, file.py:plane or module:plane. Otherwise CORTEX_APP."),
]
