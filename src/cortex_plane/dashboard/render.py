"""Renders pages: templates, filters, redaction, and static files by digest."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cortex_plane.clock import as_datetime
from cortex_plane.dashboard import charts
from cortex_plane.dashboard.flash import Note, forget_note, note_in
from cortex_plane.durations import ago, rough, span
from cortex_plane.errors import NotFound, Unavailable
from cortex_plane.http.auth import anybody, csrf_token, plane_of, seen_by, session_token
from cortex_plane.jobs.model import INTERNAL_PREFIX
from cortex_plane.people.roles import Caller, Role
from cortex_plane.queues.model import Control, Scope
from cortex_plane.redaction import redacted_text
from cortex_plane.schedules.cron import parse
from cortex_plane.schedules.cron.words import describe

HIDDEN = "•••••• hidden"
NAMES = "passw|pwd|secret|token(?!s|_usage|_count)|api[_-]?key|authori[sz]ation|credential|private[_-]?key|cookie|bearer"
SECRET_NAME = re.compile(f"{NAMES}|^auth$", re.IGNORECASE)
SECRET_IN_TEXT = re.compile(NAMES, re.IGNORECASE)
SECRET_VALUE = re.compile(r"\b(ctx_[A-Za-z0-9_-]{20,}|cortex_apr_[A-Za-z0-9_.-]{8,}|sk-[A-Za-z0-9_-]{16,}|Bearer\s+\S{8,})")
# Documents and settings inside of texts, such as the summary of a result or a line of a log; perhaps cut off. Each pattern
# finds a name and what separates it from its value, and reads no character twice: the text may be made to hurt.
NAME_IN_JSON = re.compile(r'"([^"]*+)(?="\s*+:\s*+")')
VALUE_IN_JSON = re.compile(r'("\s*+:\s*+)"[^"\\]*+(?:\\.[^"\\]*+)*+"?')
NAME_OF_SETTING = re.compile(r"(?<![\w-])([\w-]++)(?=\s*+=)")
VALUE_OF_SETTING = re.compile(r"(\s*+=\s*+)[^\s,;&]++")


def redacted(value: Any, name: str = "") -> Any:
    """The same document with secrets hidden. Numbers and answers to yes-or-no stay: `max_tokens` is no secret."""
    match value:
        case dict():
            return {key: redacted(inner, str(key)) for key, inner in value.items()}
        case list():
            return [redacted(inner, name) for inner in value]
        case str() if value and SECRET_NAME.search(name):
            return HIDDEN
        case str():
            return _in_text(value)
        case _:
            return value


def _in_text(text: str) -> str:
    text = _without_values(text, NAME_IN_JSON, VALUE_IN_JSON, f'"{HIDDEN}"')
    text = _without_values(text, NAME_OF_SETTING, VALUE_OF_SETTING, HIDDEN)
    return redacted_text(SECRET_VALUE.sub(HIDDEN, text))


def _without_values(text: str, names: re.Pattern[str], values: re.Pattern[str], instead: str) -> str:
    shown: list[str] = []
    done = 0
    for name in names.finditer(text):
        if name.start() < done or not SECRET_IN_TEXT.search(name[1]):
            continue
        if value := values.match(text, name.end()):
            shown += (text[done : name.end()], value[1], instead)
            done = value.end()
    return "".join((*shown, text[done:]))


# -- files -------------------------------------------------------------------------------------
# Style, script and pictures of the pages. Their addresses hold a digest, so that browsers may keep them for ever.
#
# htmx is built into our wheel, from the wheel of django-htmx. In a checkout that is used as it is, it is taken from there.


router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).parent / "static"
HTMX = "htmx.min.js"
TYPES = {"style.css": "text/css", "cortex.js": "text/javascript", HTMX: "text/javascript", "icon.svg": "image/svg+xml"}
FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/static/{digest}/{name}", dependencies=[anybody])
async def static(digest: str, name: str) -> Response:
    if name not in TYPES or digest != _digest(name):
        raise NotFound(f"There is no such file: {name!r:.80}.")
    return Response(_content(name), media_type=TYPES[name], headers={"Cache-Control": FOR_EVER})


def address_of_file(name: str) -> str:
    return f"/static/{_digest(name)}/{name}"


@lru_cache
def _digest(name: str) -> str:
    return sha256(_content(name)).hexdigest()[:16]


@lru_cache
def _content(name: str) -> bytes:
    built_in = FOLDER / name
    if name != HTMX or built_in.exists():
        return built_in.read_bytes()
    package = find_spec("django_htmx")
    if package is None or package.origin is None:
        raise Unavailable("The file of htmx is missing from this installation. Run: make setup")
    return (Path(package.origin).parent / "static" / "django_htmx" / "htmx-2.min.js").read_bytes()


# -- rendering ---------------------------------------------------------------------------------
# From a template to a page: what every page shows, and how times, lengths and documents are written.


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
    store = plane.store
    everywhere = bool(caller.everywhere)
    session = session_token(request)
    whose = None if caller.may(Role.VIEWER) else caller.user_id
    waiting = await store.approvals.list(waiting_for=whose, tenant_id=caller.tenant_id, limit=MOST_COUNTED)
    return Shell(
        here=request.url.path,
        caller=caller,
        tenants=[tenant.name for tenant in await store.tenants.list()] if everywhere else [],
        gate=seen_by(caller, await store.controls.get(Scope.GATE, "")),
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
