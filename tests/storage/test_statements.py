"""Every statement says what it promises, and is good SQL on the stores that use it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from cortex_plane.storage.sqlite.database import WAKES_NOBODY
from cortex_plane.storage.statements import PACKAGE, Dialect, named, statement, statement_files, statements_in
from cortex_plane.stores import Store
from tests.contract.support import Raw, RawPostgres, RawSqlite

TEXTS = {f"{file}/{key}": text for file, path in statement_files().items() for key, text in statements_in(path).items()}
DIALECTS: tuple[Dialect, ...] = ("sqlite", "postgres")
NAMES = sorted({key.partition(".")[0] for key in TEXTS})
ONLY_ON_SQLITE = {key.partition(".")[0] for key, text in TEXTS.items() if "-- Only on SQLite: " in text}
ONLY_ON_POSTGRES = {key.partition(".")[0] for key, text in TEXTS.items() if "-- Only on PostgreSQL: " in text}


def test_a_statement_opens_with_its_promise_and_is_one_statement() -> None:
    offenders = []
    for key, text in TEXTS.items():
        first, *others = text.splitlines()
        code = "\n".join(line for line in others if not line.lstrip().startswith("--")).strip()
        if not (re.fullmatch(r"-- [A-Z].*\.", first) and code.endswith(";") and code.count(";") == 1):
            offenders.append(key)

    assert len(TEXTS) > 500
    assert offenders == []


def test_every_header_is_read() -> None:
    """A header with a typing error is a comment to the loader."""
    looks_like_one = re.compile(r"^--\s*(name|fragment)\b.*$", re.MULTILINE | re.IGNORECASE)
    for path in statement_files().values():
        headers = looks_like_one.findall(path.read_text())
        fragments = path.read_text().count("-- fragment: ")
        assert len(headers) == len(statements_in(path)) + fragments, path


def test_a_pair_says_why_it_differs_and_is_complete() -> None:
    for key, text in TEXTS.items():
        name, _, dialect = key.partition(".")
        if not dialect:
            assert "-- Differs" not in text, key
        elif name in ONLY_ON_SQLITE | ONLY_ON_POSTGRES:
            assert re.fullmatch(r"-- Only on (SQLite|PostgreSQL): .*\.", text.splitlines()[1]), key
        else:
            assert re.fullmatch(r"-- Differs: .*\.", text.splitlines()[1]), key
            assert {f"{name}.{one}" for one in DIALECTS} <= TEXTS.keys(), key
            assert name not in TEXTS, "a pair leaves no third"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("-- name: get\n-- A.\nselect 1;\n\n-- name: get\n-- B.\nselect 2;\n", ValueError),
        ("-- name: get\n-- A.\nselect {columns};\n", KeyError),
    ],
)
def test_a_file_with_a_name_twice_or_an_unknown_fragment_is_rejected(tmp_path: Path, text: str, error: type[Exception]) -> None:
    (tmp_path / "shelf.sql").write_text(text)

    with pytest.raises(error):
        statements_in(tmp_path / "shelf.sql")


def test_no_statement_that_saves_checkpoints_wakes_workers() -> None:
    """Each would look at the queue after every step, and be in the way of the next."""
    saves = {name for name in NAMES if name.startswith("checkpoints/save") and name not in ONLY_ON_POSTGRES}

    assert len(saves) == 2
    assert saves <= WAKES_NOBODY


def test_both_dialects_take_the_same_parameters() -> None:
    """SQLite is given the time as one more; PostgreSQL has a clock."""
    for name in {*NAMES} - ONLY_ON_SQLITE - ONLY_ON_POSTGRES:
        sqlite, postgres = (set(statement(name, dialect).parameters) for dialect in DIALECTS)
        assert sqlite - {"now"} == postgres, name


def test_every_statement_is_used_and_every_statement_used_exists() -> None:
    source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    used = set(re.findall(r'"([a-z]+/[a-z_]+)"', source))

    assert {name for name in used if name.partition("/")[0] in statement_files()} == set(NAMES)


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
