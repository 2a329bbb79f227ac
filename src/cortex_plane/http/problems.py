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
            "This cursor does not belong to this list. Use `next` of a page unchanged, or leave it out.", field="cursor"
        )


class ForeignPage(errors.Denied):
    def __init__(self) -> None:
        super().__init__("The X-CSRF-Token of the session is missing or wrong. Take it from GET /api/v1/me.")


NO_SUCH_APPROVAL = Kind("approval-not-found", 404, "Approval not found")
ALREADY_DECIDED = Kind("already-decided", 409, "Already decided")
APPROVAL_EXPIRED = Kind("approval-expired", 410, "Approval expired")
APPROVAL_WITHDRAWN = Kind("approval-withdrawn", 410, "Approval withdrawn")
MAY_NOT_DECIDE = Kind("may-not-decide", 403, "Not allowed")

# The first match is used, so subclasses come before their base classes.
KINDS: dict[type[Exception], Kind] = {
    BadCursor: Kind("bad-cursor", 400, "Invalid cursor"),
    errors.RevisionChanged: Kind("revision-changed", 412, "Revision changed"),
    schedules.ScheduleChanged: Kind("revision-changed", 412, "Revision changed"),
    ForeignPage: Kind("csrf", 403, "CSRF token missing or wrong"),
    access.WrongPassword: Kind("wrong-password", 401, "Not signed in"),
    access.NotSignedIn: Kind("not-signed-in", 401, "Not signed in"),
    service_calls.TooManyRequests: Kind("too-many-requests", 429, "Too many requests"),
    access.TooManyStreams: Kind("too-many-streams", 429, "Too many event streams"),
    access.TooManyTries: Kind("too-many-tries", 429, "Too many failed sign-ins"),
    access.RoleMissing: Kind("role-missing", 403, "Not allowed"),
    http_requests.RequestUnderWay: Kind("request-under-way", 409, "The same request is in progress"),
    http_requests.IdempotencyKeyReused: Kind("idempotency-key-reused", 422, "Idempotency key reused"),
    execution.KeyReused: Kind("idempotency-key-reused", 422, "Idempotency key reused"),
    errors.JobNotFound: Kind("job-not-found", 404, "Job not found"),
    errors.RunNotFound: Kind("run-not-found", 404, "Run not found"),
    errors.WorkerNotFound: Kind("worker-not-found", 404, "Worker not found"),
    errors.UnknownAgent: Kind("agent-not-found", 404, "Agent not found"),
    errors.TenantNotFound: Kind("tenant-not-found", 404, "Tenant not found"),
    errors.BudgetNotFound: Kind("budget-not-found", 404, "Budget not found"),
    groups.GroupNotFound: Kind("group-not-found", 404, "Group not found"),
    templates.TemplateNotFound: Kind("template-not-found", 404, "Template not found"),
    webhooks.EndpointNotFound: Kind("webhook-not-found", 404, "Webhook not found"),
    access.ApiKeyNotFound: Kind("key-not-found", 404, "API key not found"),
    approvals.ApprovalNotFound: NO_SUCH_APPROVAL,
    people.UserNotFound: Kind("user-not-found", 404, "User not found"),
    access.AccountNotFound: Kind("user-not-found", 404, "User not found"),
    schedules.ScheduleNotFound: Kind("schedule-not-found", 404, "Schedule not found"),
    grants.GrantNotFound: Kind("grant-not-found", 404, "Grant not found"),
    execution.ExecutionNotFound: Kind("run-not-found", 404, "Run not found"),
    billing.BillingAccountNotFound: Kind("billing-account-not-found", 404, "Billing account not found"),
    people.UserGroupNotFound: Kind("user-group-not-found", 404, "User group not found"),
    errors.RuleNotFound: Kind("rule-not-found", 404, "Retention rule not found"),
    errors.NotFound: Kind("not-found", 404, "Not found"),
    errors.AlreadyFinished: Kind("already-finished", 409, "Job already finished"),
    errors.StillRunning: Kind("still-running", 409, "Job not finished"),
    groups.GroupKeyReused: Kind("group-key-reused", 409, "Key used by another group"),
    errors.NothingToResume: Kind("nothing-to-resume", 409, "Job already completed"),
    errors.NotHeld: Kind("not-held", 409, "Job not held"),
    errors.JobNotQueued: Kind("job-not-queued", 409, "Job not queued"),
    errors.QueueBusy: Kind("queue-busy", 409, "Queue reserved"),
    errors.WorkerHasEnded: Kind("worker-has-ended", 409, "Worker not running"),
    errors.TenantExists: Kind("tenant-exists", 409, "Tenant already exists"),
    errors.CheckpointCorrupted: Kind("checkpoint-corrupted", 409, "Checkpoint corrupted"),
    groups.GroupFinished: Kind("group-finished", 409, "Group already finished"),
    access.AccountExists: Kind("user-exists", 409, "User already exists"),
    approvals.ApprovalClosed: Kind("approval-closed", 409, "Approval closed"),
    schedules.ScheduleExists: Kind("schedule-exists", 409, "Schedule already exists"),
    people.UserGroupExists: Kind("user-group-exists", 409, "User group already exists"),
    errors.RuleExists: Kind("rule-exists", 409, "Retention rule already exists"),
    errors.Conflict: Kind("conflict", 409, "Conflict"),
    errors.InvalidInput: Kind("invalid-input", 422, "Invalid input"),
    errors.BudgetExhausted: Kind("budget-exhausted", 403, "Budget exhausted"),
    grants.GrantRefused: Kind("grant-refused", 403, "Not allowed by the grant"),
    InvalidSignature: Kind("invalid-signature", 401, "Invalid signature"),
    errors.Denied: Kind("denied", 403, "Not allowed"),
    errors.Unavailable: Kind("unavailable", 503, "Not available"),
    errors.CortexError: Kind("unexpected", 500, "Unexpected error"),
}

MALFORMED = Kind("malformed", 400, "Malformed request")
NO_SUCH_ROUTE = Kind("no-such-route", 404, "Address not found")
METHOD_NOT_ALLOWED = Kind("method-not-allowed", 405, "Method not allowed")
TOO_LARGE = Kind("body-too-large", 413, "Body too large")
TOO_SLOW = Kind("body-too-slow", 408, "Body timeout")
WRONG_HOST = Kind("wrong-host", 421, "Host not allowed")
COOKIES_TOO_LARGE = Kind("cookies-too-large", 431, "Cookies too large")
UNEXPECTED = Kind("unexpected", 500, "Unexpected error")
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
    """Installs the error handlers: every error in a route becomes a problem document."""

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
        kind = OF_HTTP.get(error.status_code) or Kind("http", error.status_code, "Request rejected")
        headers = dict(error.headers or {})
        if kind is METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(sorted(methods_at(request)))
        return _answer(problem(kind, _http_detail(request, kind, error, headers), request_id=id_of(request)), headers)

    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("http.unexpected", request_id=id_of(request), exc_info=error)
        detail = "Internal error. The server's log has the details under this request id."
        return _answer(problem(UNEXPECTED, detail, request_id=id_of(request)))

    app.add_exception_handler(errors.CortexError, ours)
    app.add_exception_handler(RequestValidationError, wrong_input)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(Exception, unexpected)


def methods_at(request: Request) -> set[str]:
    """The methods of all routes with this path. Starlette reports only those of the first matching route."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found


def field_path(location: Sequence[str | int]) -> str:
    """`("body", "jobs", 3, "priority")` becomes `jobs[3].priority`: the source (body, query) is left out."""
    path = ""
    for part in location[1:]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def id_of(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)


def _answer(document: dict[str, Any], headers: Any = None) -> JSONResponse:
    return JSONResponse(document, document["status"], headers, MEDIA_TYPE)


def _coded(request: Request, document: dict[str, Any], error: errors.CortexError) -> dict[str, Any]:
    """Adds `code` for callers of the execution service, who store it with the slot."""
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
    """The message of pydantic, without the value: it may be a secret."""
    text = str(found["msg"])
    return text.removeprefix("Value error, ")


def _json_trouble(found: Any) -> str:
    return f"The body is not JSON: {found['ctx']['error']}, at character {found['loc'][-1]}."


def _http_detail(request: Request, kind: Kind, error: HTTPException, headers: dict[str, str]) -> str:
    match kind.code:
        case "no-such-route":
            return f"There is no route {hidden(request.url.path)}. All routes: /docs"
        case "method-not-allowed":
            return f"{hidden(request.url.path)} does not accept {request.method}. It accepts {headers['Allow']}."
        case "malformed":
            return "The body must be JSON in UTF-8."
        case _:
            return str(error.detail)
