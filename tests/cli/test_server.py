"""`--server`: where the plane is, who asks, and what is said when that does not work."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from cortex_plane import Plane
from cortex_plane.adapters.cli import watching
from cortex_plane.adapters.cli.errors import exit_code_of
from cortex_plane.adapters.http.errors import KINDS, BadCursor, problem
from cortex_plane.adapters.remote.errors import error_of
from cortex_plane.adapters.remote.server import Server
from cortex_plane.core.access import NotSignedIn, TooManyTries, WrongPassword
from cortex_plane.core.errors import CortexError, InvalidInput
from cortex_plane.core.execution import KeyReused
from cortex_plane.core.service_calls import TooManyRequests
from cortex_plane.operations.add_tenant import add_tenant
from tests.cli.conftest import Cortex
from tests.cli.twins import serving

RunIn = Callable[..., Any]
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def server(database_url: str, run_in: RunIn) -> Iterator[str]:
    run_in(database_url, lambda plane: plane.submit("greet", {"name": "Ada"}, delay=3600))
    with serving(database_url) as url:
        yield url


@pytest.fixture
def key(database_url: str, run_in: RunIn, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`key("viewer", tenant="acme")` makes one, and from then on it is ours."""

    def make(*roles: str, tenant: str | None = None, user: str | None = None) -> None:
        async def add(plane: Plane) -> str:
            if tenant not in (None, "default"):
                await add_tenant(await plane.store, plane._ids, str(tenant))
            return (await plane.access.add_key("laptop", roles, tenant=tenant, user=user)).secret

        monkeypatch.setenv("CORTEX_API_KEY", run_in(database_url, add))

    return make


# -- where -------------------------------------------------------------------------------------------


def test_the_setting_stands_in_for_the_option(
    cortex: Cortex, server: str, key: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_what_to_type_next_names_the_server(cortex: Cortex, server: str, key: Callable[..., None]) -> None:
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
        "import sys; from cortex_plane.adapters.cli.main import main; main(['jobs', 'list', '--help']); "
        "sys.exit(any(name.startswith(('cortex_plane.adapters.remote', 'httpx')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


# -- who ---------------------------------------------------------------------------------------------


def test_without_a_key_nobody_is_asked(cortex: Cortex) -> None:
    result = cortex("jobs", "list", "--server", NOWHERE)

    assert result.code == 6
    assert result.err == (
        f"Error: CORTEX_API_KEY is not set, and {NOWHERE} answers nobody without a key. Where its database is, one is made by: "
        "cortex keys add NAME --role operator\n"
    )


def test_a_wrong_key_is_denied(cortex: Cortex, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_API_KEY", "ctx_wrong")

    result = cortex("jobs", "list", "--server", server)

    assert result.code == 6
    assert result.err == "Error: This API key is unknown, revoked or expired. To make one: cortex keys add NAME\n"


def test_a_role_that_is_too_small_is_denied(
    cortex: Cortex, server: str, key: Callable[..., None], database_url: str, run_in: RunIn
) -> None:
    key("viewer")
    [job] = run_in(database_url, lambda plane: plane.list())

    result = cortex("jobs", "cancel", job.id, "--server", server)

    assert (result.code, "operator" in result.err) == (6, True)


def test_a_key_of_another_tenant_sees_nothing_of_this_one(
    cortex: Cortex, server: str, key: Callable[..., None], database_url: str, run_in: RunIn
) -> None:
    key("operator", tenant="acme")
    [job] = run_in(database_url, lambda plane: plane.list())

    listed, shown = cortex("jobs", "list", "--json", "--server", server), cortex("jobs", "show", job.id, "--server", server)
    begun, cancelled = (cortex("jobs", verb, job.id[:13], "--server", server) for verb in ("show", "cancel"))

    assert json.loads(listed.out)["jobs"] == []
    assert (shown.code, begun.code, cancelled.code) == (3, 3, 3)
    assert shown.err == f"Error: There is no job {job.id}. To see what there is: cortex jobs list\n"
    assert job.id not in begun.err + cancelled.err


def test_work_is_submitted_for_the_tenant_of_the_key_unless_another_is_named(
    cortex: Cortex, server: str, key: Callable[..., None], database_url: str, run_in: RunIn
) -> None:
    key("submitter", tenant="acme")

    own = cortex("jobs", "submit", "greet", "--json", "--server", server)
    other = cortex("jobs", "submit", "greet", "--tenant", "default", "--server", server)

    assert (own.code, other.code) == (0, 3)
    assert other.err == 'Error: There is no tenant "default".\n'
    job = run_in(database_url, lambda plane: plane.get(json.loads(own.out)["id"]))
    assert job.created_by.startswith("key:ctx_")


def test_a_key_of_all_tenants_works_in_the_one_that_is_set(
    cortex: Cortex, server: str, key: Callable[..., None], database_url: str, run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    key("operator", tenant="acme")
    key("operator")
    monkeypatch.setenv("CORTEX_SERVER_TENANT", "acme")

    result = cortex("jobs", "list", "--json", "--server", server)

    assert json.loads(result.out)["jobs"] == []


def test_who_did_it_is_whom_the_key_belongs_to(
    cortex: Cortex, server: str, key: Callable[..., None], database_url: str, run_in: RunIn
) -> None:
    key("operator")
    [job] = run_in(database_url, lambda plane: plane.list())

    cortex("jobs", "cancel", job.id, "--server", server)

    assert run_in(database_url, lambda plane: plane.history(job.id))[-1].actor.startswith("key:ctx_")


# -- when it does not work ---------------------------------------------------------------------------


def test_a_server_that_cannot_be_reached_is_told_in_one_line(cortex: Cortex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_API_KEY", "ctx_any")

    result = cortex("jobs", "list", "--server", NOWHERE)

    assert (result.code, result.out, result.err.count("\n")) == (5, "", 1)
    assert result.err.startswith(f"Error: {NOWHERE} cannot be reached: ")
    assert result.err.endswith(" Is cortex serve running there, and the address right?\n")


@contextmanager
def answering(status: int, headers: dict[str, str], body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with handled(Handler) as url:
        yield url


@contextmanager
def handled(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    listening = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


HTML, JSON = {"Content-Type": "text/html; charset=utf-8"}, {"Content-Type": "application/json"}
STRANGERS = {
    "a page": (200, HTML, b"<h1>Hello</h1>", "answers 200 with text/html, which is not the API of a Cortex Plane."),
    "a page of errors": (502, HTML, b"<h1>Bad gateway</h1>", "answers 502 with text/html, which is not the API"),
    "a redirect": (301, {"Location": "https://plane.example.com/"}, b"", "sends us on to https://plane.example.com/."),
    "other documents": (200, JSON, b'{"hello": 1}', "answers in a way that this program does not understand"),
    "broken documents": (200, JSON, b"{", "answers in a way that this program does not understand"),
    "problems that are none": (500, JSON, b"[]", "answers 500 with application/json, which is not the API"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_whatever_else_answers_there_is_told_as_such(
    cortex: Cortex, stranger: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    *answer, told = STRANGERS[stranger]
    monkeypatch.setenv("CORTEX_API_KEY", "ctx_any")
    words = ["list"] if verb == "list" else ["watch", "00000000-0000-7000-8000-000000000000"]
    monkeypatch.setattr(watching, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.0)

    with answering(*answer) as url:  # type: ignore[arg-type]
        result = cortex("jobs", *words, "--server", url)

    assert (result.code, result.out) == (5, "")
    assert f"{url} {told}" in result.err


# No command raises them: here a door has done so.
ONLY_AT_DOORS = (BadCursor, NotSignedIn, WrongPassword, TooManyTries, TooManyRequests, KeyReused)


@pytest.mark.parametrize("family", [family for family in KINDS if issubclass(family, CortexError)], ids=lambda one: one.__name__)
def test_every_problem_ends_a_command_as_the_error_itself_would(family: type[CortexError]) -> None:
    error = family.__new__(family, "what happened")
    document = problem(KINDS[family], "what happened", [{"field": "limit", "message": "…"}])

    made = error_of(document["status"], document)

    assert str(made).startswith("what happened")
    if family not in ONLY_AT_DOORS:
        assert exit_code_of(made) == exit_code_of(error)
    assert not isinstance(made, InvalidInput) or made.field == "limit"


# -- following -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--json"], []])
def test_watching_survives_a_server_that_goes_away_for_a_while(
    cortex: Cortex,
    database_url: str,
    run_in: RunIn,
    key: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    job = run_in(database_url, lambda plane: plane.submit("greet", {"name": "Ada"}))
    key("viewer")
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.01)
    connected, lines = threading.Event(), Server.lines

    def noticed(self: Server, *path: str, last_event_id: str) -> Any:
        connected.set()
        return lines(self, *path, last_event_id=last_event_id)

    monkeypatch.setattr(Server, "lines", noticed)
    first = serving(database_url)
    url = first.__enter__()

    def interrupt() -> None:
        connected.wait()
        first.__exit__(None, None, None)
        with serving(database_url, port=int(url.rpartition(":")[2])):
            run_in(database_url, lambda plane: plane.run_worker(until_idle=True))
            over.wait()

    over = threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        result = cortex("jobs", "watch", job.id, *words, "--server", url)
    finally:
        over.set()
        thread.join()

    assert result.code == 0
    assert "Lost the server for now, trying again:" in result.err
    states = [line for line in result.out.splitlines() if "PENDING" in line or "COMPLETED" in line]
    assert "PENDING" in states[0]
    assert "COMPLETED" in states[-1]
    assert sum('"state"' in line and '"PENDING"' in line and "previous" in line for line in result.out.splitlines()) <= 2


def test_submit_wait_follows_through_the_server(
    cortex: Cortex, server: str, key: Callable[..., None], database_url: str, run_in: RunIn
) -> None:
    key("submitter")
    done = threading.Event()

    def work() -> None:
        async def until_done(plane: Plane) -> None:
            while not done.is_set():
                await plane.run_worker(until_idle=True)

        run_in(database_url, until_done)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        result = cortex("jobs", "submit", "greet", "name=Grace", "--wait", "--json", "--server", server)
    finally:
        done.set()
        thread.join()

    assert (result.code, json.loads(result.out)["output"]) == (0, "Hello, Grace!")


def test_what_is_sent_again_has_the_same_key_and_is_carried_out_once() -> None:
    keys: list[str | None] = []

    class Hangs(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers["idempotency-key"])
            if len(keys) == 1:
                self.close_connection = True  # Whoever asked hears nothing.
                return
            self.send_response(201)
            for name, value in {"Content-Type": "application/json", "Content-Length": "9"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b'{"id": 1}')

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    async def create(url: str) -> dict[str, int]:
        server = Server(url, "ctx_any")
        try:
            return await server.create(dict[str, int], "jobs", body={})
        finally:
            await server.close()

    with handled(Hangs) as url:
        made = asyncio.run(create(url))

    assert made == {"id": 1}
    assert len(keys) == 2
    assert keys[0] == keys[1] is not None
