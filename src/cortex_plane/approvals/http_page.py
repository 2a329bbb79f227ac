"""The approval page behind the link in a message. Works without JavaScript."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from cortex_plane.approvals.decisions import UNKNOWN, Answer, Decided, Unknown, told
from cortex_plane.approvals.http import refuse_guessing, status_of
from cortex_plane.approvals.messages import closed_of, details_of, lines, one_line, when
from cortex_plane.approvals.model import ApprovalRequest
from cortex_plane.approvals.service import decide_by_token, get_by_token
from cortex_plane.approvals.views import state_of
from cortex_plane.clock import Instant, as_datetime
from cortex_plane.errors import InvalidInput
from cortex_plane.http.auth import ThePlane, anybody_by_link
from cortex_plane.json import Json
from cortex_plane.plane import Plane

ALL_OF_IT = 2_000_000
CELL_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class Form:
    """The submitted form, unvalidated. It is shown again if it is invalid."""

    decision: Any = ""
    reason: str = ""
    details: str | None = None

    @property
    def edits(self) -> Any:
        """The edited details, if the decision is to approve. Raises InvalidInput if they are not JSON."""
        if self.decision != "approved" or self.details is None or not self.details.strip():
            return None
        try:
            return json.loads(self.details)
        except (ValueError, RecursionError) as error:
            where = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "too deeply nested"
            raise InvalidInput(f"The changed details are not JSON: {where}.", field="details") from None


def form_of(body: bytes) -> Form:
    """Parses an urlencoded form. Invalid input gives an empty form, which decides nothing."""
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)
    except ValueError:
        fields = {}
    details = fields.get("details")
    return Form(fields.get("decision", [""])[0], fields.get("reason", [""])[0], details[0] if details else None)


def notice_of(answer: Answer) -> str:
    """The notice above the request; empty for a decision, which the page shows anyway."""
    return "" if isinstance(answer, Decided) else told(answer)


def unknown_page() -> dict[str, object]:
    return {"title": "This link does not work", "state": "unknown", "notice": UNKNOWN, "asked": None}


def page_view(request: ApprovalRequest, now: Instant, form: Form, notice: str, *, voted: bool) -> dict[str, object]:
    moment = as_datetime(now)
    late = request.is_open and request.expires_at <= moment
    state = "expired" if late else state_of(request)
    return {
        "title": one_line(request.action_summary.strip().splitlines()[0])[:200],
        "state": state,
        "headline": _headline(request, late),
        "remark": "" if request.is_open else closed_of(request).remark,
        "notice": one_line(notice),
        "asked": _asked(request, moment, form),
        "can_decide": state == "open" and not voted,
        "voted": state == "open" and voted,
    }


def _headline(request: ApprovalRequest, late: bool) -> str:
    if late:
        return "⏰ Expired without a decision"
    return "" if request.is_open else f"{closed_of(request).headline}, {closed_of(request).time}"


def _asked(request: ApprovalRequest, now: datetime, form: Form) -> dict[str, object]:
    raw = details_of(request.details, ALL_OF_IT).text
    return {
        "summary": lines(request.action_summary),
        "why_again": one_line(request.why_again),
        "agent": one_line(request.agent),
        "job_id": request.job_id,
        "created": _time(request.created_at),
        "expires": _time(request.expires_at),
        "left": _left(request.expires_at, now),
        "rows": list(_rows(request.details)),
        "raw": raw,
        "changed": request.edited_details is not None,
        "quorum": f"{request.votes} of {request.quorum} approvals so far" if request.quorum > 1 else "",
        "editable": _editable(request.editable),
        "edit_text": raw if form.details is None else form.details,
        "edit_open": form.details is not None and form.details.replace("\r\n", "\n").strip() != raw.strip(),
        "reason": form.reason,
    }


def _rows(details: Json) -> Iterator[tuple[str, str, bool]]:
    """Yields name, value, and whether the value has several lines."""
    if isinstance(details, dict):
        yield from ((one_line(name) or "(no name)", *_cell(value)) for name, value in details.items())
    elif isinstance(details, list):
        yield from ((str(place), *_cell(value)) for place, value in enumerate(details, 1))
    elif details is not None:
        yield ("", *_cell(details))


def _cell(value: Json) -> tuple[str, bool]:
    if isinstance(value, str):
        text = lines(value)
        return text or "(empty)", "\n" in text
    if isinstance(value, dict | list) and value:
        return details_of(value, CELL_LIMIT).text, True
    return json.dumps(value), False


def _editable(rule: Json) -> str:
    """Describes what the approver may change; empty if nothing."""
    if rule is False:
        return ""
    if isinstance(rule, list):
        return f"You may change: {', '.join(one_line(str(key)) for key in rule)}."
    return "You may change the details before you approve."


def _time(moment: datetime) -> dict[str, str]:
    return {"machine": f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", "human": when(moment)}


def _left(until: datetime, now: datetime) -> str:
    seconds = (until - now).total_seconds()
    if seconds <= 0:
        return ""
    for length, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} left"
    return "less than a minute left"


# -- approval page -----------------------------------------------------------------------------
# A GET shows the request and changes nothing, because chat programs, mail scanners and browsers prefetch links.
# Only the two buttons (POST) decide.


router = APIRouter(include_in_schema=False, dependencies=[anybody_by_link])

DOOR = "page"
PACKAGE = "cortex_plane.http"


@router.get("/approvals/{token}")
async def look(request: Request, plane: ThePlane, token: str) -> Response:
    store = plane.store
    found = await get_by_token(store, token)
    await refuse_guessing(store, request, found)
    return _rendered(unknown_page(), 404) if found is None else await _page(plane, token)


@router.post("/approvals/{token}")
async def decide(request: Request, plane: ThePlane, token: str) -> Response:
    form = form_of(await request.body())
    store = plane.store
    try:
        answer = await decide_by_token(store, token, form.decision, reason=form.reason, edits=form.edits, door=DOOR)
    except InvalidInput as error:
        return await _page(plane, token, form, str(error), 422)
    await refuse_guessing(store, request, answer)
    if isinstance(answer, Unknown):
        return _rendered(unknown_page(), 404)
    return await _page(plane, token, form, notice_of(answer), status_of(answer))


@router.get("/approval-page.css")
async def style() -> Response:
    css = (files(PACKAGE) / "templates" / "approval.css").read_bytes()
    return Response(css, media_type="text/css", headers={"Cache-Control": "public, max-age=3600"})


async def _page(plane: Plane, token: str, form: Form | None = None, notice: str = "", status: int = 200) -> Response:
    store = plane.store
    found = await get_by_token(store, token)
    if found is None:
        return _rendered(unknown_page(), 404)
    request, user_id = found
    voted = any(vote.user_id == user_id for vote in await store.approvals.votes(request.id))
    return _rendered(page_view(request, plane.clock.now(), form or Form(), notice, voted=voted), status)


def _rendered(view: dict[str, object], status: int) -> Response:
    return Response(_environment().get_template("approval.html").render(view), status, media_type="text/html")


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader(PACKAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
