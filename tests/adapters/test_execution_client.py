"""The execution service over HTTP: what is sent, and what becomes of each answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from cortex_plane.errors import Unavailable
from cortex_plane.grants.execution_client import HttpExecution
from cortex_plane.grants.execution_service import ExecutionRefused
from cortex_plane.http_client import HttpResponse
from cortex_plane.json import dumps, loads

pytestmark = pytest.mark.anyio

STARTED = {"runId": "0197", "traceId": "a" * 32}


@dataclass
class Wire:
    """Answers as the test says, and notes what was asked."""

    status: int = 201
    body: Any = field(default_factory=lambda: dict(STARTED))
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, str], Any]] = field(default_factory=list)

    async def post(self, url: str, *, headers: Mapping[str, str], body: bytes, **options: Any) -> HttpResponse:
        self.asked.append((url, headers, loads(body)))
        return HttpResponse(self.status, self.headers, dumps(self.body).encode())

    async def get(self, url: str, *, headers: Mapping[str, str], **options: Any) -> HttpResponse:
        self.asked.append((url, headers, None))
        return HttpResponse(self.status, self.headers, dumps(self.body).encode())

    async def patch(self, url: str, **options: Any) -> HttpResponse:
        raise NotImplementedError


def client(wire: Wire) -> HttpExecution:
    return HttpExecution(wire, "http://localhost:8400/", "s3cret")


async def test_internal_api_shared_secret() -> None:
    wire = Wire()

    started = await client(wire).start("langgraph:poet", "the:key", "grant", {"a": 1}, "cortex-scheduler", "00-x")

    [(url, headers, body)] = wire.asked
    assert url == "http://localhost:8400/api/internal/graphs/langgraph%3Apoet/runs"
    assert headers["authorization"] == "Bearer s3cret"
    assert (headers["idempotency-key"], headers["x-service-name"]) == ("the:key", "cortex-scheduler")
    assert headers["traceparent"] == "00-x"
    assert body == {"executionGrantId": "grant", "input": {"a": 1}}
    assert (started.run_id, started.trace_id, started.replayed) == ("0197", "a" * 32, False)
    assert "s3cret" not in repr(client(wire))


async def test_an_answer_that_was_given_before_says_so() -> None:
    wire = Wire(status=200, headers={"idempotency-replayed": "true"})

    assert (await client(wire).start("g", "k", "grant", {}, "s")).replayed


@pytest.mark.parametrize("status", [500, 502, 503, 401, 408, 429, 302])
async def test_what_may_pass_is_to_be_asked_again(status: int) -> None:
    with pytest.raises(Unavailable, match=str(status)):
        await client(Wire(status, {"detail": "busy"})).start("g", "k", "grant", {}, "s")


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (422, {"code": "key_reused", "detail": "other body"}, "key_reused"),
        (403, {"code": "grant_revoked", "detail": "no"}, "grant_revoked"),
        (404, {}, "http_404"),
        (400, ["no object"], "http_400"),
    ],
)
async def test_what_is_refused_is_refused_for_good(status: int, body: Any, code: str) -> None:
    with pytest.raises(ExecutionRefused) as refused:
        await client(Wire(status, body)).start("g", "k", "grant", {}, "s")

    assert refused.value.code == code


@pytest.mark.parametrize(("status", "body"), [(404, "<html>not here</html>"), (403, {}), (400, {"detail": "bad request"})])
async def test_a_run_that_was_started_is_not_given_up_because_of_an_answer_that_is_not_the_services(
    status: int, body: Any
) -> None:
    """A proxy answers in its place. The service's own refusals have a code."""
    with pytest.raises(Unavailable, match=str(status)):
        await client(Wire(status, body)).look("0197")
    with pytest.raises(Unavailable, match=str(status)):
        await client(Wire(status, body)).stop("0197", "replaced")


async def test_a_run_is_looked_at_and_stopped() -> None:
    wire = Wire(200, {**STARTED, "status": "error", "errorCode": "run_failed", "errorMessage": "boom"})

    state = await client(wire).look("0197", 5)
    await client(wire).stop("0197", "replaced")

    assert (state.ended, state.error_code, state.error_message) == (True, "run_failed", "boom")
    assert [url.removeprefix("http://localhost:8400/api/internal/") for url, _, _ in wire.asked] == [
        "runs/0197?wait=5",
        "runs/0197/stop",
    ]


@pytest.mark.parametrize("body", [{}, {**STARTED, "status": "dancing"}, {"runId": 7}])
async def test_an_answer_that_makes_no_sense_is_asked_for_again(body: Any) -> None:
    with pytest.raises(Unavailable):
        await client(Wire(200, body)).look("0197")
