"""`--server`: where the plane is, and who asks."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cortex
from tests.cli.servers import NOWHERE, MakeKey, RunIn, key, server

__all__ = ["key", "server"]

# -- where -------------------------------------------------------------------------------------------


def test_the_setting_stands_in_for_the_option(cortex: Cortex, server: str, key: MakeKey, monkeypatch: pytest.MonkeyPatch) -> None:
    key("viewer")
    monkeypatch.setenv("CORTEX_SERVER", server + "/")

    result = cortex("jobs", "list", "--json")

    assert (result.code, result.err) == (0, "")
    assert [job["job_type"] for job in json.loads(result.out)["jobs"]] == ["greet"]


def test_a_database_that_is_named_wins_over_the_setting(
    cortex: Cortex, database_url: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTEX_SERVER", NOWHERE)

    result = cortex("jobs", "list", "--database-url", database_url)

    assert (result.code, result.err) == (0, "")


def test_what_to_type_next_names_the_server(cortex: Cortex, server: str, key: MakeKey) -> None:
    key("submitter")

    result = cortex("jobs", "submit", "greet", "--server", server)

    assert result.code == 0
    assert result.out.endswith(f" --server {server}\n")


@pytest.mark.parametrize(
    "wrong", ["plane.example.com", "sqlite:///cortex.db", "ftp://plane.example.com", "https://", "http://[x"]
)
def test_a_server_that_is_no_http_address_is_refused_by_name(cortex: Cortex, wrong: str) -> None:
    result = cortex("jobs", "list", "--server", wrong)

    assert result.code == 2
    assert result.err.startswith(
        f"Error: --server must be the address of a server, such as https://plane.example.com, not '{wrong}'"
    )


def test_a_key_in_the_address_is_refused_and_not_repeated(cortex: Cortex) -> None:
    result = cortex("jobs", "list", "--server", "https://ctx_secret@plane.example.com")

    assert (result.code, "ctx_secret" in result.err, "CORTEX_API_KEY" in result.err) == (2, False, True)


def test_a_wrong_setting_is_told_with_all_others(cortex: Cortex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_SERVER", "plane.example.com")

    result = cortex("jobs", "list")

    assert result.code == 2
    assert "  - server must be the address of a server, such as https://plane.example.com" in result.err


NEED_THE_DATABASE = [
    "db status",
    "db upgrade",
    "db repair",
    "checkpoints verify",
    "checkpoints show 0199a8c2",
    "serve",
]


@pytest.mark.parametrize("line", NEED_THE_DATABASE)
def test_what_needs_the_database_says_so(cortex: Cortex, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cortex(*line.split(), "--database-url", "https://plane.example.com")
    monkeypatch.setenv("CORTEX_SERVER", "https://plane.example.com")
    quietly = cortex(*line.split())

    assert (asked.code, quietly.code) == (2, 2)
    assert asked.err.startswith("Error: This command works on the database itself, not through a server.")
    assert quietly.err.startswith("Error: CORTEX_SERVER is set, but this command works on the database itself")


def test_an_app_needs_the_database(cortex: Cortex) -> None:
    result = cortex("jobs", "submit", "greet", "--app", "app.py", "--server", "https://plane.example.com")

    assert (result.code, result.err.startswith("Error: --app works on the database itself")) == (2, True)


def test_help_loads_nothing_of_it(cortex: Cortex) -> None:
    import subprocess
    import sys

    program = (
        "import sys; from cortex_plane.cli.main import main; main(['jobs', 'list', '--help']); "
        "sys.exit(any(name.startswith(('cortex_plane.remote', 'cortex_plane.client', 'httpx')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


# -- who ---------------------------------------------------------------------------------------------


def test_without_a_key_nobody_is_asked(cortex: Cortex) -> None:
    result = cortex("jobs", "list", "--server", NOWHERE)

    assert result.code == 6
    assert result.err == (
        f"Error: CORTEX_API_KEY is not set, and {NOWHERE} requires an API key. To create one, on a machine with database access: "
        "cortex keys add NAME --role operator\n"
    )


def test_a_wrong_key_is_denied(cortex: Cortex, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_API_KEY", "ctx_wrong")

    result = cortex("jobs", "list", "--server", server)

    assert result.code == 6
    assert result.err == "Error: This API key is unknown, revoked or expired. To make one: cortex keys add NAME\n"


def test_a_role_that_is_too_small_is_denied(cortex: Cortex, server: str, key: MakeKey, database_url: str, run_in: RunIn) -> None:
    key("viewer")
    [job] = run_in(database_url, lambda plane: plane.jobs.list())

    result = cortex("jobs", "cancel", job.id, "--server", server)

    assert (result.code, "operator" in result.err) == (6, True)


def test_a_key_of_another_tenant_sees_nothing_of_this_one(
    cortex: Cortex, server: str, key: MakeKey, database_url: str, run_in: RunIn
) -> None:
    key("operator", tenant="acme")
    [job] = run_in(database_url, lambda plane: plane.jobs.list())

    listed, shown = cortex("jobs", "list", "--json", "--server", server), cortex("jobs", "show", job.id, "--server", server)
    begun, cancelled = (cortex("jobs", verb, job.id[:13], "--server", server) for verb in ("show", "cancel"))

    assert json.loads(listed.out)["jobs"] == []
    assert (shown.code, begun.code, cancelled.code) == (3, 3, 3)
    assert shown.err == f"Error: There is no job {job.id}. To list jobs: cortex jobs list\n"
    assert job.id not in begun.err + cancelled.err


def test_work_is_submitted_for_the_tenant_of_the_key_unless_another_is_named(
    cortex: Cortex, server: str, key: MakeKey, database_url: str, run_in: RunIn
) -> None:
    key("submitter", tenant="acme")

    own = cortex("jobs", "submit", "greet", "--json", "--server", server)
    other = cortex("jobs", "submit", "greet", "--tenant", "default", "--server", server)

    assert (own.code, other.code) == (0, 3)
    assert other.err == 'Error: There is no tenant "default".\n'
    job = run_in(database_url, lambda plane: plane.jobs.get(json.loads(own.out)["id"]))
    assert job.created_by.startswith("key:ctx_")


def test_a_key_of_all_tenants_works_in_the_one_that_is_set(
    cortex: Cortex, server: str, key: MakeKey, database_url: str, run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    key("operator", tenant="acme")
    key("operator")
    monkeypatch.setenv("CORTEX_SERVER_TENANT", "acme")

    result = cortex("jobs", "list", "--json", "--server", server)

    assert json.loads(result.out)["jobs"] == []


def test_who_did_it_is_whom_the_key_belongs_to(
    cortex: Cortex, server: str, key: MakeKey, database_url: str, run_in: RunIn
) -> None:
    key("operator")
    [job] = run_in(database_url, lambda plane: plane.jobs.list())

    cortex("jobs", "cancel", job.id, "--server", server)

    assert run_in(database_url, lambda plane: plane.jobs.history(job.id))[-1].actor.startswith("key:ctx_")
