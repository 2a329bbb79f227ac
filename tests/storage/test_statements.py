"""Every statement file says what it promises, and is good SQL on the stores that use it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from cortex_plane.adapters.storage.sqlite.database import WAKES_NOBODY
from cortex_plane.adapters.storage.statements import FOLDER, Dialect, named, statement
from cortex_plane.ports.store import Store
from tests.contract.support import Raw, RawPostgres, RawSqlite

FILES = sorted(FOLDER.rglob("*.sql"))
DIALECTS: tuple[Dialect, ...] = ("sqlite", "postgres")


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.split('.')[0]}"


NAMES = sorted({name_of(path) for path in FILES})
ONLY_ON_SQLITE = {name_of(path) for path in FILES if "-- Only on SQLite: " in path.read_text()}
ONLY_ON_POSTGRES = {name_of(path) for path in FILES if "-- Only on PostgreSQL: " in path.read_text()}


def of_dialect(path: Path) -> str | None:
    parts = path.name.split(".")
    return parts[1] if len(parts) == 3 else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_opens_with_its_promise_and_holds_one_statement(path: Path) -> None:
    first, *others = path.read_text().splitlines()

    assert re.fullmatch(r"-- [A-Z].*\.", first), "the first line is a sentence"
    code = "\n".join(line for line in others if not line.lstrip().startswith("--")).strip()
    assert code.endswith(";")
    assert code.count(";") == 1
    assert path.read_text().endswith("\n")


@pytest.mark.parametrize("path", [path for path in FILES if of_dialect(path)], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_pair_says_why_it_differs_and_is_complete(path: Path) -> None:
    second = path.read_text().splitlines()[1]

    if name_of(path) in ONLY_ON_SQLITE | ONLY_ON_POSTGRES:
        assert re.fullmatch(r"-- Only on (SQLite|PostgreSQL): .*\.", second)
        return
    assert re.fullmatch(r"-- Differs: .*\.", second)
    assert of_dialect(path) in DIALECTS
    other = "postgres" if of_dialect(path) == "sqlite" else "sqlite"
    twin = path.with_name(f"{path.name.split('.')[0]}.{other}.sql")
    assert twin.exists()
    assert not path.with_name(f"{path.name.split('.')[0]}.sql").exists(), "a pair leaves no third"


def test_no_statement_that_saves_checkpoints_wakes_workers() -> None:
    """Each would look at the queue after every step, and be in the way of the next."""
    saves = {name for name in NAMES if name.startswith("checkpoints/save") and name not in ONLY_ON_POSTGRES}

    assert len(saves) == 3
    assert saves <= WAKES_NOBODY


def test_a_file_for_both_says_nothing_of_differences() -> None:
    assert [path for path in FILES if of_dialect(path) is None and "-- Differs" in path.read_text()] == []


@pytest.mark.parametrize("name", sorted({*NAMES} - ONLY_ON_SQLITE - ONLY_ON_POSTGRES))
def test_both_dialects_take_the_same_parameters(name: str) -> None:
    """SQLite is given the time as one more; PostgreSQL has a clock."""
    sqlite, postgres = (set(statement(name, dialect).parameters) for dialect in DIALECTS)

    assert sqlite - {"now"} == postgres


def test_every_statement_is_used_and_every_statement_used_exists() -> None:
    source = "\n".join(path.read_text() for path in FOLDER.parent.rglob("*.py"))
    used = set(re.findall(r'"([a-z]+/[a-z_]+)"', source))

    assert used == set(NAMES)


@pytest.mark.anyio
async def test_every_statement_can_be_prepared_where_it_runs(store: Store, raw: Raw) -> None:
    for name in NAMES:
        if isinstance(raw, RawPostgres):
            if name in ONLY_ON_SQLITE:
                continue
            wanted = statement(name, "postgres")
            prepared = await raw.connection.prepare(wanted.sql)
            assert len(prepared.get_parameters()) == len(wanted.parameters), name
        elif name not in ONLY_ON_POSTGRES:
            assert isinstance(raw, RawSqlite)
            explained = raw.connection.execute(f"explain {statement(name, 'sqlite').sql}", _nothing(name))
            assert explained.fetchall(), name


def _nothing(name: str) -> dict[str, Any]:
    return dict.fromkeys([*statement(name, "sqlite").parameters, "now"])


@pytest.mark.anyio
async def test_a_statement_that_is_not_sql_is_noticed(store: Store, raw: Raw) -> None:
    """The test above must be able to fail."""
    if isinstance(raw, RawPostgres):
        with pytest.raises(Exception, match="does not exist"):
            await raw.connection.prepare("select nothing from cortex.nowhere")
    else:
        assert isinstance(raw, RawSqlite)
        with pytest.raises(apsw.SQLError):
            raw.connection.execute("explain select nothing from nowhere")


def test_names_are_put_into_the_words_of_each_driver() -> None:
    text = named("jobs/submit", "postgres", "%({})s")

    assert "%(jobs)s" in text
    assert ":jobs" not in text
    assert "cortex." not in named("jobs/submit", "sqlite")
    assert ":now" not in named("jobs/cancel", "postgres")


def test_what_joins_a_callers_transaction_has_no_sign_that_drivers_take_for_a_parameter() -> None:
    text = named("jobs/submit", "postgres")

    assert "%" not in text
    assert re.findall(r":\w+", text) == [":jobs"]
