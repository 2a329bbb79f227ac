"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from cortex_plane import errors
from cortex_plane.approvals import model as approvals
from cortex_plane.approvals.channels.base import InvalidSignature
from cortex_plane.grants import model as billing
from cortex_plane.grants import model as execution
from cortex_plane.grants import model as grants
from cortex_plane.grants import model as service_calls
from cortex_plane.groups import model as groups
from cortex_plane.http.redaction import hidden
from cortex_plane.people import model as people
from cortex_plane.people import roles as access
from cortex_plane.schedules import model as schedules
from cortex_plane.storage import http_state as http_requests
from cortex_plane.templates import model as templates
from cortex_plane.webhooks import model as webhooks

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
INTERNAL_PREFIX = "/api/internal"


class Kind(NamedTuple):
    code: str
    status: int
    title: str


class BadCursor(errors.InvalidInput):
    def __init__(self) -> None:
        super().__init__(
            "This cursor was not given out by this list. Take `next` of a page as it is, or leave it out.", field="cursor"
        )


class ForeignPage(errors.Denied):
    def __init__(self) -> None:
        super().__init__("This request lacks the X-CSRF-Token of the session. Take it from GET /api/v1/me.")


NO_SUCH_APPROVAL = Kind("approval-not-found", 404, "There is no such approval")
ALREADY_DECIDED = Kind("already-decided", 409, "Somebody has decided it already")
APPROVAL_EXPIRED = Kind("approval-expired", 410, "Nobody decided in time")
APPROVAL_WITHDRAWN = Kind("approval-withdrawn", 410, "There is nothing to decide any more")
MAY_NOT_DECIDE = Kind("may-not-decide", 403, "Not allowed")

# The first that fits decides, so children come before their families.
KINDS: dict[type[Exception], Kind] = {
    BadCursor: Kind("bad-cursor", 400, "The cursor is not one of ours"),
    errors.RevisionChanged: Kind("revision-changed", 412, "It has changed meanwhile"),
    schedules.ScheduleChanged: Kind("revision-changed", 412, "It has changed meanwhile"),
    ForeignPage: Kind("csrf", 403, "The request may come from another page"),
    access.WrongPassword: Kind("wrong-password", 401, "Not signed in"),
    access.NotSignedIn: Kind("not-signed-in", 401, "Not signed in"),
    service_calls.TooManyRequests: Kind("too-many-requests", 429, "Too many requests"),
    access.TooManyStreams: Kind("too-many-streams", 429, "Too many event streams"),
    access.TooManyTries: Kind("too-many-tries", 429, "Too many tries"),
    access.RoleMissing: Kind("role-missing", 403, "Not allowed"),
    http_requests.RequestUnderWay: Kind("request-under-way", 409, "The same request is under way"),
    http_requests.IdempotencyKeyReused: Kind("idempotency-key-reused", 422, "The key was used for another request"),
    execution.KeyReused: Kind("idempotency-key-reused", 422, "The key was used for another request"),
    errors.JobNotFound: Kind("job-not-found", 404, "There is no such job"),
    errors.RunNotFound: Kind("run-not-found", 404, "There is no such run"),
    errors.WorkerNotFound: Kind("worker-not-found", 404, "There is no such worker"),
    errors.UnknownAgent: Kind("agent-not-found", 404, "There is no such agent"),
    errors.TenantNotFound: Kind("tenant-not-found", 404, "There is no such tenant"),
    errors.BudgetNotFound: Kind("budget-not-found", 404, "There is no such budget"),
    groups.GroupNotFound: Kind("group-not-found", 404, "There is no such group"),
    templates.TemplateNotFound: Kind("template-not-found", 404, "There is no such template"),
    webhooks.EndpointNotFound: Kind("webhook-not-found", 404, "There is no such webhook"),
    access.ApiKeyNotFound: Kind("key-not-found", 404, "There is no such key"),
    approvals.ApprovalNotFound: NO_SUCH_APPROVAL,
    people.UserNotFound: Kind("user-not-found", 404, "There is no such user"),
    access.AccountNotFound: Kind("user-not-found", 404, "There is no such user"),
    schedules.ScheduleNotFound: Kind("schedule-not-found", 404, "There is no such schedule"),
    grants.GrantNotFound: Kind("grant-not-found", 404, "There is no such grant"),
    execution.ExecutionNotFound: Kind("run-not-found", 404, "There is no such run"),
    billing.BillingAccountNotFound: Kind("billing-account-not-found", 404, "There is no such billing account"),
    people.UserNotFound: Kind("user-not-found", 404, "There is no such user"),
    people.UserGroupNotFound: Kind("user-group-not-found", 404, "There is no such group of people"),
    errors.RuleNotFound: Kind("rule-not-found", 404, "There is no such rule"),
    errors.NotFound: Kind("not-found", 404, "There is no such thing"),
    errors.AlreadyFinished: Kind("already-finished", 409, "The job has ended"),
    errors.StillRunning: Kind("still-running", 409, "The job has not ended"),
    groups.GroupKeyReused: Kind("group-key-reused", 409, "The key belongs to another group"),
    errors.NothingToResume: Kind("nothing-to-resume", 409, "The job has done all its work"),
    errors.NotHeld: Kind("not-held", 409, "The job is not held"),
    errors.JobNotQueued: Kind("job-not-queued", 409, "The job does not wait"),
    errors.QueueBusy: Kind("queue-busy", 409, "The queue is reserved"),
    errors.WorkerHasEnded: Kind("worker-has-ended", 409, "The worker does not run any more"),
    errors.TenantExists: Kind("tenant-exists", 409, "There is such a tenant already"),
    errors.CheckpointCorrupted: Kind("checkpoint-corrupted", 409, "The checkpoint is damaged"),
    groups.GroupFinished: Kind("group-finished", 409, "The group has ended"),
    access.AccountExists: Kind("user-exists", 409, "There is such a user already"),
    approvals.ApprovalClosed: Kind("approval-closed", 409, "Nobody is to be asked any more"),
    schedules.ScheduleExists: Kind("schedule-exists", 409, "There is such a schedule already"),
    people.UserGroupExists: Kind("user-group-exists", 409, "There is such a group of people already"),
    errors.RuleExists: Kind("rule-exists", 409, "There is a rule for the same jobs already"),
    errors.Conflict: Kind("conflict", 409, "Its state does not allow this"),
    errors.InvalidInput: Kind("invalid-input", 422, "The input is wrong"),
    errors.BudgetExhausted: Kind("budget-exhausted", 403, "The budget is spent"),
    grants.GrantRefused: Kind("grant-refused", 403, "The grant does not allow this"),
    InvalidSignature: Kind("invalid-signature", 401, "The request does not bear the sign of the service"),
    errors.Denied: Kind("denied", 403, "Not allowed"),
    errors.Unavailable: Kind("unavailable", 503, "Not available now"),
    errors.CortexError: Kind("unexpected", 500, "Something unexpected happened"),
}

MALFORMED = Kind("malformed", 400, "The request cannot be read")
NO_SUCH_ROUTE = Kind("no-such-route", 404, "There is nothing at this address")
METHOD_NOT_ALLOWED = Kind("method-not-allowed", 405, "This address does not take this method")
TOO_LARGE = Kind("body-too-large", 413, "The body is too large")
TOO_SLOW = Kind("body-too-slow", 408, "The body did not arrive in time")
WRONG_HOST = Kind("wrong-host", 421, "This server does not answer for that host")
COOKIES_TOO_LARGE = Kind("cookies-too-large", 431, "The cookies are too large")
UNEXPECTED = Kind("unexpected", 500, "Something unexpected happened")
OF_APPROVALS = (ALREADY_DECIDED, APPROVAL_EXPIRED, APPROVAL_WITHDRAWN, MAY_NOT_DECIDE)
OF_HTTP = {kind.status: kind for kind in (MALFORMED, NO_SUCH_ROUTE, METHOD_NOT_ALLOWED, TOO_LARGE, TOO_SLOW)}


def all_kinds() -> dict[str, Kind]:
    of_http = (MALFORMED, NO_SUCH_ROUTE, METHOD_NOT_ALLOWED, TOO_LARGE, TOO_SLOW, WRONG_HOST, COOKIES_TOO_LARGE, UNEXPECTED)
    kinds = [*KINDS.values(), *OF_APPROVALS, *of_http]
    return {kind.code: kind for kind in kinds}


def kind_of(error: Exception) -> Kind:
    return next((kind for family, kind in KINDS.items() if isinstance(error, family)), UNEXPECTED)


def problem(kind: Kind, detail: str, fields: Sequence[dict[str, str]] = (), request_id: str | None = None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": f"/problems/{kind.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
    }
    if fields:
        document["errors"] = list(fields)
    if request_id:
        document["request_id"] = request_id
    return document


def problem_of(error: errors.CortexError, request_id: str | None = None) -> dict[str, Any]:
    field = getattr(error, "field", None)
    fields = [{"field": field, "message": str(error)}] if field else []
    return problem(kind_of(error), str(error), fields, request_id)


def handle_errors(app: FastAPI) -> None:
    """Whatever happens in a route, the answer is a problem."""

    async def ours(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, errors.CortexError)
        return _answer(_coded(request, problem_of(error, id_of(request)), error), _headers_for(error))

    async def wrong_input(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        found = error.errors()
        if any(one["type"] == "json_invalid" for one in found):
            return _answer(problem(MALFORMED, _json_trouble(found[0]), request_id=id_of(request)))
        fields = [{"field": field_path(one["loc"]), "message": _message(one)} for one in found]
        detail = "; ".join(f"{one['field']}: {one['message']}" if one["field"] else one["message"] for one in fields[:5])
        document = problem(KINDS[errors.InvalidInput], detail, fields, id_of(request))
        return _answer(_coded(request, document, errors.InvalidInput("")))

    async def of_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        kind = OF_HTTP.get(error.status_code) or Kind("http", error.status_code, "The request was refused")
        headers = dict(error.headers or {})
        if kind is METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(sorted(methods_at(request)))
        return _answer(problem(kind, _http_detail(request, kind, error, headers), request_id=id_of(request)), headers)

    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("http.unexpected", request_id=id_of(request), exc_info=error)
        detail = "This is our mistake, not yours. Whoever runs this server finds more in its log, under the request id."
        return _answer(problem(UNEXPECTED, detail, request_id=id_of(request)))

    app.add_exception_handler(errors.CortexError, ours)
    app.add_exception_handler(RequestValidationError, wrong_input)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(Exception, unexpected)


def methods_at(request: Request) -> set[str]:
    """The methods of all routes with this path. The framework names only those of the first route that it finds."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found


def field_path(location: Sequence[str | int]) -> str:
    """`("body", "jobs", 3, "priority")` is `jobs[3].priority`: where it came from is left out, as people know that."""
    path = ""
    for part in location[1:]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def id_of(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)


def _answer(document: dict[str, Any], headers: Any = None) -> JSONResponse:
    return JSONResponse(document, document["status"], headers, MEDIA_TYPE)


def _coded(request: Request, document: dict[str, Any], error: errors.CortexError) -> dict[str, Any]:
    """Programs that call the execution service go by one word, which ends up in the record of slots."""
    return {**document, "code": execution.error_code(error)} if request.url.path.startswith(INTERNAL_PREFIX) else document


def _headers_for(error: errors.CortexError) -> dict[str, str]:
    match error:
        case access.TooManyTries():
            return {"Retry-After": str(max(1, round(error.seconds)))}
        case access.NotSignedIn():
            return {"WWW-Authenticate": 'Bearer realm="cortex"'}
        case errors.RevisionChanged() | schedules.ScheduleChanged():
            return {"ETag": f'"{error.revision}"'}
        case http_requests.RequestUnderWay():
            return {"Retry-After": "1"}
        case errors.Unavailable():
            return {"Retry-After": "5"}
        case _:
            return {}


def _message(found: Any) -> str:
    """pydantic's own words, without the value: it may be a secret."""
    text = str(found["msg"])
    return text.removeprefix("Value error, ")


def _json_trouble(found: Any) -> str:
    return f"The body is not JSON: {found['ctx']['error']}, at character {found['loc'][-1]}."


def _http_detail(request: Request, kind: Kind, error: HTTPException, headers: dict[str, str]) -> str:
    match kind.code:
        case "no-such-route":
            return f"There is nothing at {hidden(request.url.path)}. What there is: /docs"
        case "method-not-allowed":
            return f"{hidden(request.url.path)} does not take {request.method}. It takes {headers['Allow']}."
        case "malformed":
            return "The body cannot be read: it must be JSON in UTF-8."
        case _:
            return str(error.detail)
