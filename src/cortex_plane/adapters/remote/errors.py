"""The API's problems (RFC 9457) as the errors that they were on the other side: same family, same words, same field."""

from __future__ import annotations

import re
from typing import Any

from cortex_plane.core.access import RoleMissing
from cortex_plane.core.approvals import ApprovalNotFound
from cortex_plane.core.errors import (
    Conflict,
    CortexError,
    Denied,
    InvalidInput,
    JobNotFound,
    NotFound,
    Unavailable,
    UnknownAgent,
)
from cortex_plane.core.people import UserNotFound
from cortex_plane.core.server_urls import ServerAway

TYPE = "/problems/"

# Those that somebody here tells apart from their family.
CHILDREN: dict[str, type[CortexError]] = {
    "agent-not-found": UnknownAgent,
    "job-not-found": JobNotFound,
    "approval-not-found": ApprovalNotFound,
    "user-not-found": UserNotFound,
    "role-missing": RoleMissing,
}


class DecisionRefused(Conflict):
    """What became of the request meanwhile, or why this one may not decide: `problem` has the details."""

    def __init__(self, code: str, said: str, problem: dict[str, Any]) -> None:
        super().__init__(said)
        self.code, self.problem = code, problem


DECISIONS = ("already-decided", "approval-expired", "approval-withdrawn", "may-not-decide")
AGENT = re.compile(r'"(.*?)"')


def error_of(status: int, problem: dict[str, Any]) -> CortexError:
    code = str(problem.get("type", "")).removeprefix(TYPE)
    said = str(problem.get("detail") or problem.get("title") or f"The server refused with status {status}.")
    if code in DECISIONS:
        return DecisionRefused(code, said, problem)
    if child := CHILDREN.get(code):
        error = child.__new__(child, said)  # Without their own words: the other side has said them.
        if isinstance(error, UnknownAgent):
            error.job_type = named[1] if (named := AGENT.search(said)) else ""
        return error
    match status:
        case 404 if code == "no-such-route":
            return ServerAway(f"{said} The server is older than this program, or it is no Cortex Plane.")
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
