"""What a job tells while it goes on, what webhooks tell, and what the audit log records."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import cortex_plane
from cortex_plane.jobs.events import LineLogged, News, Position, ProgressMade, StateChanged, TimedEvent, as_document
from cortex_plane.jobs.states import JobStatus, RunStatus, WaitReason
from cortex_plane.queues.model import Scope
from cortex_plane.webhooks.model import EVENTS, TEST_EVENT
from docs.builder.markdown import literal, table

SOURCE = Path(cortex_plane.__file__).parent
ACTION = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
HEAD = ("type", "position", "at")
TELLS: dict[type, str] = {
    StateChanged: "The job went from one state to another, as its history has it.",
    LineLogged: "A line of `ctx.log`.",
    ProgressMade: "What `ctx.progress` said.",
}
INSERT = re.compile(r"insert into cortex\.audit_log\b.*?;", re.DOTALL)


def page() -> str:
    return "\n".join(
        [
            "# Events, causes and audit actions\n",
            "## What a job tells\n",
            "`cortex jobs watch ID --json` prints one in each line, with `type`, `position` (where to go on from) and `at`.\n",
            table(["type", "tells", "fields"], [_event(kind) for kind in get_args(News)]),
            "## What webhooks tell\n",
            "Endpoints ask for these one by one, for `job.*`, or for all with `*`.\n",
            table(["event", "when"], [(literal(event), _when(event)) for event in (*EVENTS, TEST_EVENT)]),
            "## How things stand\n",
            table(["what", "may be"], _statuses()),
            "## What the audit log records\n",
            "The column `action` of `cortex.audit_log`; `plane.audit.record(...)` may add your own.\n",
            *(f"- {literal(action)}" for action in audit_actions()),
            "",
        ]
    )


def audit_actions() -> list[str]:
    return sorted({*_in_python(), *_in_sql()})


def _event(kind: Any) -> tuple[str, str, str]:
    own = kind.__dict__.get("__doc__") or ""
    told = TELLS[kind] if own.startswith(f"{kind.__name__}(") else inspect.cleandoc(own)
    some = kind(**{field.name: _Anything() for field in fields(kind)})
    shown = as_document(TimedEvent(datetime.now(UTC), Position(), some))
    return literal(vars(kind)["type"]), told, ", ".join(literal(name) for name in shown if name not in HEAD)


class _Anything:
    """Stands for a value that nobody looks at."""

    def __getattr__(self, name: str) -> None:
        return None


def _when(event: str) -> str:
    subject, _, what = event.partition(".")
    return "asked for by `cortex webhooks test`" if subject == "webhook" else f"a job became {what.upper()}"


def _statuses() -> list[tuple[str, str]]:
    kinds = {"a job": JobStatus, "a run": RunStatus, "why a job is in RETRY": WaitReason}
    return [(what, ", ".join(literal(status) for status in kind)) for what, kind in kinds.items()]


def _in_sql() -> Iterator[str]:
    for path in (SOURCE / "storage" / "postgres").rglob("*.sql"):
        for statement in INSERT.findall(path.read_text()):
            yield from re.findall(rf"'({ACTION.pattern})'", statement)


def _in_python() -> Iterator[str]:
    """The literals that are given to an AuditEntry: directly, through a helper beside it, or through a name `action`."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if "AuditEntry" in text:
            for node in ast.walk(ast.parse(text)):
                for literal_node in _candidates(node):
                    yield from _actions(literal_node)


def _candidates(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(), args=[first, *_]):
            yield first
        case ast.Assign(targets=[ast.Name(id="action")], value=value):
            yield value


def _actions(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        match part:
            case ast.JoinedStr(values=[ast.FormattedValue(), ast.Constant(value=str() as ending)]):
                yield from (f"{scope.upper()}{ending}" for scope in Scope if scope is not Scope.GATE)
            case ast.Constant(value=str() as text) if ACTION.fullmatch(text):
                yield text
