"""Keys, users and the server that they open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Cortex


@pytest.fixture
def made(cortex: Cortex) -> Cortex:
    """A folder with a database."""
    assert cortex("db", "upgrade").code == 0
    return cortex


def test_a_key_is_shown_once_listed_by_its_beginning_and_revoked(made: Cortex) -> None:
    added = made("keys", "add", "import", "--role", "submitter", "--role", "viewer", "--days", "2")
    secret = added.out.splitlines()[-1]
    listed = made("keys", "list")
    revoked = made("keys", "revoke", "import", "--reason", "unused")

    assert secret.startswith("ctx_")
    assert secret not in listed.out
    assert secret[:12] in listed.out
    assert "submitter, viewer" in listed.out
    assert revoked.out == f"Revoked key import, {secret[:12]}…\n"
    [key] = json.loads(made("keys", "list", "--json").out)["keys"]
    assert key["revoked_at"] is not None
    assert "hash" not in key


def test_where_there_is_no_key_it_is_said_how_to_make_one(made: Cortex) -> None:
    listed = made("keys", "list")

    assert (listed.code, listed.out) == (0, "There are no keys yet. To add one:  cortex keys add NAME --role ROLE\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("keys", "add", "x", "--role", "admn"), 2, 'Did you mean "admin"?'),
        (("keys", "add", "x", "--role", "admin", "--tenant", "nowhere"), 3, 'There is no tenant "nowhere".'),
        (("keys", "add", "x", "--role", "admin", "--user", "nobody"), 3, 'There is no user "nobody".'),
        (("keys", "add", "x", "--role", "admin", "--days", "0"), 2, "ttl_seconds must be more than 0"),
        (("keys", "revoke", "nothing"), 3, "There is no API key nothing."),
        (("users", "add-role", "nobody", "admin"), 3, 'There is no user "nobody".'),
        (("users", "add", "ada"), 2, "password must have 10"),
    ],
)
def test_what_is_wrong_is_said(made: Cortex, words: tuple[str, ...], code: int, said: str) -> None:
    result = made(*words)

    assert result.code == code
    assert said in result.err


def test_a_user_is_added_with_a_password_from_standard_input(made: Cortex) -> None:
    added = made("users", "add", "ada", "--role", "admin", "--json", stdin="correct horse battery\n")
    again = made("users", "add", "ada", stdin="correct horse battery\n")

    assert json.loads(added.out)["given"] == [{"role": "admin", "tenant": None, "tenant_id": None}]
    assert again.code == 4
    assert made("users", "remove-role", "ada", "admin").code == 0
    assert made("users", "password", "ada", stdin="another good one\n").code == 0


def test_a_server_that_nobody_could_enter_does_not_start(made: Cortex) -> None:
    result = made("serve", "--port", "0")

    assert result.code == 6
    assert "cortex keys add NAME --role admin" in result.err
    assert "cortex users add NAME --role admin" in result.err


def test_a_server_answers_whom_it_knows_and_stops_in_order(made: Cortex, folder: Path) -> None:
    secret = made("keys", "add", "me", "--role", "admin").out.splitlines()[-1]
    words = [
        sys.executable,
        "-c",
        "import sys; from cortex_plane.cli.main import main; sys.exit(main())",
        "serve",
        "--port",
        "0",
    ]
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as server:
        assert server.stderr is not None
        greeting = server.stderr.readline()
        address = greeting.split()[2].rstrip(",")
        known = httpx.get(f"{address}/api/v1/jobs", headers={"Authorization": f"Bearer {secret}"}, timeout=30)
        stranger = httpx.get(f"{address}/api/v1/jobs", timeout=30)
        ready = httpx.get(f"{address}/readyz", timeout=30)
        server.send_signal(signal.SIGTERM)
        rest = server.stderr.read()

    assert (known.status_code, stranger.status_code, ready.status_code) == (200, 401, 200)
    assert "server" not in known.headers
    assert server.returncode in (0, -signal.SIGTERM)
    assert secret not in rest
