"""From a template to a page: what every page shows, and how times, lengths and documents are written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cortex_plane.adapters.dashboard import charts
from cortex_plane.adapters.dashboard.files import address_of_file
from cortex_plane.adapters.dashboard.notes import Note, forget_note, note_in
from cortex_plane.adapters.dashboard.redaction import redacted
from cortex_plane.adapters.http.access import csrf_token, plane_of, session_token
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.controls import Control, Scope
from cortex_plane.core.cron import parse
from cortex_plane.core.cron.words import describe
from cortex_plane.core.instants import as_datetime
from cortex_plane.core.jobs import INTERNAL_PREFIX
from cortex_plane.core.spans import ago, rough, span

MOST_COUNTED = 100


@dataclass(frozen=True, slots=True)
class Shell:
    """What is around every page."""

    here: str
    caller: Caller
    tenants: list[str]
    """Between which one may choose; empty for those who have one."""
    gate: Control
    approvals: int
    csrf: str
    note: Note | None
    now: datetime
    named_tenant: str | None
    in_dev: bool

    def link(self, path: str, **query: Any) -> str:
        """An address of ours that stays in the tenant that was chosen."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        if self.named_tenant:
            given["tenant"] = self.named_tenant
        return quote(path, safe="/:@!$&'()*+,;=-._~") + (f"?{urlencode(given)}" if given else "")

    def may(self, role: str, everywhere: bool = False) -> bool:
        return self.caller.may(Role(role), everywhere=everywhere)


def get_ready() -> None:
    """So that the first who looks does not wait for the templates."""
    for template in ENVIRONMENT.list_templates():
        ENVIRONMENT.get_template(template)


async def page(request: Request, caller: Caller, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    shell = await _shell(request, caller)
    answer = HTMLResponse(ENVIRONMENT.get_template(template).render(shell=shell, link=shell.link, **context), status)
    if shell.note is not None:
        forget_note(answer)
    return answer


def bare_page(template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """For those whom we do not know yet."""
    return HTMLResponse(ENVIRONMENT.get_template(template).render(**context), status)


async def _shell(request: Request, caller: Caller) -> Shell:
    plane = plane_of(request)
    store = await plane.store
    everywhere = bool(caller.everywhere)
    session = session_token(request)
    whose = None if caller.may(Role.VIEWER) else caller.user_id
    waiting = await store.approvals.list(waiting_for=whose, tenant_id=caller.tenant_id, limit=MOST_COUNTED)
    return Shell(
        here=request.url.path,
        caller=caller,
        tenants=[tenant.name for tenant in await store.tenants.list()] if everywhere else [],
        gate=await store.controls.get(Scope.GATE, ""),
        approvals=len(waiting),
        csrf=csrf_token(session) if session else "",
        note=note_in(request),
        now=as_datetime(plane.clock.now()),
        named_tenant=request.query_params.get("tenant"),
        in_dev=getattr(request.app.state, "workshop", None) is not None,
    )


# -- how things are written ----------------------------------------------------------------------


def time_tag(at: datetime | None, form: str = "ago", now: datetime | None = None) -> Markup:
    """Written in UTC; the script turns it into the viewer's zone and leaves UTC to be seen by pointing at it."""
    if at is None:
        return Markup('<span class="none">–</span>')
    moment = at.astimezone(UTC)
    text = ago(at, now) if form == "ago" and now is not None else f"{moment:%Y-%m-%d %H:%M:%S}"
    return Markup('<time datetime="{}" data-form="{}" title="{}">{}</time>').format(
        moment.isoformat(), form, f"{moment:%Y-%m-%d %H:%M:%S.%f} UTC", text
    )


def seconds(value: float | None) -> str:
    return "–" if value is None else span(timedelta(seconds=value))


def between(start: datetime | None, end: datetime | None) -> str:
    return "–" if start is None or end is None else span(end - start)


def document(value: Any) -> str:
    return indented(redacted(value))


def indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def money(cents: int) -> str:
    return f"{cents / 100:,.2f}"


def in_words(cron: str) -> str:
    """`Every weekday at 09:00`."""
    return describe(parse(cron))


def kind_of_status(status: str) -> str:
    """The class of a state."""
    return str(status).lower().replace("_", "-")


def words_of(status: str) -> str:
    return str(status).replace("_", " ").capitalize()


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["internal"] = lambda name: str(name).startswith(INTERNAL_PREFIX)
    environment.globals |= {"static": address_of_file, "charts": charts, "time_tag": time_tag, "between": between}
    environment.filters |= {
        "seconds": seconds,
        "document": document,
        "indented": indented,
        "in_words": in_words,
        "money": money,
        "kind": kind_of_status,
        "words": words_of,
        "rough": rough,
        "redacted": redacted,
    }
    return environment


ENVIRONMENT = _environment()
