"""`--server`, when nobody answers there, somebody else does, or the server goes away for a while."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from cortex_plane import Plane
from cortex_plane.cli.errors import exit_code_of
from cortex_plane.errors import CortexError, InvalidInput
from cortex_plane.grants.model import KeyReused, TooManyRequests
from cortex_plane.http.problems import KINDS, BadCursor, problem
from cortex_plane.jobs import cli_watch as watching
from cortex_plane.people.roles import NotSignedIn, TooManyStreams, TooManyTries, WrongPassword
from cortex_plane.remote import Server, error_of
from tests.cli.conftest import Cortex
from tests.cli.servers import NOWHERE, MakeKey, RunIn, key, server, serving

__all__ = ["key", "server"]


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
    "a redirect": (301, {"Location": "https://plane.example.com/"}, b"", "redirects to https://plane.example.com/."),
    "other documents": (200, JSON, b'{"hello": 1}', "sent an invalid response"),
    "broken documents": (200, JSON, b"{", "sent an invalid response"),
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
ONLY_AT_DOORS = (BadCursor, NotSignedIn, WrongPassword, TooManyTries, TooManyStreams, TooManyRequests, KeyReused)


@pytest.mark.parametrize("family", [family for family in KINDS if issubclass(family, CortexError)], ids=lambda one: one.__name__)
def test_every_problem_ends_a_command_as_the_error_itself_would(family: type[CortexError]) -> None:
    error = family.__new__(family, "what happened")
    document = problem(KINDS[family], "what happened", [{"field": "limit", "message": "…"}])

    made = error_of(document["status"], document)

    assert str(made).startswith("what happened")
    if family not in ONLY_AT_DOORS:
        assert exit_code_of(made) == exit_code_of(error)
    assert not isinstance(made, InvalidInput) or made.field == "limit"


# -- following ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--json"], []])
def test_watching_survives_a_server_that_goes_away_for_a_while(
    cortex: Cortex,
    database_url: str,
    run_in: RunIn,
    key: MakeKey,
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
    cortex: Cortex, server: str, key: MakeKey, database_url: str, run_in: RunIn
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
