"""`cortex db`: the schema of the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from cortex_plane.storage.migrations import migrations_in
from cortex_plane.storage.sqlite.schema import FOLDER
from cortex_plane.testing import PostgresCluster
from tests.cli.conftest import Cortex

MIGRATIONS = migrations_in(FOLDER)
LATEST = MIGRATIONS[-1].version
NAMES = [f"{migration.version:04} {migration.name}" for migration in MIGRATIONS]


@pytest.fixture
def empty_postgres(cluster: PostgresCluster) -> Iterator[str]:
    yield cluster.create_database("empty_for_cli")
    cluster.drop_database("empty_for_cli")


def test_the_status_of_a_file_that_does_not_exist_does_not_make_it(cortex: Cortex, folder: Path) -> None:
    result = cortex("db", "status")

    assert (result.code, result.err) == (0, "")
    assert (
        result.out
        == """\
database  SQLite, cortex.db
schema    none: the file does not exist yet
To create it:  cortex db upgrade
"""
    )
    assert list(folder.iterdir()) == []


def test_a_fresh_sqlite_file_is_made_once(cortex: Cortex, folder: Path) -> None:
    first, second = cortex("db", "upgrade"), cortex("db", "upgrade")

    applied = "".join(f"Applied {name}\n" for name in NAMES)
    assert (first.code, first.out) == (0, f"{applied}SQLite, cortex.db has schema version {LATEST}.\n")
    assert (second.code, second.out) == (0, f"SQLite, cortex.db has schema version {LATEST} already.\n")
    assert cortex("db", "status").out == f"database  SQLite, cortex.db\nschema    version {LATEST}, up to date\n"


def test_looking_into_an_empty_postgres_database_does_not_make_the_schema(cortex: Cortex, empty_postgres: str) -> None:
    result = cortex("jobs", "list", "--database-url", empty_postgres)

    assert result.code == 5
    assert result.err.endswith(" has no Cortex Plane schema yet. To create it: cortex db upgrade\n")
    assert json.loads(cortex("db", "status", "--json", "--database-url", empty_postgres).out)["current"] == 0


def test_an_empty_postgres_database_is_upgraded(cortex: Cortex, empty_postgres: str) -> None:
    before = cortex("db", "status", "--database-url", empty_postgres)
    upgraded = cortex("db", "upgrade", "--json", "--database-url", empty_postgres)
    after = json.loads(cortex("db", "status", "--json", "--database-url", empty_postgres).out)

    assert before.code == 0
    assert f"schema    none yet; this program brings version {LATEST}\n" in before.out
    assert f"To upgrade it:  cortex db upgrade --database-url {empty_postgres}\n" in before.out
    assert json.loads(upgraded.out)["applied"] == NAMES
    assert after == {
        "database": after["database"],
        "exists": True,
        "current": LATEST,
        "latest": LATEST,
        "pending": [],
        "up_to_date": True,
    }


@pytest.mark.parametrize("command", ["status", "upgrade"])
@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "mysql://ada:geheim@host/db",
            "A database address begins with sqlite:// or postgresql://, not 'mysql'.",
        ),
        ("sqlite://", "'sqlite://' names no file."),
        ("sqlite:///notes.txt", "notes.txt is not a SQLite database, or is damaged. Name another file with CORTEX_DATABASE_URL."),
        ("postgresql://ada:geheim@127.0.0.1:1/db", "PostgreSQL, 127.0.0.1:1/db does not answer: ConnectionRefusedError"),
    ],
)
def test_a_database_that_cannot_be_used_is_exit_code_5(
    cortex: Cortex, folder: Path, command: str, url: str, message: str
) -> None:
    (folder / "notes.txt").write_text("This is not a database. " * 100)

    result = cortex("db", command, "--database-url", url)

    assert (result.code, result.out) == (5, "")
    assert result.err.startswith(f"Error: {message}")
    assert "geheim" not in result.err


def test_a_postgres_database_that_does_not_exist_is_named(cortex: Cortex, cluster: PostgresCluster) -> None:
    result = cortex("db", "status", "--database-url", cluster.url("no_such_database"))

    assert result.code == 5
    assert "the database does not exist. Create it, or correct CORTEX_DATABASE_URL." in result.err


def test_a_healthy_database_needs_no_mending(cortex: Cortex) -> None:
    cortex("db", "upgrade")

    assert cortex("db", "repair").out == "Nothing to repair.\n"
    assert json.loads(cortex("db", "repair", "--json").out)["repaired"] == 0


def test_a_job_whose_run_has_vanished_is_mended(cortex: Cortex, folder: Path) -> None:
    cortex("db", "upgrade")
    connection = apsw.Connection(str(folder / "cortex.db"))
    connection.execute(
        "insert into agent (id, job_type, created_at, updated_at) values ('a', 'echo', 0, 0);"
        "insert into job (id, agent_id, job_type, position, created_at, queued_at, updated_at)"
        " values ('01900000-0000-7000-8000-000000000000', 'a', 'echo', 100, 0, 0, 0);"
        "update job set status = 'RUNNING', run_id = '01900000-0000-7000-8000-000000000001', updated_at = 1"
    )
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.execute("delete from job_run")
    connection.close()

    assert cortex("db", "repair").out == "Repaired 1 job. The history of each has the details.\n"
    assert cortex("db", "repair").out == "Nothing to repair.\n"
