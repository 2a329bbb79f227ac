"""The page of `cortex` and `cortex --help`. It imports no library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import groupby
from typing import TextIO

CODES = {"bold": "1", "dim": "2", "red": "1;31", "cyan": "36"}


def colours_wanted(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str, stream: TextIO) -> str:
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if colours_wanted(stream) else text


# -- front page --------------------------------------------------------------------------------
# Plain text, because it must appear before a library could be imported.


HEADINGS = {
    "Work": ("new", "dev", "worker", "serve"),
    "Jobs": ("jobs", "runs"),
    "Steering": ("queues", "workers", "gate", "approvals", "templates", "groups", "schedules", "grants", "billing", "webhooks"),
    "Administration": (
        "tenants",
        "keys",
        "sessions",
        "users",
        "user-groups",
        "budgets",
        "retention",
        "checkpoints",
        "schema",
        "audit",
        "db",
        "completion",
        "doctor",
    ),
}
HEADING_OF = {group: heading for heading, groups in HEADINGS.items() for group in groups}

FIRST_STEPS = """\
  cortex new otters                             create a project, and show the next commands
  cortex worker examples/hello.py               in one terminal
  cortex jobs submit greet name=Ada --wait      in another
  cortex jobs submit --help                     help for a command"""

NOTES = """\
Default database: sqlite:///cortex.db. Change it with --database-url, CORTEX_DATABASE_URL or cortex.toml.
To use a server: --server or CORTEX_SERVER, with the API key in CORTEX_API_KEY.
Exit codes: 0 success, 1 unexpected error, 2 invalid input, 3 not found, 4 conflict, 5 unavailable, 6 denied,
7 the job failed or was cancelled, 130 interrupted."""


def front_page(sentences: Mapping[str, str], stream: TextIO) -> str:
    width = max(len(path) for path in sentences)

    def heading(text: str) -> str:
        return painted(text, "bold", stream)

    lines = [f"{heading('Cortex Plane')}: durable agent work, on one SQLite file or on PostgreSQL.", ""]
    lines += [f"{heading('Usage:')} cortex COMMAND [OPTIONS]", ""]
    for title, paths in groupby(sentences, key=lambda path: HEADING_OF[path.split()[0]]):
        lines += [heading(title)]
        lines += [f"  {painted(path.ljust(width), 'cyan', stream)}  {sentences[path]}" for path in paths]
        lines += [""]
    return "\n".join([*lines, heading("First steps"), FIRST_STEPS, "", painted(NOTES, "dim", stream)])
