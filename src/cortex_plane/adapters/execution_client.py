"""The execution service over HTTP.

POST {url}/api/internal/graphs/{graphId}/runs   {executionGrantId, input}   {runId, traceId}
GET  {url}/api/internal/runs/{runId}?wait=N                                 {runId, traceId, status, errorCode, errorMessage}
POST {url}/api/internal/runs/{runId}/stop       {reason}                    {}

A start that was asked for before is answered with the header `Idempotency-Replayed: true`.

Errors are problem documents (RFC 9457) with a member `code`. A bearer token says who calls; timeouts, 5xx, 408, 425 and 429
may pass, and are raised as Unavailable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args
from urllib.parse import quote

from cortex_plane.core.errors import Unavailable
from cortex_plane.core.execution import Progress, RunState, Started
from cortex_plane.core.jobs import JobId
from cortex_plane.ports.execution import ExecutionRefused
from cortex_plane.ports.http import Answer, Http
from cortex_plane.ports.json_text import dumps, loads

TIMEOUT_SECONDS = 30.0
ANSWER_LIMIT_BYTES = 64 * 1024
MAY_PASS = (408, 425, 429)
EXCERPT_LIMIT = 200


@dataclass(frozen=True, slots=True)
class HttpExecution:
    http: Http = field(repr=False)
    url: str
    token: str = field(repr=False)
    timeout_seconds: float = TIMEOUT_SECONDS

    async def start(
        self,
        graph_id: str,
        idempotency_key: str,
        grant_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the word of the API
        service_name: str,
        traceparent: str | None = None,
    ) -> Started:
        headers = {"idempotency-key": idempotency_key, "x-service-name": service_name}
        if traceparent is not None:
            headers["traceparent"] = traceparent
        body = {"executionGrantId": grant_id, "input": dict(input)}
        answer = await self._post(f"/api/internal/graphs/{quote(graph_id, safe='')}/runs", body, headers)
        document = _document(answer)
        replayed = answer.headers.get("idempotency-replayed", "").lower() == "true"
        return Started(JobId(_text(document, "runId")), _text(document, "traceId"), replayed)

    async def look(self, run_id: str, wait_seconds: float = 0.0) -> RunState:
        answer = await self.http.get(
            f"{self.url.rstrip('/')}/api/internal/runs/{quote(run_id, safe='')}?wait={wait_seconds:g}",
            headers=self._headers({}),
            timeout_seconds=self.timeout_seconds + wait_seconds,
            answer_limit_bytes=ANSWER_LIMIT_BYTES,
            allow_private=True,
        )
        document = _document(answer)
        status = _text(document, "status")
        if status not in get_args(Progress):
            raise Unavailable(f"The execution service answered with a status that is unknown here: {status:.40}.")
        code, message = document.get("errorCode"), document.get("errorMessage")
        return RunState(JobId(_text(document, "runId")), _text(document, "traceId"), status, code, message)  # type: ignore[arg-type]

    async def stop(self, run_id: str, reason: str) -> None:
        _document(await self._post(f"/api/internal/runs/{quote(run_id, safe='')}/stop", {"reason": reason}, {}))

    async def _post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        return await self.http.post(
            f"{self.url.rstrip('/')}{path}",
            headers=self._headers(headers),
            body=dumps(body).encode(),
            timeout_seconds=self.timeout_seconds,
            answer_limit_bytes=ANSWER_LIMIT_BYTES,
            allow_private=True,
        )

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        return {
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
            "accept": "application/json",
            "user-agent": "cortex-plane",
            **more,
        }


def _document(answer: Answer) -> dict[str, Any]:
    try:
        document = loads(answer.body) if answer.body else {}
    except ValueError:
        document = {}
    known = document if isinstance(document, dict) else {}
    if 200 <= answer.status < 300:
        return known
    said = str(known.get("detail") or answer.body[:EXCERPT_LIMIT].decode("utf-8", "replace")) or "nothing"
    message = f"The execution service answered {answer.status}: {said:.{EXCERPT_LIMIT}}"
    if answer.status >= 500 or answer.status < 400 or answer.status in MAY_PASS:
        raise Unavailable(message)
    raise ExecutionRefused(str(known.get("code") or f"http_{answer.status}"), message)


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise Unavailable(f"The execution service answered without {name}. Is CORTEX_INTERNAL_API_URL right?")
    return value
