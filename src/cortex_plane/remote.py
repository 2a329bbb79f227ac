"""Transport of the client: requests to a server, pages, bodies, and errors from problem documents."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, Generic, Literal, TypeVar, cast
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from cortex_plane.approvals.model import ApprovalNotFound
from cortex_plane.errors import Conflict, CortexError, Denied, InvalidInput, JobNotFound, NotFound, Unavailable, UnknownAgent
from cortex_plane.ids import is_id, new_id
from cortex_plane.jobs.fields import FIELD, FIELDS, Submission
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.json import encode, loads
from cortex_plane.people.model import OwnTenant, UserNotFound
from cortex_plane.people.roles import RoleMissing
from cortex_plane.server_urls import API, ServerUnreachable

TYPE = "/problems/"

# Problem codes that callers distinguish from their base class.
CHILDREN: dict[str, type[CortexError]] = {
    "agent-not-found": UnknownAgent,
    "job-not-found": JobNotFound,
    "approval-not-found": ApprovalNotFound,
    "user-not-found": UserNotFound,
    "role-missing": RoleMissing,
}


class DecisionRefused(Conflict):
    """The server rejected a decision on an approval. `code` and `problem` say why."""

    def __init__(self, code: str, said: str, problem: dict[str, Any]) -> None:
        super().__init__(said)
        self.code, self.problem = code, problem


DECISIONS = ("already-decided", "approval-expired", "approval-withdrawn", "may-not-decide")
AGENT = re.compile(r'"(.*?)"')


def error_of(status: int, problem: dict[str, Any]) -> CortexError:
    """The error for a problem document, with the server's message."""
    code = str(problem.get("type", "")).removeprefix(TYPE)
    said = str(problem.get("detail") or problem.get("title") or f"The server refused with status {status}.")
    if code in DECISIONS:
        return DecisionRefused(code, said, problem)
    if child := CHILDREN.get(code):
        error = child.__new__(child, said)  # Not __init__: the message is the server's.
        if isinstance(error, UnknownAgent):
            error.job_type = named[1] if (named := AGENT.search(said)) else ""
        return error
    match status:
        case 404 if code == "no-such-route":
            return ServerUnreachable(f"{said} The server is older than this program, or it is not a Cortex Plane.")
        case 404:
            return NotFound(said)
        case 409 | 410 | 412:
            return Conflict(said)
        case 400 | 413 | 422:
            return InvalidInput(said, field=_field(problem))
        case 401 | 403 | 421:
            return Denied(said)
        case 429 | 502 | 503 | 504:
            return Unavailable(said)
        case _:
            return CortexError(_with_id(said, problem))


def _field(problem: dict[str, Any]) -> str | None:
    fields = problem.get("errors")
    return str(fields[0].get("field")) if isinstance(fields, list) and fields and isinstance(fields[0], dict) else None


def _with_id(said: str, problem: dict[str, Any]) -> str:
    return f"{said} (request {problem['request_id']})" if problem.get("request_id") else said


# -- server ------------------------------------------------------------------------------------
# Requests to the API of one server: `await server.get(list[Run], "jobs", job_id, "runs")`


Value = TypeVar("Value")

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
SILENCE_SECONDS = 30.0
"""Read timeout of event streams. The server sends a heartbeat about once a second."""
TRIES = 2
EVENTS = "text/event-stream"


class Server:
    """The API of one server. Responses are validated and returned as values; problem documents are raised as errors."""

    def __init__(self, url: str, key: str, tenant: str = "") -> None:
        if not key:
            raise Denied(
                f"CORTEX_API_KEY is not set, and {url} requires an API key. To create one, on a machine with database access: "
                "cortex keys add NAME --role operator"
            )
        self.url, self._tenant = url, tenant
        headers = {"authorization": f"Bearer {key}", "user-agent": "cortex-plane", "accept": "application/json"}
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout, follow_redirects=False)

    async def close(self) -> None:
        await self._client.aclose()

    # -- requests --------------------------------------------------------------------------------

    async def get(self, kind: type[Value], *path: str, tenant: str | None = None, **query: object) -> Value:
        return await self._ask(kind, "GET", path, query, tenant, tries=TRIES)

    async def post(self, kind: type[Value], *path: str, body: object = None, tenant: str | None = None, **query: object) -> Value:
        return await self._ask(kind, "POST", path, query, tenant, {} if body is None else body)

    async def create(self, kind: type[Value], *path: str, body: object = None, tenant: str | None = None) -> Value:
        """POST with a new idempotency key, so that a retry after a lost response is executed once."""
        return await self._ask(kind, "POST", path, {}, tenant, body, tries=TRIES, headers={"idempotency-key": new_id()})

    async def put(self, kind: type[Value], *path: str, body: object = None, tenant: str | None = None) -> Value:
        return await self._ask(kind, "PUT", path, {}, tenant, body, tries=TRIES)

    async def patch(self, kind: type[Value], *path: str, body: object = None, tenant: str | None = None) -> Value:
        return await self._ask(kind, "PATCH", path, {}, tenant, body)

    async def delete(self, kind: type[Value], *path: str, tenant: str | None = None, **query: object) -> Value:
        return await self._ask(kind, "DELETE", path, query, tenant)

    async def _ask(
        self,
        kind: type[Value],
        method: str,
        path: tuple[str, ...],
        query: Mapping[str, object],
        tenant: str | None,
        body: object = None,
        *,
        tries: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> Value:
        content = None if body is None else encode(body, "body").encode()
        sent = {**(headers or {}), **({"content-type": "application/json"} if content is not None else {})}
        for tries_left in reversed(range(tries)):
            try:
                answer = await self._client.request(
                    method, self._address(path), params=self._query(query, tenant), content=content, headers=sent
                )
                break
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
                if not tries_left:
                    raise self._away(error) from error
            except httpx.HTTPError as error:
                raise self._away(error) from error
        return self._value(kind, answer)

    # -- event streams ---------------------------------------------------------------------------

    @asynccontextmanager
    async def lines(self, *path: str, last_event_id: str) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of an event stream, resumed after `last_event_id`."""
        headers = {"accept": EVENTS, "last-event-id": last_event_id}
        timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
        try:
            async with self._client.stream(
                "GET", self._address(path), params=self._query({}, None), headers=headers, timeout=timeout
            ) as answer:
                if not answer.headers.get("content-type", "").startswith(EVENTS):
                    await answer.aread()
                    self._value(NoneType, answer)
                    raise self._none_of_ours(answer)
                yield answer.aiter_lines()
        except httpx.HTTPError as error:
            raise self._away(error) from error

    # -- encoding and decoding -------------------------------------------------------------------

    def _address(self, path: tuple[str, ...]) -> str:
        return self.url + API + "".join(f"/{quote(part, safe='')}" for part in path)

    def _query(self, query: Mapping[str, object], tenant: str | None) -> dict[str, str]:
        """The tenant defaults to that of the client; the server uses the key's tenant if neither is given."""
        named = self._tenant if tenant is None or isinstance(tenant, OwnTenant) else tenant
        given = {**query, "tenant": named or None}
        return {name: _text(value) for name, value in given.items() if value is not None}

    def _value(self, kind: type[Value], answer: httpx.Response) -> Value:
        if answer.is_redirect:
            raise ServerUnreachable(
                f"{self.url} redirects to {answer.headers.get('location', 'another address')}. Use that address instead."
            )
        if not _is_json(answer) and answer.status_code != 204:
            raise self._none_of_ours(answer)
        if answer.is_success:
            try:
                value: Value = _reader(cast(Hashable, kind)).validate_json(answer.content or b"null")
                return value
            except ValidationError as error:
                raise ServerUnreachable(
                    f"{self.url} sent an invalid response: {error.error_count()} "
                    f"{'field is' if error.error_count() == 1 else 'fields are'} not as expected. Is it another version?"
                ) from error
        problem = _parsed(answer)
        raise error_of(answer.status_code, problem) if problem else self._none_of_ours(answer)

    def _none_of_ours(self, answer: httpx.Response) -> ServerUnreachable:
        kind = answer.headers.get("content-type", "").partition(";")[0] or "no content type"
        return ServerUnreachable(
            f"{self.url} answers {answer.status_code} with {kind}, which is not the API of a Cortex Plane. Is the address right?"
        )

    def _away(self, error: httpx.HTTPError) -> ServerUnreachable:
        why = "it did not answer in time" if isinstance(error, httpx.TimeoutException) else str(error).rstrip(".")
        return ServerUnreachable(
            f"{self.url} cannot be reached: {why or type(error).__name__}. Is cortex serve running there, and the address right?"
        )


def _is_json(answer: httpx.Response) -> bool:
    return answer.headers.get("content-type", "").partition(";")[0] in ("application/json", "application/problem+json")


def _parsed(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = loads(answer.content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _reader(kind: Hashable) -> TypeAdapter[Any]:
    """Cached: creating a TypeAdapter is slow."""
    return TypeAdapter(cast(Any, kind))


# -- bodies ------------------------------------------------------------------------------------
# Request bodies: names of the API for times and durations, without fields that are not set.


def submission_body(asked: Submission) -> dict[str, Any]:
    return job_body({field.name: getattr(asked, field.name) for field in FIELDS}) | given(
        agent=asked.agent, payload=asked.payload
    )


def job_body(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The request body for options of a submission, given by their names in Python."""
    for name, value in asked.items():
        if value and (name == "connection" or FIELD[name].scope == "child"):
            raise InvalidInput(f"{name} cannot be given through a server.", field=name)
    sent = ((FIELD[name], value) for name, value in asked.items() if value is not None and name in FIELD)
    return {field.http_name(value): _plain(value) for field, value in sent if field.scope in ("template", "job")}


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None, ready for JSON."""
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case timedelta():
            return value.total_seconds()
        case RetryPolicy():
            return asdict(value)
        case tuple() | list():
            return [_plain(one) for one in value]
        case Mapping():
            return dict(value)
        case _:
            return value


# -- ids ---------------------------------------------------------------------------------------
# Lookup of ids by prefix.


Kind = Literal["job", "run", "group", "grant", "approval", "schedule"]


@dataclass(frozen=True, slots=True)
class _FoundId:
    id: str


async def whole_id(server: Server, kind: Kind, beginning: str, *, tenant: str | None = None) -> str:
    """The id that begins with `beginning`. Schedules are found by name, too. Raises NotFound or InvalidInput."""
    wanted = beginning.strip()
    if is_id(wanted.lower()) and kind != "schedule":
        return wanted.lower()
    path = ("approval-ids",) if kind == "approval" else ("ids", kind)
    return (await server.get(_FoundId, *path, wanted or "-", tenant=tenant)).id


# -- pages -------------------------------------------------------------------------------------
# Pages of lists.


Item = TypeVar("Item")

LARGEST_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class RemotePage(Generic[Item]):
    items: list[Item]
    next: str | None = None


async def read_pages(
    server: Server, kind: type[Item], *path: str, limit: int, cursor: str | None = None, tenant: str | None = None, **query: Any
) -> list[Item]:
    """Up to `limit` items, from as many pages as necessary. A page may be short although another one follows."""
    found: list[Item] = []
    while True:
        wanted = min(limit - len(found), LARGEST_PAGE)
        page = await server.get(RemotePage[kind], *path, tenant=tenant, limit=wanted, cursor=cursor, **query)  # type: ignore[valid-type]
        found += page.items
        if page.next is None or len(found) >= limit:
            return found[:limit]
        cursor = page.next
