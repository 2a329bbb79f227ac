"""The execution service over HTTP or ASGI, with signed service tokens."""

from __future__ import annotations

import asyncio
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args
from urllib.parse import quote

from cortex_plane.clock import SECOND, Clock, Instant
from cortex_plane.errors import Unavailable
from cortex_plane.grants.execution_service import ExecutionRefused
from cortex_plane.grants.model import Progress, RunState, Started
from cortex_plane.http_client import Http, HttpResponse, NoResponse
from cortex_plane.jobs.model import JobId
from cortex_plane.json import dumped, dumps, loads


@dataclass(frozen=True, slots=True)
class AsgiClient:
    app: Any

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_limit_bytes: int,
        allow_private: bool,
    ) -> HttpResponse:
        return await self._send("POST", url, headers, body, timeout_seconds, answer_limit_bytes)

    async def get(
        self, url: str, *, headers: Mapping[str, str], timeout_seconds: float, answer_limit_bytes: int, allow_private: bool
    ) -> HttpResponse:
        return await self._send("GET", url, headers, b"", timeout_seconds, answer_limit_bytes)

    async def patch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
        answer_limit_bytes: int,
        allow_private: bool,
    ) -> HttpResponse:
        return await self._send("PATCH", url, headers, body, timeout_seconds, answer_limit_bytes)

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float, answer_limit_bytes: int
    ) -> HttpResponse:
        import httpx

        request = httpx.Request(method, url, headers={**headers, "accept-encoding": "identity"}, content=body)
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await httpx.ASGITransport(self.app, raise_app_exceptions=False).handle_async_request(request)
                content = await answer.aread()
        except TimeoutError:
            raise NoResponse(f"{request.url.host} did not answer within {timeout_seconds:g} s.") from None
        return HttpResponse(answer.status_code, dict(answer.headers), content[:answer_limit_bytes])


# -- execution client --------------------------------------------------------------------------
# The execution service over HTTP.
#
# POST {url}/api/internal/graphs/{graphId}/runs   {executionGrantId, input,   {runId, traceId}
#                                                  scheduleId, requestedBy}
# GET  {url}/api/internal/runs/{runId}?wait=N                                 {runId, traceId, status, errorCode, errorMessage}
# POST {url}/api/internal/runs/{runId}/stop       {reason}                    {}
#
# A start that was asked for before is answered with the header `Idempotency-Replayed: true`.
#
# Errors are problem documents (RFC 9457) with a member `code`. A bearer token says who calls; timeouts, 5xx, 408, 425 and 429
# may pass, and are raised as Unavailable. So is, for a run that was started, a refusal without a code: it is not the
# service's own.


TIMEOUT_SECONDS = 30.0
ANSWER_LIMIT_BYTES = 64 * 1024
MAY_PASS = (401, 408, 425, 429)
"""401: a wrong token is put right by an operator; what was started goes on meanwhile."""
EXCERPT_LIMIT = 200


@dataclass(frozen=True, slots=True)
class HttpExecution:
    http: Http = field(repr=False)
    url: str
    token: str = field(repr=False)
    timeout_seconds: float = TIMEOUT_SECONDS
    sign: Callable[[], str] | None = field(default=None, repr=False)
    """Makes a token for each request, which is then sent instead."""

    async def start(
        self,
        graph_id: str,
        idempotency_key: str,
        grant_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the word of the API
        service_name: str,
        traceparent: str | None = None,
        *,
        schedule_id: str | None = None,
        requested_by: Sequence[str] = (),
    ) -> Started:
        headers = {"idempotency-key": idempotency_key, "x-service-name": service_name}
        if traceparent is not None:
            headers["traceparent"] = traceparent
        body: dict[str, Any] = {"executionGrantId": grant_id, "input": dict(input)}
        if schedule_id is not None:
            body["scheduleId"] = schedule_id
        if requested_by:
            body["requestedBy"] = list(requested_by)
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
        document = _document(answer, started=True)
        status = _text(document, "status")
        if status not in get_args(Progress):
            raise Unavailable(f"The execution service answered with a status that is unknown here: {status:.40}.")
        code, message = document.get("errorCode"), document.get("errorMessage")
        return RunState(JobId(_text(document, "runId")), _text(document, "traceId"), status, code, message)  # type: ignore[arg-type]

    async def stop(self, run_id: str, reason: str) -> None:
        answer = await self._post(f"/api/internal/runs/{quote(run_id, safe='')}/stop", {"reason": reason}, {})
        _document(answer, started=True)

    async def _post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> HttpResponse:
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
            "authorization": f"Bearer {self.sign() if self.sign else self.token}",
            "content-type": "application/json",
            "accept": "application/json",
            "user-agent": "cortex-plane",
            **more,
        }


def _document(answer: HttpResponse, *, started: bool = False) -> dict[str, Any]:
    """`started`: the answer is about a run that goes on, so that whoever asks must not give up too early."""
    try:
        document = loads(answer.body) if answer.body else {}
    except ValueError:
        document = {}
    known = document if isinstance(document, dict) else {}
    if 200 <= answer.status < 300:
        return known
    said = str(known.get("detail") or answer.body[:EXCERPT_LIMIT].decode("utf-8", "replace")) or "nothing"
    message = f"The execution service answered {answer.status}: {said:.{EXCERPT_LIMIT}}"
    foreign = started and not known.get("code")
    if answer.status >= 500 or answer.status < 400 or answer.status in MAY_PASS or foreign:
        raise Unavailable(message)
    raise ExecutionRefused(str(known.get("code") or f"http_{answer.status}"), message)


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise Unavailable(f"The execution service answered without {name}. Is CORTEX_INTERNAL_API_URL right?")
    return value


# -- service tokens ----------------------------------------------------------------------------
# Tokens that the programs of one installation sign for each other: JWT, HS256, for one audience and for a short time.
#
# Signing is what workers do, and takes the standard library; checking is what servers do, and is left to PyJWT.


ALGORITHM = "HS256"
TTL_SECONDS = 60
LONGEST_SECONDS = 3600
"""A token that is good for longer is refused: it could not be taken back, and would be as good as the secret."""
SKEW_SECONDS = 30
"""So much may the clock of whoever signed be ahead of ours. That it is behind only makes its tokens expire sooner."""


@dataclass(frozen=True, slots=True)
class TokenSigner:
    """Makes a token for each request."""

    secret: str = field(repr=False)
    audience: str
    subject: str
    clock: Clock

    def token(self) -> str:
        now = self.clock.now() // SECOND
        claims = {"sub": self.subject, "aud": self.audience, "iat": now, "exp": now + TTL_SECONDS}
        signed = b".".join(_encoded(dumped(part)) for part in ({"alg": ALGORITHM, "typ": "JWT"}, claims))
        signature = hmac.digest(self.secret.encode(), signed, "sha256")
        return b".".join((signed, _encoded(signature))).decode()


def _encoded(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")


def subject_of(token: str, secrets: Sequence[str], audience: str, now: Instant) -> str | None:
    """Who signed it; None when it is not signed with one of the secrets, not for this audience, or not good at this time."""
    found = [claims for claims in (_claims(token, secret, audience) for secret in secrets) if claims is not None]
    if not found or not _is_good_at(found[0], now // SECOND):
        return None
    subject = found[0].get("sub")
    return subject if isinstance(subject, str) and subject else "unnamed"


def _claims(token: str, secret: str, audience: str) -> dict[str, Any] | None:
    """The times are left to us: we go by the clock that we are given."""
    import jwt

    options: Any = {"require": ["exp", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False}
    try:
        claims: dict[str, Any] = jwt.decode(token, secret, algorithms=[ALGORITHM], audience=audience, options=options)
    except jwt.InvalidTokenError:
        return None
    return claims


def _is_good_at(claims: dict[str, Any], now: int) -> bool:
    expires, begins = claims["exp"], claims.get("nbf", 0)
    if not _is_number(expires) or not _is_number(begins):
        return False
    return bool(begins - SKEW_SECONDS <= now < expires <= now + LONGEST_SECONDS)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
