"""After all the stories, a token is nowhere: not in the database, not in a log, not in what others are told."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from urllib.parse import quote

import pytest
import structlog
from httpx import Response

from cortex_plane.approvals.decisions import PREFIX, mint
from cortex_plane.http.app import create_app
from cortex_plane.http.redaction import UVICORN_ACCESS, hidden
from tests.contract.support import Raw
from tests.doors.house import BY_TOKEN, CHATS, DOORS, House, Person
from tests.notifications.test_secrets import everything_in

pytestmark = pytest.mark.anyio

TOKEN = mint(bytes(range(32))).plaintext


@pytest.mark.parametrize("ending", ["approved", "denied", "expired", "cancelled"])
async def test_no_token_is_left_anywhere(
    house: House, alice: Person, raw: Raw, ending: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.WARNING, logger="httpx")  # That is the visitor's own.
    answers: list[Response] = []
    house.client.event_hooks["response"].append(_keep(answers))
    used: list[str] = []
    with structlog.testing.capture_logs() as log:
        for door in BY_TOKEN:
            job, request = await house.asked(alice, ttl=60)
            one = await house.trying(request, alice, channel=door if door in CHATS else "telegram")
            one = replace(one, decision="denied" if ending == "denied" else "approved")
            used.append(one.token)
            await house.client.get(f"/approvals/{one.token}")
            await house.client.get(f"/approvals/{one.token}/more")
            await house.client.get(f"/api/approvals/{one.token}/approve")
            await house.client.delete(f"/approvals/{one.token}")
            await house.client.post(f"/api/approvals/{one.token}/approve", content=b"{")
            await house.client.post("/api/approvals/approve", json={"token": one.token, "reason": 5})
            if ending == "expired":
                await house.plane.clock.advance(seconds=61)
            elif ending == "cancelled":
                await job.cancel()
            await DOORS[door](house, one)
            await DOORS[door](house, one)
            await house.plane.work()

    everything = "\n".join(f"{where} {text}" for where, text in (await everything_in(raw)).items())
    logged = f"{log} {caplog.text} {capfd.readouterr()}"
    told = "\n".join(f"{answer.text} {answer.headers}" for answer in answers)
    for token in used:
        payload = token.removeprefix(PREFIX)
        assert payload not in everything
        assert payload not in logged
        assert payload not in told
    routes = {line["route"] for line in log if line["event"] == "http.request"}
    assert {"/approvals/{token}", "/api/approvals/{token}/approve", "/api/approvals/approve"} <= routes


def _keep(answers: list[Response]) -> Callable[[Response], Awaitable[None]]:
    async def keep(answer: Response) -> None:
        await answer.aread()
        answers.append(answer)

    return keep


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (f"/approvals/{TOKEN}", "/approvals/…"),
        (f"/approvals/{TOKEN}?x=1", "/approvals/…?x=1"),
        (f"/api/approvals/{TOKEN}/approve", "/api/approvals/…/approve"),
        (f"/api/approvals/{TOKEN[1:]}/deny", "/api/approvals/…/deny"),
        ("/api/approvals/approve", "/api/approvals/approve"),
        ("/api/approvals/approve/deny", "/api/approvals/…/deny"),
        (f"/somewhere/{TOKEN}/else", "/somewhere/…/else"),
        (f"/jobs?next={quote('/approvals/' + TOKEN, safe='')}", "/jobs?next=%2Fapprovals%2F…"),
        ("/api/v1/approvals/0197c5b2", "/api/v1/approvals/0197c5b2"),
    ],
)
def test_an_address_is_shown_without_its_token(path: str, shown: str) -> None:
    assert hidden(path) == shown


async def test_the_access_log_of_a_server_of_somebody_s_own_has_no_token(house: House, caplog: pytest.LogCaptureFixture) -> None:
    create_app(house.plane)
    caplog.set_level(logging.INFO)
    line = '%s - "%s %s HTTP/%s" %d'

    logging.getLogger(UVICORN_ACCESS).info(line, "127.0.0.1:1", "GET", f"/approvals/{TOKEN}?a=b", "1.1", 200)

    assert '"GET /approvals/…?a=b HTTP/1.1" 200' in caplog.text
