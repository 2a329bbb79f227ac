"""Every error that the plane raises on purpose: what it means, what it says, and what it becomes at each door."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

from cortex_plane.cli.errors import EXIT_CODES, EXIT_UNEXPECTED
from cortex_plane.errors import CortexError
from docs.builder import http_api
from docs.builder.markdown import literal, table

MODELS = [
    "cortex_plane.agents.model",
    "cortex_plane.approvals.decisions",
    "cortex_plane.approvals.messages",
    "cortex_plane.approvals.model",
    "cortex_plane.approvals.rules",
    "cortex_plane.approvals.views",
    "cortex_plane.audit.model",
    "cortex_plane.clock",
    "cortex_plane.costs.model",
    "cortex_plane.cursors",
    "cortex_plane.durable.schema",
    "cortex_plane.durations",
    "cortex_plane.errors",
    "cortex_plane.extras",
    "cortex_plane.grants.model",
    "cortex_plane.graphs.model",
    "cortex_plane.groups.model",
    "cortex_plane.http_client",
    "cortex_plane.ids",
    "cortex_plane.integrations.email.model",
    "cortex_plane.jobs.events",
    "cortex_plane.jobs.model",
    "cortex_plane.jobs.outcomes",
    "cortex_plane.jobs.retry",
    "cortex_plane.jobs.search",
    "cortex_plane.jobs.states",
    "cortex_plane.json",
    "cortex_plane.metrics.model",
    "cortex_plane.people.model",
    "cortex_plane.people.roles",
    "cortex_plane.queues.model",
    "cortex_plane.queues.why",
    "cortex_plane.redaction",
    "cortex_plane.retention.model",
    "cortex_plane.schedules.cron",
    "cortex_plane.schedules.cron.parse",
    "cortex_plane.schedules.cron.rule",
    "cortex_plane.schedules.cron.words",
    "cortex_plane.schedules.cron.zones",
    "cortex_plane.schedules.model",
    "cortex_plane.schedules.slots",
    "cortex_plane.server_urls",
    "cortex_plane.storage.http_state",
    "cortex_plane.telemetry",
    "cortex_plane.templates.model",
    "cortex_plane.webhooks.model",
    "cortex_plane.worker.model",
]


def page() -> str:
    heads = ["error", "meaning", "exit code", *(["HTTP"] if http_api.is_there() else [])]
    return (
        "# Errors\n\n"
        "One family: catch `CortexError`, or the branch that you mean. An error says what happened, to what, and what to do "
        "next; bad input names its field and changes nothing. The dots show of which error above it is a kind.\n\n"
        + table(heads, [_row(kind, depth) for kind, depth in _family(CortexError)])
    )


def all_errors() -> list[type[CortexError]]:
    return [kind for kind, _ in _family(CortexError)]


def _family(root: type[CortexError], depth: int = 0) -> Iterator[tuple[type[CortexError], int]]:
    _import_core()
    yield root, depth
    for child in sorted(root.__subclasses__(), key=lambda kind: kind.__name__):
        if child.__module__ in MODELS:
            yield from _family(child, depth + 1)


def _import_core() -> None:
    for name in MODELS:
        importlib.import_module(name)


def _row(kind: type[CortexError], depth: int) -> list[str]:
    name = "· " * depth + literal(kind.__name__)
    row = [name, _meaning(kind), str(_exit_code(kind))]
    return [*row, *([str(http_api.status_of(kind))] if http_api.is_there() else [])]


def _meaning(kind: type[CortexError]) -> str:
    """Its own words, or else what it says when it is raised, or else what the whole branch means."""
    own = kind.__dict__.get("__doc__")
    if own:
        return inspect.cleandoc(own).partition("\n\n")[0]
    if said := _said(kind):
        return f"“{said}”"
    return next((_meaning(parent) for parent in kind.__bases__ if issubclass(parent, CortexError)), "")


def _exit_code(kind: type[CortexError]) -> int:
    return next((code for family, code in EXIT_CODES.items() if issubclass(kind, family)), EXIT_UNEXPECTED)


def _said(kind: type[CortexError]) -> str:
    """The text that its constructor hands on, with the names of what is filled in. Empty where the caller gives it."""
    if "__init__" not in kind.__dict__:
        return ""
    tree = ast.parse(dedent(inspect.getsource(kind.__init__)))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__"]
    return _text(_assigned(tree, calls[0].args[0])) if calls and calls[0].args else ""


def _assigned(tree: ast.AST, node: ast.expr) -> ast.expr:
    """What a name was first given, where the message was put together before."""
    values = [
        one.value for one in ast.walk(tree) if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == ast.unparse(node)
    ]
    return values[0] if values else node


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_piece(part) for part in parts)
        case ast.IfExp(body=one, orelse=other):
            return " / ".join(filter(None, (_text(one), _text(other))))
        case _:
            return ""


def _piece(part: Any) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "…"
