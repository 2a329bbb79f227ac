"""The reference is written by the code, and leaves nothing out."""

from __future__ import annotations

import re
from dataclasses import fields

import asyncpg
import pytest

from cortex_plane import errors
from cortex_plane.cli.main import COMMANDS
from cortex_plane.jobs.states import TRANSITIONS, mermaid
from cortex_plane.settings import DESCRIPTIONS, PREFIX, Settings
from docs.builder.events import audit_actions
from docs.builder.reference import reference_pages
from docs.builder.staging import site_pages
from docs.builder.tables import read_schema
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages()


def test_every_command_is_there_with_its_own_help(pages: dict[str, str]) -> None:
    page = pages["reference/commands.md"]

    missing = [path for path in COMMANDS if f"# cortex {path}\n" not in page or f"Usage: cortex {path}" not in page]

    assert missing == []


def test_every_exit_code_is_there(pages: dict[str, str]) -> None:
    from cortex_plane.cli.errors import EXIT_CODES

    listed = re.findall(r"(?m)^\| (\d+) \|", pages["reference/commands.md"])

    assert {str(code) for code in EXIT_CODES.values()} | {"0", "1", "130"} == set(listed)


def test_every_setting_is_there_with_its_meaning(pages: dict[str, str]) -> None:
    page = pages["reference/settings.md"]

    for field in fields(Settings):
        assert f"`{PREFIX}{field.name.upper()}`" in page
        assert DESCRIPTIONS[field.name] in page


def test_every_error_is_there_and_says_something(pages: dict[str, str]) -> None:
    rows = re.findall(r"(?m)^\|[ ·]*`(\w+)` \| (.*?) \| \d+ ", pages["reference/errors.md"])
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.CortexError)}

    assert defined <= {name for name, _ in rows}
    assert [name for name, meaning in rows if not meaning.strip()] == []


def test_events_name_what_is_really_in_them(pages: dict[str, str]) -> None:
    page = pages["reference/events.md"]

    assert "as its history has it. | `status`, `previous_status`, `cause`" in page
    assert "`job.cancelled`" in page


def test_actions_are_found_in_code_in_helpers_and_in_triggers() -> None:
    known = set(audit_actions())

    assert {"STALE_WRITE", "TEMPLATE_SAVED", "QUEUE_PAUSED", "GATE_CLOSED", "BUDGET_SET", "JOB_COMPLETED"} <= known


@pytest.mark.anyio
async def test_every_table_and_column_of_the_database_is_there(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    rows = await connection.fetch(
        "select table_name, column_name from information_schema.columns "
        "join information_schema.tables using (table_schema, table_name) "
        "where table_schema = 'cortex' and table_type = 'BASE TABLE'"
    )
    await connection.close()

    schema = read_schema()

    listed = {(table, column) for table, columns in schema.columns.items() for column in columns}
    assert {(row["table_name"], row["column_name"]) for row in rows} == listed
    assert [f"{table}.{column}" for table, column in sorted(listed) if not schema.types.get((table, column))] == []


def test_the_diagram_is_the_same_wherever_it_is_shown() -> None:
    shown = (ROOT / "docs" / "concepts" / "state-machine.md").read_text()

    assert f"<!-- states:begin -->\n```mermaid\n{mermaid()}\n```\n<!-- states:end -->" in shown
    drawn = site_pages()["concepts/state-machine.md"]
    assert "mermaid" not in drawn
    assert drawn.count("<line ") == sum(len(reachable) for reachable in TRANSITIONS.values())
