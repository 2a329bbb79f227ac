"""Options that many commands share, described once."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

DatabaseUrl = Annotated[
    str | None,
    Parameter(metavar="URL", help="Where the data is: sqlite:///file.db or postgresql://user@host/database."),
]

AsJson = Annotated[bool, Parameter(name="--json", help="Print one JSON document, and nothing else, on stdout.")]

Reason = Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept with the change and in the audit log.")]

JobIdOrPrefix = Annotated[str, Parameter(name="ID", help="The job's id, or the first part of it.")]

App = Annotated[
    str | None,
    Parameter(metavar="APP", help="The app that has the agents: file.py, file.py:plane or module:plane. Otherwise CORTEX_APP."),
]
